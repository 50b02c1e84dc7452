"""Event files of TensorBoard: TFRecord files of `Event` messages with scalars.

A record is its length (uint64), the masked CRC-32C of that, the message, and the masked
CRC-32C of the message, all little-endian.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from pathlib import Path

from proa.base.varint import encoded


def _crc_table() -> list[int]:
    table = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


_TABLE = _crc_table()


def masked_crc(data: bytes) -> int:
    """CRC-32C of data, rotated and shifted as TFRecord wants it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


# Fields of protocol buffers: the number and the kind (0 varint, 1 double, 2 bytes, 5
# float) in one varint, then the value.
def _int_field(number: int, value: int) -> bytes:
    return encoded(number << 3) + encoded(value)


def _double_field(number: int, value: float) -> bytes:
    return encoded(number << 3 | 1) + struct.pack("<d", value)


def _bytes_field(number: int, value: bytes) -> bytes:
    return encoded(number << 3 | 2) + encoded(len(value)) + value


def _float_field(number: int, value: float) -> bytes:
    return encoded(number << 3 | 5) + struct.pack("<f", value)


class EventWriter:
    """Writes scalars to one new event file in a folder."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        now = time.time()
        name = f"events.out.tfevents.{now:.6f}.{socket.gethostname()}.{os.getpid()}"
        self.path = path / name
        self._file = self.path.open("wb")
        self._write(_double_field(1, now) + _bytes_field(3, b"brain.Event:2"))

    def _write(self, event: bytes) -> None:
        length = struct.pack("<Q", len(event))
        for part in (length, event):
            self._file.write(part + struct.pack("<I", masked_crc(part)))

    def scalar(self, tag: str, value: float, step: int) -> None:
        """Note the value of ``tag`` at a step."""
        summary = _bytes_field(1, tag.encode()) + _float_field(2, value)
        self._write(
            _double_field(1, time.time())
            + _int_field(2, step)
            + _bytes_field(5, _bytes_field(1, summary))
        )

    def flush(self) -> None:
        """Bring what was written to the disk."""
        self._file.flush()

    def close(self) -> None:
        """End the file."""
        self._file.close()
