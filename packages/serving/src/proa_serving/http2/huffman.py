"""The Huffman code of header strings (RFC 7541, section 5.2 and appendix B)."""

from __future__ import annotations

import functools

# The length of the code of each byte and of the end of a string, as "@" plus bits.
# The code is canonical: among codes of one length, the values count up with the bytes.
_LENGTHS = (
    r"MW\\\\\\\X^\\^\\\\\\\\^\\\\\\\\\FJJLMFHKJJHKHFFFEEEFFFFFFFGHOFLJMFGGGGGGGGGGGGGGGGG"
    r"GGGGGHGHMSMNFOEFEFEFFFEGGFFFEFGFEEFGGGGGOKNM\TVTTVVVWVWWWWWXWXXVWXWWWWUVWVWWXVUTV"
    r"VWWUWVVXUVWWUUVUWVWWTVVVWVVWZZTSVWVYZZZ[[ZXYSUZ[[Z[XUUZZ\[[[TXTUVUUWVVYYXXZWZ[ZZ"
    r"[[[[[\[[[[[Z^"
)
_END = 256
# A state is a node of the tree of codes; its row has an entry for each next 4 bits.
_Entry = tuple[int, int]  # the next state, and a byte that was completed or -1
_FAILED: _Entry = (-1, -1)


def codes() -> list[tuple[int, int]]:
    """The code and its length in bits, for each byte and, last, the end."""
    lengths = [ord(letter) - 64 for letter in _LENGTHS]
    found = [(0, 0)] * len(lengths)
    code, before = 0, 0
    for symbol in sorted(range(len(lengths)), key=lambda each: (lengths[each], each)):
        code <<= lengths[symbol] - before
        before = lengths[symbol]
        found[symbol] = (code, before)
        code += 1
    return found


@functools.cache
def _table() -> tuple[list[tuple[_Entry, ...]], list[bool]]:
    """Rows of entries by state, and whether a string may end in a state."""
    children: list[list[int]] = [[-1, -1]]  # the negative of symbol + 2 for a leaf
    ends = [True]
    for symbol, (code, size) in enumerate(codes()):
        state = 0
        for place in range(size - 1, -1, -1):
            bit = code >> place & 1
            if place == 0:
                children[state][bit] = -2 - symbol
            elif children[state][bit] == -1:
                children.append([-1, -1])
                # What is left at the end is at most 7 bits, all of them 1.
                ends.append(ends[state] and bool(bit) and size - place <= 7)
                children[state][bit] = len(children) - 1
                state = len(children) - 1
            else:
                state = children[state][bit]
    rows = [
        tuple(_entry(children, state, nibble) for nibble in range(16))
        for state in range(len(children))
    ]
    return rows, ends


def _entry(children: list[list[int]], state: int, nibble: int) -> _Entry:
    done = -1
    for place in (3, 2, 1, 0):
        state = children[state][nibble >> place & 1]
        if state <= -2:
            done = -2 - state  # codes have 5 bits or more: at most one ends here
            if done == _END:
                return _FAILED
            state = 0
    return state, done


def decode(data: bytes) -> bytes | None:
    """The string that ``data`` codes; None if it is no valid code."""
    rows, ends = _table()
    found = bytearray()
    state = 0
    for byte in data:
        state, done = rows[state][byte >> 4]
        if done >= 0:
            found.append(done)
        if state < 0:
            return None
        state, done = rows[state][byte & 15]
        if done >= 0:
            found.append(done)
        if state < 0:
            return None
    return bytes(found) if ends[state] else None
