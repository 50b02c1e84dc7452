"""Event files: read back by a reader written for this test, checksums and all."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proa
from proa import nn
from proa.hapi.callbacks import TensorBoard, VisualDL
from proa.hapi.callbacks.event_file import EventWriter, masked_crc

X = np.random.RandomState(0).randn(40, 4).astype(np.float32)
DATA = proa.io.TensorDataset([X, X.argmax(1)[:, None]])


def crc(data: bytes) -> int:
    """CRC-32C by long division, bit by bit (RFC 3720)."""
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
    return value ^ 0xFFFFFFFF


def masked(data: bytes) -> int:
    value = crc(data)
    return ((value >> 15 | value << 17) + 0xA282EAD8) % 2**32


def test_checksums_are_crc_32c() -> None:
    assert crc(b"123456789") == 0xE3069283  # the polynomial's published check value
    for data in (b"", b"123456789", bytes(range(256))):
        assert masked_crc(data) == masked(data)


def records(path: Path) -> Iterator[bytes]:
    data = path.read_bytes()
    while data:
        (length,) = struct.unpack("<Q", data[:8])
        (check,) = struct.unpack("<I", data[8:12])
        assert check == masked(data[:8])
        event, rest = data[12 : 12 + length], data[12 + length :]
        assert struct.unpack("<I", rest[:4])[0] == masked(event)
        yield event
        data = rest[4:]


def varint(data: bytes) -> tuple[int, bytes]:
    value, shift = 0, 0
    while True:
        byte, data = data[0], data[1:]
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, data


def fields(data: bytes) -> dict[int, Any]:
    found: dict[int, Any] = {}
    while data:
        key, data = varint(data)
        if key & 7 == 0:
            found[key >> 3], data = varint(data)
        elif key & 7 == 1:
            found[key >> 3], data = struct.unpack("<d", data[:8])[0], data[8:]
        elif key & 7 == 5:
            found[key >> 3], data = struct.unpack("<f", data[:4])[0], data[4:]
        else:
            length, data = varint(data)
            found[key >> 3], data = data[:length], data[length:]
    return found


def scalars(folder: Path) -> list[tuple[str, int, float]]:
    (path,) = folder.glob("events.out.tfevents.*")
    events = [fields(e) for e in records(path)]
    assert events[0][3] == b"brain.Event:2"
    assert all(e[1] > 1.6e9 for e in events)
    values = [fields(fields(e[5])[1]) for e in events[1:]]
    return [
        (v[1].decode(), e.get(2, 0), v[2])
        for e, v in zip(events[1:], values, strict=True)
    ]


def test_scalars_are_read_back(tmp_path: Path) -> None:
    writer = EventWriter(tmp_path)
    wanted = [("loss", 0, 1.5), ("loss", 300, -2.0), ("größe", 2**40, 0.25)]
    for tag, step, value in wanted:
        writer.scalar(tag, value, step)
    writer.flush()
    assert scalars(tmp_path) == wanted
    writer.close()


@pytest.mark.parametrize("kind", [TensorBoard, VisualDL])
def test_a_training_is_written(kind: Any, tmp_path: Path) -> None:
    proa.seed(0)
    net = nn.Linear(4, 4)
    model = proa.Model(net)
    schedule = proa.optimizer.lr.StepDecay(0.1, 2, 0.5)
    model.prepare(
        proa.optimizer.SGD(schedule, net.parameters()), nn.CrossEntropyLoss(),
        proa.metric.Accuracy(),
    )  # fmt: skip
    board = kind(log_dir=str(tmp_path / "log"))
    model.fit(DATA, DATA, batch_size=10, epochs=2, verbose=0, callbacks=board)
    points = scalars(tmp_path / "log")
    train = [(step, v) for tag, step, v in points if tag == "train/loss"]
    assert [step for step, _ in train] == list(range(1, 9))
    assert train[-1][1] < train[0][1]
    assert [step for tag, step, _ in points if tag == "eval/acc"] == [4, 8]
    rates = [v for tag, _, v in points if tag == "lr"]
    np.testing.assert_allclose(rates[:4], [0.1, 0.1, 0.05, 0.05], rtol=1e-6)


def test_an_evaluation_alone_is_written(tmp_path: Path) -> None:
    model = proa.Model(nn.Linear(4, 4))
    model.prepare(loss=nn.CrossEntropyLoss())
    logs = model.evaluate(DATA, verbose=0, callbacks=TensorBoard(tmp_path))
    ((tag, step, value),) = scalars(tmp_path)
    assert (tag, step) == ("eval/loss", 0)
    assert value == pytest.approx(logs["loss"][0])


def test_tensorboard_reads_the_file(tmp_path: Path) -> None:
    module = "tensorboard.backend.event_processing.event_file_loader"
    loader = pytest.importorskip(module)
    writer = EventWriter(tmp_path)
    writer.scalar("loss", 0.5, 7)
    writer.close()
    events = list(loader.LegacyEventFileLoader(str(writer.path)).Load())
    assert events[1].step == 7
    assert events[1].summary.value[0].simple_value == 0.5
