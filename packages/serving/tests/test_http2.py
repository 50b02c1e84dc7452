"""HTTP/2 frame by frame, by the sections of RFC 9113; what breaks a rule is refused."""

import contextlib
import struct
import time

import numpy as np
import pytest
import small_models
from http2_peer import (
    EMPTY,
    INFER,
    LIVE,
    Peer,
    call,
    data,
    frame,
    headers,
    infer_message,
    request,
)

from proa_serving.http2 import frames
from proa_serving.http2.frames import (
    COMPRESSION_ERROR,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    ENHANCE_YOUR_CALM,
    FLOW_CONTROL_ERROR,
    FRAME_SIZE_ERROR,
    GOAWAY,
    HEADERS,
    PADDED,
    PING,
    PREFACE,
    PRIORITY,
    PROTOCOL_ERROR,
    PUSH_PROMISE,
    RST_STREAM,
    SETTINGS,
    STREAM_CLOSED,
    WINDOW_UPDATE,
)


@pytest.fixture(scope="module")
def address(serve, tmp_path_factory):
    model = small_models.write_linear(tmp_path_factory.mktemp("m") / "m.linear")
    with serve({"m": model}, grpc_engine="asyncio", max_request_bytes=2**24) as server:
        yield server.grpc_address


@pytest.fixture
def peer(address):
    with Peer(address) as held:
        yield held
    with Peer(address) as another:  # whatever one connection did
        another.send(call(1))
        assert another.status(1) == (0, b"")


def setting(key, value):
    return frame(SETTINGS, 0, 0, struct.pack(">HI", key, value))


UPDATE_MAX = struct.pack(">I", 2**31 - 1)
BIG = request(LIVE, (b"a", b"x" * 20_000))
# What ends the connection, by section, with the code that GOAWAY must say.
ENDS = {
    "4.2 a frame beyond the maximum": (
        frames.head(2**21, DATA, 0, 1),
        FRAME_SIZE_ERROR,
    ),
    "4.2 headers beyond the maximum": (frames.head(2**15, 1, 4, 1), FRAME_SIZE_ERROR),
    "4.3 a block that is no code": (headers(1, b"\xff\xff\xff\xff"), COMPRESSION_ERROR),
    "5.1 DATA on an idle stream": (data(1), PROTOCOL_ERROR),
    "5.1 RST_STREAM on an idle stream": (
        frame(RST_STREAM, 0, 1, bytes(4)),
        PROTOCOL_ERROR,
    ),
    "5.1 WINDOW_UPDATE on an idle stream": (
        frame(WINDOW_UPDATE, 0, 1, UPDATE_MAX),
        PROTOCOL_ERROR,
    ),
    "5.1 CONTINUATION alone": (frame(CONTINUATION, 4, 1, request()), PROTOCOL_ERROR),
    "5.1 HEADERS on a closed stream": (call(1) + headers(1), STREAM_CLOSED),
    "5.1.1 an even stream": (headers(2), PROTOCOL_ERROR),
    "5.1.1 a lower stream": (headers(5) + headers(3), STREAM_CLOSED),
    "6.1 DATA on stream 0": (data(0), PROTOCOL_ERROR),
    "6.1 padding beyond DATA": (
        headers(1) + frame(DATA, PADDED, 1, b"\x06abcde"),
        PROTOCOL_ERROR,
    ),
    "6.2 HEADERS on stream 0": (headers(0), PROTOCOL_ERROR),
    "6.2 padding beyond HEADERS": (
        frame(HEADERS, PADDED | END_HEADERS, 1, b"\x09abc"),
        PROTOCOL_ERROR,
    ),
    "6.2 another frame in a block": (
        headers(1, flags=0) + frame(PING, 0, 0, bytes(8)),
        PROTOCOL_ERROR,
    ),
    "6.3 PRIORITY on stream 0": (frame(PRIORITY, 0, 0, bytes(5)), PROTOCOL_ERROR),
    "6.4 RST_STREAM on stream 0": (frame(RST_STREAM, 0, 0, bytes(4)), PROTOCOL_ERROR),
    "6.4 RST_STREAM of 3 bytes": (
        headers(1) + frame(RST_STREAM, 0, 1, bytes(3)),
        FRAME_SIZE_ERROR,
    ),
    "6.5 SETTINGS on a stream": (frame(SETTINGS, 0, 1), PROTOCOL_ERROR),
    "6.5 SETTINGS of 5 bytes": (frame(SETTINGS, 0, 0, bytes(5)), FRAME_SIZE_ERROR),
    "6.5 an acknowledgement that says more": (
        frame(SETTINGS, 1, 0, bytes(6)),
        FRAME_SIZE_ERROR,
    ),
    "6.5.2 ENABLE_PUSH of 2": (setting(2, 2), PROTOCOL_ERROR),
    "6.5.2 a window of 2**31": (setting(4, 2**31), FLOW_CONTROL_ERROR),
    "6.5.2 frames too small": (setting(5, 2**14 - 1), PROTOCOL_ERROR),
    "6.5.2 frames too large": (setting(5, 2**24), PROTOCOL_ERROR),
    "6.6 PUSH_PROMISE of a client": (
        frame(PUSH_PROMISE, END_HEADERS, 1, bytes(4)),
        PROTOCOL_ERROR,
    ),
    "6.7 PING on a stream": (frame(PING, 0, 1, bytes(8)), PROTOCOL_ERROR),
    "6.7 PING of 6 bytes": (frame(PING, 0, 0, bytes(6)), FRAME_SIZE_ERROR),
    "6.8 GOAWAY on a stream": (frame(GOAWAY, 0, 1, bytes(8)), PROTOCOL_ERROR),
    "6.9 WINDOW_UPDATE of 3 bytes": (
        frame(WINDOW_UPDATE, 0, 0, bytes(3)),
        FRAME_SIZE_ERROR,
    ),
    "6.9 WINDOW_UPDATE of 0": (frame(WINDOW_UPDATE, 0, 0, bytes(4)), PROTOCOL_ERROR),
    "6.9.1 a window beyond 2**31": (
        frame(WINDOW_UPDATE, 0, 0, UPDATE_MAX),
        FLOW_CONTROL_ERROR,
    ),
    "6.10 CONTINUATION of another stream": (
        headers(1, flags=0) + frame(CONTINUATION, 4, 3, b""),
        PROTOCOL_ERROR,
    ),
    "6.10 CONTINUATION without end": (
        headers(1, flags=0) + frame(CONTINUATION, 0, 1) * 1000,
        ENHANCE_YOUR_CALM,
    ),
    "10.5 SETTINGS without end": (frame(SETTINGS, 0, 0) * 5000, ENHANCE_YOUR_CALM),
    "10.5 PING without end": (frame(PING, 0, 0, bytes(8)) * 5000, ENHANCE_YOUR_CALM),
    "10.5 empty DATA without end": (
        headers(1) + data(1, b"", 0) * 5000,
        ENHANCE_YOUR_CALM,
    ),
    "10.5 resets without end": (
        b"".join(
            headers(at) + frame(RST_STREAM, 0, at, bytes(4)) for at in range(1, 9999, 2)
        ),
        ENHANCE_YOUR_CALM,
    ),
    "10.5 PRIORITY without end": (
        frame(PRIORITY, 0, 3, bytes(5)) * 5000,
        ENHANCE_YOUR_CALM,
    ),
}


@pytest.mark.parametrize("case", ENDS)
def test_what_ends_the_connection(peer, case):
    sent, code = ENDS[case]
    with contextlib.suppress(OSError):  # It was closed meanwhile.
        peer.send(sent)
    found = peer.until(GOAWAY)
    assert found is not None
    assert struct.unpack(">I", found[3][4:8])[0] == code
    assert peer.until() is None  # and it is closed


@pytest.mark.parametrize(
    "sent", [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", PREFACE + call(1), bytes(30)]
)
def test_a_connection_must_begin_with_the_preface_and_settings(address, sent):  # 3.4
    with Peer(address, begin=False) as peer:
        peer.send(sent)
        found = peer.until(GOAWAY)
        assert struct.unpack(">I", found[3][4:8])[0] == PROTOCOL_ERROR


def malformed(*more, **changes):
    return headers(1, request(LIVE, *more, **changes))


# What ends a stream, with the code of RST_STREAM.
RESETS = {
    "5.1 DATA after the end": (
        headers(1, flags=END_HEADERS | END_STREAM) + data(1),
        STREAM_CLOSED,
    ),
    "5.1 DATA on a closed stream": (call(1) + data(1), STREAM_CLOSED),
    "6.9 WINDOW_UPDATE of 0": (
        headers(1) + frame(WINDOW_UPDATE, 0, 1, bytes(4)),
        PROTOCOL_ERROR,
    ),
    "6.9.1 a window beyond 2**31": (
        headers(1) + frame(WINDOW_UPDATE, 0, 1, UPDATE_MAX) * 2,
        FLOW_CONTROL_ERROR,
    ),
    "8.1 trailers that do not end": (headers(1) + headers(1), PROTOCOL_ERROR),
    "8.1 trailers with a pseudo-header": (
        headers(1) + headers(1, request(), END_HEADERS | END_STREAM),
        PROTOCOL_ERROR,
    ),
    "8.2 upper case": (malformed((b"X-A", b"1")), PROTOCOL_ERROR),
    "8.2 an empty name": (malformed((b"", b"1")), PROTOCOL_ERROR),
    "8.2 a line break": (malformed((b"a", b"1\r\nb: 2")), PROTOCOL_ERROR),
    "8.2 a space before": (malformed((b"a", b" 1")), PROTOCOL_ERROR),
    "8.2.2 connection": (malformed((b"connection", b"close")), PROTOCOL_ERROR),
    "8.2.2 transfer-encoding": (
        malformed((b"transfer-encoding", b"chunked")),
        PROTOCOL_ERROR,
    ),
    "8.2.2 te": (malformed(te=b"gzip"), PROTOCOL_ERROR),
    "8.3 an unknown pseudo-header": (malformed(pseudo_a=b"1"), PROTOCOL_ERROR),
    "8.3 one of an answer": (malformed(pseudo_status=b"200"), PROTOCOL_ERROR),
    "8.3 one after others": (malformed((b":path", b"/")), PROTOCOL_ERROR),
    "8.3.1 no method": (malformed(without=[b":method"]), PROTOCOL_ERROR),
    "8.3.1 no scheme": (malformed(without=[b":scheme"]), PROTOCOL_ERROR),
    "8.3.1 no path": (malformed(without=[b":path"]), PROTOCOL_ERROR),
    "8.3.1 an empty path": (malformed(pseudo_path=b""), PROTOCOL_ERROR),
}


@pytest.mark.parametrize("case", RESETS)
def test_what_ends_a_stream_alone(peer, case):
    sent, code = RESETS[case]
    peer.send(sent)
    while (found := peer.until(RST_STREAM, GOAWAY))[3] == bytes(4):
        pass  # After an answer that needs no more of the request.
    assert found == (RST_STREAM, 0, 1, struct.pack(">I", code))
    peer.send(call(7))
    assert peer.status(7) == (0, b"")


@pytest.mark.parametrize(
    "sent",
    [
        frame(77, 0xFF, 0, b"of a later standard"),  # 4.1, 5.5
        frame(77, 0, 9, bytes(300_000)),
        setting(99, 7),  # 6.5.2
        frame(PRIORITY, 0, 9, bytes(5)),
        frame(GOAWAY, 0, 0, bytes(8)),
        setting(4, 0) + setting(4, 2**16),
        headers(1) + frame(RST_STREAM, 0, 1, bytes(4)) * 2,
    ],
)
def test_what_is_ignored(peer, sent):
    peer.send(sent)
    assert peer.ping()
    peer.send(call(3))
    assert peer.status(3) == (0, b"")


def test_calls_in_every_shape_of_frames(peer):
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    body = infer_message(x)
    block = request(INFER)
    third = len(block) // 3
    priority = bytes(5)
    padded = bytes([7]) + block + bytes(7)
    shapes = [
        headers(1, block) + data(1, body),
        headers(3, block[:third], 0)
        + frame(CONTINUATION, 0, 3, block[third : 2 * third])
        + frame(CONTINUATION, END_HEADERS, 3, block[2 * third :])
        + data(3, body),
        frame(HEADERS, END_HEADERS | PADDED, 5, padded)
        + frame(DATA, PADDED, 5, b"\x20" + body[:9] + bytes(0x20))
        + data(5, body[9:], 0)
        + data(5, b""),
        frame(HEADERS, END_HEADERS | frames.HAS_PRIORITY, 7, priority + block)
        + b"".join(data(7, body[at : at + 1], 0) for at in range(len(body)))
        + headers(7, b"", END_HEADERS | END_STREAM),  # the end by trailers
    ]
    peer.send(*shapes)
    answers = {}
    for _ in range(4):
        _, _, stream, payload = peer.until(DATA)
        answers[stream] = payload
        assert peer.status(stream) == (0, b"")
    assert answers.keys() == {1, 3, 5, 7}
    assert len(set(answers.values())) == 1
    assert small_models.linear(x).astype(np.float32).tobytes() in answers[1]


def test_bytes_one_at_a_time(address):
    with Peer(address, begin=False) as peer:
        for byte in PREFACE + frames.settings({}) + call(1):
            peer.send(bytes([byte]))
        assert peer.status(1) == (0, b"")


def test_more_streams_than_agreed_are_refused(address, serve, tmp_path):
    with Peer(address) as peer:
        for number in range(1, 521, 2):
            peer.send(headers(number))
        found = [peer.until(RST_STREAM)[2:] for _ in range(4)]
        code = struct.pack(">I", frames.REFUSED_STREAM)
        assert found == [(number, code) for number in (513, 515, 517, 519)]
        peer.send(data(1))
        assert peer.status(1) == (0, b"")


def test_answers_wait_for_the_windows_of_the_client(address):
    x = np.ones((3000, 4), np.float32)  # an answer of 60 KB
    with Peer(address, settings={frames.INITIAL_WINDOW_SIZE: 10}) as peer:
        peer.send(headers(1, request(INFER)), data(1, infer_message(x)))
        size = len(peer.until(DATA)[3])
        assert size == 10
        peer.send(call(3, LIVE and EMPTY))  # others are served meanwhile
        assert peer.status(3) == (0, b"")
        while size < 50_000:
            peer.send(frame(WINDOW_UPDATE, 0, 1, struct.pack(">I", 20_000)))
            while True:
                kind, _, _, payload = peer.read()
                assert kind == DATA
                size += len(payload)
                if size % 20_000 == 10:
                    break
        peer.send(setting(frames.INITIAL_WINDOW_SIZE, 2**20))
        assert peer.status(1) == (0, b"")


def test_what_is_no_grpc_gets_a_status_of_http(peer):  # gRPC over HTTP/2
    peer.send(headers(1, request(pseudo_method=b"GET"), END_HEADERS | END_STREAM))
    assert peer.until(HEADERS)[3] == {b":status": b"405"}
    peer.send(headers(3, request(content_type=b"application/json")), data(3))
    assert peer.until(HEADERS)[3] == {b":status": b"415"}


@pytest.mark.parametrize(
    ("changes", "body", "status", "text"),
    [
        ({"path": "/a.B/C"}, EMPTY, 12, "expected a method"),
        ({"grpc_timeout": b"1x"}, EMPTY, 13, "grpc-timeout must be"),
        ({"grpc_timeout": b"123456789S"}, EMPTY, 13, "grpc-timeout must be"),
        ({"grpc_timeout": b"0n"}, EMPTY, 4, "must answer within"),
        ({"grpc_encoding": b"zstd"}, EMPTY, 12, "must be identity, gzip"),
        ({}, b"", 13, "must have a message, got none"),
        ({}, EMPTY * 2, 13, "must have one message, got more"),
        ({}, EMPTY[:3], 3, "must be complete"),
        ({}, b"\0\0\0\0\x09abc", 3, "must be complete"),
        ({}, b"\x02\0\0\0\0", 13, "flag must be 0 or 1"),
        ({}, b"\x01\0\0\0\0", 13, "must have a grpc-encoding"),
        ({"grpc_encoding": b"gzip"}, b"\x01\0\0\0\x02ab", 13, "is damaged"),
        ({}, b"\0\xff\0\0\0", 8, "must be at most"),
        ({"path": INFER}, b"\0\0\0\0\x01\xff", 3, "message cannot be parsed"),
    ],
)
def test_what_gets_a_status_of_grpc(peer, changes, body, status, text):
    peer.send(call(1, body, **changes))
    code, message = peer.status(1)
    assert (code, text in message.decode()) == (status, True), message
    assert peer.ping()


def test_headers_beyond_the_limit_of_a_list(peer):
    peer.send(headers(1, request(LIVE, *[(b"a", b"x" * 100)] * 140)))
    assert peer.status(1)[0] == 8
    peer.send(call(3))
    assert peer.status(3) == (0, b"")


def test_a_head_that_drips_and_an_idle_connection_are_closed(serve, tmp_path):
    model = small_models.write_linear(tmp_path / "m.linear")
    options = {"head_timeout_s": 0.4, "idle_timeout_s": 0.5, "timeout_s": 0.4}
    with serve({"m": model}, grpc_engine="asyncio", **options) as server:
        with Peer(server.grpc_address, begin=False) as peer:
            began = time.monotonic()
            peer.send(PREFACE[:5])
            assert peer.read() is None
            assert time.monotonic() - began < 3
        with Peer(server.grpc_address) as peer:
            assert peer.until(GOAWAY)[3][4:8] == bytes(4)
            assert peer.read() is None
        with Peer(server.grpc_address) as peer:
            peer.send(headers(1), data(1, EMPTY[:2], 0))
            code, text = peer.status(1)
            assert (code, b"must arrive within" in text) == (4, True)


def test_a_client_that_does_not_read_is_given_up(serve, tmp_path):
    model = small_models.write_linear(tmp_path / "m.linear")
    options = {"timeout_s": 0.5, "max_in_flight_bytes": 2**26}
    x = np.ones((50_000, 4), np.float32)
    with serve({"m": model}, grpc_engine="asyncio", **options) as server:
        budget = server._server._service.budget
        with Peer(server.grpc_address) as peer:  # within a window of 64 KB
            peer.send(headers(1, request(INFER)), data(1, infer_message(x)))
            assert peer.until(RST_STREAM)[2] == 1
        large = {frames.INITIAL_WINDOW_SIZE: 2**30}
        with Peer(server.grpc_address, settings=large) as peer:  # in no window
            peer.send(frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 2**30)))
            for number in range(1, 21, 2):
                peer.send(
                    headers(number, request(INFER)), data(number, infer_message(x))
                )
            end = time.monotonic() + 10
            while budget.used and time.monotonic() < end:
                time.sleep(0.02)
        assert budget.used == 0
