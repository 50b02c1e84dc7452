"""Header compression against the examples of RFC 7541, appendix C, and any bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proa_serving.http2 import huffman
from proa_serving.http2.hpack import STATIC, CompressionError, Decoder, encode

GET = [(b":method", b"GET"), (b":scheme", b"http")]
AUTHORITY = (b":authority", b"www.example.com")
REQUESTS = [
    [*GET, (b":path", b"/"), AUTHORITY],
    [*GET, (b":path", b"/"), AUTHORITY, (b"cache-control", b"no-cache")],
    [
        (b":method", b"GET"),
        (b":scheme", b"https"),
        (b":path", b"/index.html"),
        AUTHORITY,
        (b"custom-key", b"custom-value"),
    ],
]
DATES = (b"Mon, 21 Oct 2013 20:13:21 GMT", b"Mon, 21 Oct 2013 20:13:22 GMT")
LOCATION = (b"location", b"https://www.example.com")
COOKIE = b"foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1"
RESPONSES = [
    [
        (b":status", b"302"),
        (b"cache-control", b"private"),
        (b"date", DATES[0]),
        LOCATION,
    ],
    [
        (b":status", b"307"),
        (b"cache-control", b"private"),
        (b"date", DATES[0]),
        LOCATION,
    ],
    [
        (b":status", b"200"),
        (b"cache-control", b"private"),
        (b"date", DATES[1]),
        LOCATION,
        (b"content-encoding", b"gzip"),
        (b"set-cookie", COOKIE),
    ],
]
TABLE_OF_256 = "3fe101"  # what the examples of responses assume
EXAMPLES = {
    "C.3": (
        [
            "828684410f7777772e6578616d706c652e636f6d",
            "828684be58086e6f2d6361636865",
            "828785bf400a637573746f6d2d6b65790c637573746f6d2d76616c7565",
        ],
        REQUESTS,
    ),
    "C.4": (
        [
            "828684418cf1e3c2e5f23a6ba0ab90f4ff",
            "828684be5886a8eb10649cbf",
            "828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf",
        ],
        REQUESTS,
    ),
    "C.5": (
        [
            TABLE_OF_256 + "4803333032580770726976617465611d4d6f6e2c203231204f63742032"
            "3031332032303a31333a323120474d546e1768747470733a2f2f7777772e6578616d706c"
            "652e636f6d",
            "4803333037c1c0bf",
            "88c1611d4d6f6e2c203231204f637420323031332032303a31333a323220474d54c05a04"
            "677a69707738666f6f3d4153444a4b48514b425a584f5157454f50495541585157454f49"
            "553b206d61782d6167653d333630303b2076657273696f6e3d31",
        ],
        RESPONSES,
    ),
    "C.6": (
        [
            TABLE_OF_256 + "488264025885aec3771a4b6196d07abe941054d444a8200595040b8166"
            "e082a62d1bff6e919d29ad171863c78f0b97c8e9ae82ae43d3",
            "4883640effc1c0bf",
            "88c16196d07abe941054d444a8200595040b8166e084a62d1bffc05a839bd9ab77ad94e7"
            "821dd7f2e6c7b335dfdfcd5b3960d5af27087f3672c1ab270fb5291f9587316065c003ed"
            "4ee5b1063d5007",
        ],
        RESPONSES,
    ),
}


@pytest.mark.parametrize("section", EXAMPLES)
def test_the_examples_of_the_standard(section):
    blocks, headers = EXAMPLES[section]
    decoder = Decoder(2**16)
    for block, want in zip(blocks, headers, strict=True):
        assert decoder.decode(bytes.fromhex(block)) == want


@pytest.mark.parametrize(
    ("block", "header"),
    [
        ("400a637573746f6d2d6b65790d637573746f6d2d686561646572", "custom-header"),
        ("040c2f73616d706c652f70617468", "/sample/path"),
        ("100870617373776f726406736563726574", "secret"),
        ("82", "GET"),
    ],
)
def test_the_examples_of_single_headers(block, header):  # C.2
    decoder = Decoder(2**16)
    found = decoder.decode(bytes.fromhex(block))
    assert [value for _, value in found] == [header.encode()]
    assert decoder.changes == (block[:2] == "40")


def test_the_static_table_and_the_code_are_those_of_the_appendices():
    assert len(STATIC) == 61
    assert STATIC[0] == (b":authority", b"")
    assert STATIC[15] == (b"accept-encoding", b"gzip, deflate")
    assert STATIC[60] == (b"www-authenticate", b"")
    codes = huffman.codes()
    assert (codes[48], codes[97], codes[256]) == ((0, 5), (3, 5), (0x3FFFFFFF, 30))
    assert sum(2.0**-size for _, size in codes) == 1


def huffman_coded(data):
    """``data`` by the codes, padded with ones."""
    bits = "".join(format(huffman.codes()[each][0], f"0{size}b") for each, size in
                   ((byte, huffman.codes()[byte][1]) for byte in data))  # fmt: skip
    bits += "1" * (-len(bits) % 8)
    return int(bits or "0", 2).to_bytes(len(bits) // 8, "big")


@given(st.binary(max_size=60))
def test_any_string_is_coded_and_back(data):
    assert huffman.decode(huffman_coded(data)) == data


@pytest.mark.parametrize(
    "block",
    [
        "80",  # index 0
        "be",  # beyond the tables
        "ff80808080808001",  # an integer without end
        "823fe101",  # one that does not come first
        "3fe2ffff7f",  # one above the limit
        "400a63",  # a string that is cut
        "00821fff0161",  # code that is padded by more than 7 bits
        "0084ffffffff0161",  # the code of the end
        "7f",
    ],
)
def test_malformed_blocks_are_refused(block):
    decoder = Decoder(2**16)
    assert decoder.decode(bytes.fromhex("3fe11f82")) == [(b":method", b"GET")]
    with pytest.raises(CompressionError):
        decoder.decode(bytes.fromhex(block))


def test_too_many_headers_change_the_table_all_the_same():
    decoder = Decoder(100)
    assert decoder.decode(b"\x40\x01a\x01b" + b"\xbe" * 1000) is None
    assert decoder.decode(b"\xbe") == [(b"a", b"b")]


def test_a_block_that_names_a_long_header_again_and_again_is_refused():
    decoder = Decoder(2**14)
    entry = encode([(b"x", b"v" * 4000)])
    table = b"\x40" + entry[1:] if entry[0] != 0x40 else entry
    assert decoder.decode(table + b"\xbe" * 15) is None
    with pytest.raises(CompressionError, match="too long"):
        decoder.decode(b"\xbe" * 12000)


def test_the_table_forgets_its_oldest_entries():
    decoder = Decoder(2**16)
    for at in range(200):
        decoder.decode(b"\x40\x03%03d\x01v" % at)
    newest = decoder.decode(b"\xbe")
    assert newest == [(b"199", b"v")]
    count = 4096 // 36
    assert decoder.decode(bytes([0x80 | 0x7F, 61 + count - 127]))[0][1] == b"v"
    with pytest.raises(CompressionError):
        decoder.decode(bytes([0x80 | 0x7F, 61 + count + 1 - 127]))


HEADERS = st.lists(
    st.tuples(st.binary(min_size=1, max_size=9), st.binary(max_size=300))
)


@given(HEADERS)
def test_what_is_encoded_is_decoded(headers):
    assert Decoder(2**20).decode(encode(headers)) == headers


@pytest.mark.fuzz
@given(st.lists(st.binary(max_size=40), max_size=6))
def test_any_bytes_are_headers_or_an_error(blocks):
    decoder = Decoder(500)
    for block in blocks:
        try:
            decoder.decode(block)
        except CompressionError:
            return
        assert decoder._size == sum(len(a) + len(b) + 32 for a, b in decoder._entries)
        assert decoder._size <= 4096
