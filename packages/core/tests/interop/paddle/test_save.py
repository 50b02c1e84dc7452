"""Layers and programs written as Paddle's model files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proa
import proa.nn.functional as F
from proa import nn, static
from proa.cli import main
from proa.errors import InvalidArgumentError, UnimplementedError
from proa.interop import paddle
from proa.ir import Builder
from proa.static import InputSpec

pytest.importorskip("google.protobuf")

from proa.interop.paddle.exporter.save import save_program
from proa.interop.paddle.proto import attributes, parse

RNG = np.random.default_rng(0)
X = RNG.standard_normal((2, 3)).astype(np.float32)


class Net(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 4)

    def forward(self, x: Any) -> Any:
        return F.relu(self.fc(x))


SPEC = [InputSpec([None, 3], "float32", "x")]


def expected(net: Net, x: Any) -> Any:
    return np.maximum(x @ net.fc.weight.numpy() + net.fc.bias.numpy(), 0)


def test_a_layer_is_written_with_paddles_operators(tmp_path: Path) -> None:
    net = Net()
    paddle.save(net, tmp_path / "net", SPEC)
    program = parse("ProgramDesc", (tmp_path / "net.pdmodel").read_bytes())
    (block,) = program.blocks
    assert [op.type for op in block.ops] == [
        "feed", "matmul_v2", "elementwise_add", "relu", "scale", "fetch",
    ]  # fmt: skip
    assert attributes(block.ops[1])["trans_x"] is False
    shapes = {v.name: list(v.type.lod_tensor.tensor.dims) for v in block.vars}
    assert shapes["x"] == [-1, 3] and shapes["fc.weight"] == [3, 4]
    persistable = [v.name for v in block.vars if v.persistable]
    assert sorted(persistable) == ["fc.bias", "fc.weight", "feed", "fetch"]
    # Sorted by name: what comes before the elements of a vector is 16 zero bytes, the
    # size of the description, and that.
    data = (tmp_path / "net.pdiparams").read_bytes()
    assert data[:24] == bytes(16) + b"\x04\x00\x00\x00\x08\x05\x10\x04"
    np.testing.assert_array_equal(np.frombuffer(data[24:40], "f4"), net.fc.bias.numpy())


def test_what_is_written_is_read(tmp_path: Path) -> None:
    net = Net()
    proa.jit.save(net, tmp_path / "net", SPEC, format="paddle")
    for n in (1, 2):
        found = proa.jit.load(tmp_path / "net")(proa.to_tensor(X[:n])).numpy()
        np.testing.assert_allclose(found, expected(net, X[:n]), rtol=1e-6)


def test_a_saved_model_is_converted_by_the_command(tmp_path: Path) -> None:
    net, target = Net(), tmp_path / "net.pdmodel"
    proa.jit.save(net, tmp_path / "net.proa", SPEC)
    assert main(["export", str(tmp_path / "net.proa"), str(target)]) == 0
    found = paddle.load(target)(proa.to_tensor(X)).numpy()
    np.testing.assert_allclose(found, expected(net, X), rtol=1e-6)


def test_static_mode_writes_a_model(tmp_path: Path) -> None:
    net, executor = Net(), static.Executor(proa.CPUPlace())
    proa.jit.save(net, tmp_path / "net", SPEC)
    program, feeds, fetches = static.load_inference_model(tmp_path / "net", executor)
    static.save_inference_model(
        tmp_path / "again", feeds, fetches, executor, program=program, format="paddle"
    )
    found = paddle.load(tmp_path / "again")(proa.to_tensor(X)).numpy()
    np.testing.assert_allclose(found, expected(net, X), rtol=1e-6)


def branch(x: Any) -> Any:
    return x * 2 if x.sum() > 0 else x - 1


def loop(x: Any) -> Any:
    i = proa.zeros([1])
    while i < x.sum():
        x, i = x + 0.25, i + 1
    return x, i


def test_branches_and_loops_become_blocks(tmp_path: Path) -> None:
    spec = [InputSpec([2], "float32")]
    proa.jit.save(branch, tmp_path / "branch", spec, format="paddle")
    proa.jit.save(loop, tmp_path / "loop", spec, format="paddle")
    read = paddle.load(tmp_path / "branch")
    for x in (np.float32([1, 2]), np.float32([-1, 0])):
        found = read(proa.to_tensor(x)).numpy()
        np.testing.assert_array_equal(found, x * 2 if x.sum() > 0 else x - 1)
    x, rounds = np.float32([1, 1]), 0
    while rounds < x.sum():
        x, rounds = x + np.float32(0.25), rounds + 1
    found, i = paddle.load(tmp_path / "loop")(proa.to_tensor(np.float32([1, 1])))
    np.testing.assert_array_equal(found.numpy(), x)
    assert i.numpy().tolist() == [rounds]


class Tagger(nn.Layer):
    """A label for each word, by an LSTM that reads sentences of several lengths."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(20, 6)
        self.body = nn.LSTM(6, 5, num_layers=2, direction="bidirect")
        self.head = nn.Linear(10, 3)

    def forward(self, ids: Any, lengths: Any) -> Any:
        return self.head(self.body(self.words(ids), sequence_length=lengths)[0])


class Encoder(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(20, 8)
        self.body = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(8, 2, 16, activation="gelu"), 2
        )

    def forward(self, ids: Any, lengths: Any) -> Any:
        mask = (ids < lengths.unsqueeze(1) + 10).astype("float32")
        return self.body(self.words(ids), (mask.unsqueeze([1, 2]) - 1) * 1e4)[:, 0]


@pytest.mark.parametrize("kind", [Tagger, Encoder])
def test_networks_of_sentences(kind: Any, tmp_path: Path) -> None:
    net = kind()
    net.eval()
    specs = [InputSpec([None, None], "int64"), InputSpec([None], "int64")]
    proa.jit.save(net, tmp_path / "net", specs, format="paddle")
    read = paddle.load(tmp_path / "net")
    for count, length in ((3, 7), (1, 4)):
        ids = proa.to_tensor(RNG.integers(0, 20, (count, length)))
        lengths = proa.to_tensor(RNG.integers(1, length + 1, count))
        with proa.no_grad():
            want = net(ids, lengths).numpy()
            found = read(ids, lengths).numpy()
        np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-6)


def test_a_network_of_the_library(tmp_path: Path) -> None:
    net = proa.vision.models.shufflenet_v2_x0_25()
    for name, buffer in net.named_buffers():
        low = 0.5 if name.endswith("_variance") else -0.1
        value = RNG.uniform(low, low + 0.5, buffer.shape)
        buffer.set_value(value.astype(np.float32))
    net.eval()
    x = proa.to_tensor(RNG.standard_normal((2, 3, 64, 64)).astype(np.float32))
    spec = [InputSpec([None, 3, 64, 64])]
    proa.jit.save(net, tmp_path / "net", spec, format="paddle")
    with proa.no_grad():
        want, found = net(x).numpy(), paddle.load(tmp_path / "net")(x).numpy()
    assert np.abs(found - want).max() < 1e-5 * np.abs(want).max()


def test_what_was_read_is_written_again(tmp_path: Path) -> None:
    """Also an axis of one place and a symbolic dimension, which is squeezed."""
    spec = [InputSpec([None, None, 3], "float32")]
    proa.jit.save(lambda x: x[:, 0] * 2, tmp_path / "one", spec, format="paddle")
    read = paddle.load(tmp_path / "one")
    proa.jit.save(read, tmp_path / "two", read.input_spec, format="paddle")
    x = RNG.standard_normal((2, 4, 3)).astype(np.float32)
    found = paddle.load(tmp_path / "two")(proa.to_tensor(x)).numpy()
    np.testing.assert_array_equal(found, x[:, 0] * 2)


def test_operators_that_paddle_lacks_are_named(tmp_path: Path) -> None:
    b = Builder()
    x = b.input("x", "float32", (3,))
    b.output(b.linear_recurrence(x, x), b.tile_grad(x, x, repeats=[1]))
    with pytest.raises(UnimplementedError) as error:
        save_program(b.program, tmp_path / "f")
    assert "linear_recurrence: " in str(error.value)
    assert "tile_grad: " in str(error.value)
    assert not list(tmp_path.iterdir())
    with pytest.raises(InvalidArgumentError, match="proa or paddle, got 'onnx'"):
        proa.jit.save(Net(), tmp_path / "f", SPEC, format="onnx")
