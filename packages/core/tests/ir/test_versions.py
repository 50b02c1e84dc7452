"""Operators of other versions in model files: converted, or refused."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest

from proa.errors import InvalidArgumentError, VersionError
from proa.ir import (
    Builder,
    Node,
    Program,
    converts,
    from_bytes,
    operator_versions,
    to_bytes,
    verify,
    versions,
)
from proa.ir.builder import make_node
from proa.runtime import engine_from_bytes
from proa.schema import ROWS

X = np.random.default_rng(0).standard_normal((5, 4)).astype(np.float32)
W = np.random.default_rng(1).standard_normal((4, 4)).astype(np.float32)


def with_version(content: bytes, op: str, version: int) -> bytes:
    """The file with another version of an operator, as FORMAT.md has it."""
    raw = bytearray(content)
    graph = 8 + int.from_bytes(raw[:8], "little")
    ops, count = struct.unpack_from("<II", raw, graph + 48)
    names = list(operator_versions(content))
    assert len(names) == count
    struct.pack_into("<I", raw, graph + ops + 8 * names.index(op) + 4, version)
    struct.pack_into("<I", raw, graph + 32, 0)
    struct.pack_into("<I", raw, graph + 32, zlib.crc32(raw))
    return bytes(raw)


@pytest.fixture
def registry() -> Iterator[None]:
    """Converters that a test registers end with it."""
    before = dict(versions.CONVERTERS)
    yield
    versions.CONVERTERS.clear()
    versions.CONVERTERS.update(before)


def leaky() -> bytes:
    b = Builder()
    x = b.input("x", "float32", (-1, 4))
    b.output(b.leaky_relu(b.leaky_relu(x, negative_slope=4.0), negative_slope=8.0))
    return to_bytes(b.program)


def run(program: Program, *inputs: np.ndarray) -> list[np.ndarray]:
    verify(program)
    return engine_from_bytes(to_bytes(program), 1).run(inputs)


@pytest.mark.feature("L524")
def test_a_file_says_the_version_of_each_operator() -> None:
    assert operator_versions(leaky()) == {"leaky_relu": ROWS["leaky_relu"].version}
    assert operator_versions(with_version(leaky(), "leaky_relu", 7)) == {
        "leaky_relu": 7
    }
    with pytest.raises(InvalidArgumentError, match="a model file must have"):
        operator_versions(b"no model")


@pytest.mark.feature("L522")
def test_a_later_version_is_refused_and_an_earlier_one_that_nothing_converts() -> None:
    with pytest.raises(VersionError, match="got 2: a newer version of Proa wrote it"):
        from_bytes(with_version(leaky(), "leaky_relu", 2))
    with pytest.raises(VersionError, match="got 0, and nothing converts version 0"):
        from_bytes(with_version(leaky(), "leaky_relu", 0))
    with pytest.raises(VersionError, match="version"):
        engine_from_bytes(with_version(leaky(), "leaky_relu", 2))


@pytest.mark.feature("L523")
def test_an_attribute_of_an_earlier_version_is_converted(registry: None) -> None:
    """Version 0 of leaky_relu, which there never was, divided by its slope."""

    @converts("leaky_relu", version=0)
    def _(program: Program, node: Node) -> Sequence[Node]:
        node.attrs = {"negative_slope": 1 / node.attrs["negative_slope"]}
        return ()

    program = from_bytes(with_version(leaky(), "leaky_relu", 0))
    (y,) = run(program, X)
    np.testing.assert_allclose(y, np.where(X > 0, X, X / 32), rtol=1e-6)
    assert operator_versions(to_bytes(program)) == {"leaky_relu": 1}
    (same,) = run(from_bytes(leaky()), X)  # version 1 is as it was
    np.testing.assert_allclose(same, np.where(X > 0, X, X * 32), rtol=1e-6)


def test_a_converter_may_put_nodes_before_and_name_another_operator(
    registry: None,
) -> None:
    """Version 0 of linear_act added the residual after the activation."""

    @converts("linear_act", version=0)
    def _(program: Program, node: Node) -> Sequence[Node]:
        x, w, bias, residual = node.inputs
        early = make_node(program, "linear_act", [x, w, bias, None], node.attrs)
        node.op, node.attrs = "add", {}
        node.inputs = [early.outputs[0], residual]
        return [early]

    b = Builder()
    x = b.input("x", "float32", (-1, 4))
    b.output(b.linear_act(x, b.parameter("w", W), None, x, act="relu"))
    program = from_bytes(with_version(to_bytes(b.program), "linear_act", 0))
    assert [node.op for node in program.nodes()] == ["linear_act", "add"]
    np.testing.assert_allclose(run(program, X)[0], np.maximum(X @ W, 0) + X, rtol=1e-5)
    plain = from_bytes(to_bytes(b.program))
    np.testing.assert_allclose(run(plain, X)[0], np.maximum(X @ W + X, 0), rtol=1e-5)


def test_converters_run_one_after_another(
    registry: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = replace(ROWS["leaky_relu"], version=3, changes=("of 2", "of 3"))
    monkeypatch.setitem(ROWS, "leaky_relu", row)

    def adds(number: float) -> Callable[[Program, Node], Sequence[Node]]:
        def convert(program: Program, node: Node) -> Sequence[Node]:
            slope = node.attrs["negative_slope"]
            node.attrs = {"negative_slope": slope * 10 + number}
            return ()

        return convert

    file = with_version(leaky(), "leaky_relu", 1)
    converts("leaky_relu", version=2)(adds(2))
    with pytest.raises(VersionError, match="nothing converts version 1"):
        from_bytes(file)
    converts("leaky_relu", version=1)(adds(1))
    slopes = [n.attrs["negative_slope"] for n in from_bytes(file).nodes()]
    assert slopes == [412, 812]
    later = from_bytes(with_version(file, "leaky_relu", 2))
    assert [n.attrs["negative_slope"] for n in later.nodes()] == [42, 82]


def test_a_converter_is_of_an_earlier_version_and_alone(registry: None) -> None:
    for op, version in (("no_such", 0), ("relu", 1), ("relu", -1)):
        with pytest.raises(InvalidArgumentError, match=f"converted from {version}"):
            converts(op, version=version)
    converts("relu", version=0)(lambda program, node: ())
    with pytest.raises(InvalidArgumentError, match="no converter yet"):
        converts("relu", version=0)


@pytest.mark.feature("L523")
def test_every_change_of_an_operator_is_recorded_and_has_a_converter() -> None:
    for op, row in ROWS.items():
        assert row.version == 1 + len(row.changes)
        assert all(text.strip() for text in row.changes)
        for version in range(1, row.version):
            assert (op, version) in versions.CONVERTERS
