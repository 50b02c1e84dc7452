"""Matrix products, as fractions of peak.

Products are x (m, k) @ y (k, n). int8 has its weights packed in every call, but where
it says "packed": there they were when the model was loaded, and so were oneDNN's.
oneDNN's is uint8 by int8 with int32 results, ours ends with int8.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import peers
from harness import Case, Work

import proa
from proa.runtime import load_engine
from proa.runtime import operators as ops
from proa.static import InputSpec

RNG = np.random.default_rng(0)

SQUARES = (64, 128, 256, 512, 1024, 2048)
RECTANGLES = [
    (m, k, n)
    for m in (1, 16, 128)
    for k, n in ((768, 768), (768, 3072), (3072, 768), (4096, 4096))
]
#: Products of so many matrices: attention's, and many small ones.
BATCHES = [(64, 64, 128, 64), (48, 128, 64, 128), (256, 32, 32, 32), (512, 8, 8, 8)]


def _case(
    name: str, contenders: dict[str, Work], bound: str, amount: float, **options: Any
) -> Case:
    options = {"rounds": 9, "slice_seconds": 0.03, **options}
    return Case(name, contenders, bound=bound, amount=amount, **options)


def cases(torch: Any) -> Iterator[Case]:
    """Every kernel of the suite, one after the other."""
    for n in SQUARES:
        yield _matmul(torch, n, n, n, "float32")
    for shape in RECTANGLES:
        yield _matmul(torch, *shape, "float32")
        yield _matmul(torch, *shape, "float32", transposed=True)
    for n in SQUARES[:-1]:
        yield _matmul(torch, n, n, n, "float64")
    for shape in BATCHES:
        for transposed in (False, True):
            yield _batch(torch, *shape, transposed=transposed)
    for m, k, n in [(n, n, n) for n in SQUARES[2:5]] + RECTANGLES:
        yield _matmul(torch, m, k, n, "bfloat16")
        yield _linear_int8(m, k, n)
        yield _packed_int8(m, k, n)


def _matmul(
    torch: Any, m: int, k: int, n: int, dtype: str, *, transposed: bool = False
) -> Case:
    a = RNG.standard_normal((m, k)).astype(np.float64 if dtype == "float64" else "f4")
    b = RNG.standard_normal((n, k) if transposed else (k, n)).astype(a.dtype)
    x, y = proa.to_tensor(a).astype(dtype), proa.to_tensor(b).astype(dtype)
    y = y.transpose([1, 0]) if transposed else y
    contenders: dict[str, Work] = {"proa": lambda: proa.matmul(x, y)}
    if torch is not None:
        p = torch.from_numpy(a).to(getattr(torch, dtype))
        q = torch.from_numpy(b).to(getattr(torch, dtype))
        q = q.T if transposed else q
        contenders["torch"] = lambda: p @ q
    if dtype == "float32":
        contenders |= peers.products(peers.Shape(m, k, n, transpose_b=transposed), a, b)
    if dtype == "float64":
        contenders["numpy"] = lambda: a @ b
    name = f"matmul {dtype} {m}x{k}x{n}{' of y.T' if transposed else ''}"
    bound = "f64" if dtype == "float64" else "f32"
    return _case(name, contenders, bound, 2.0 * m * k * n)


def _batch(torch: Any, batch: int, m: int, k: int, n: int, *, transposed: bool) -> Case:
    a = RNG.standard_normal((batch, m, k), np.float32)
    b = RNG.standard_normal((batch, n, k) if transposed else (batch, k, n), np.float32)
    x, y = proa.to_tensor(a), proa.to_tensor(b)
    y = y.transpose([0, 2, 1]) if transposed else y
    contenders: dict[str, Work] = {"proa": lambda: proa.matmul(x, y)}
    if torch is not None:
        p, q = torch.from_numpy(a), torch.from_numpy(b)
        q = q.transpose(1, 2) if transposed else q
        contenders["torch"] = lambda: torch.bmm(p, q)
    contenders |= peers.products(peers.Shape(m, k, n, batch, transposed), a, b)
    name = f"{batch} of {m}x{k}x{n}{' of y.T' if transposed else ''}"
    return _case(name, contenders, "f32", 2.0 * batch * m * k * n)


def _int8(m: int, k: int, n: int) -> tuple[Any, Any, Callable[[Any], Any]]:
    """x, the weights, and the layer that has them."""
    x, w = (RNG.integers(-127, 128, shape, dtype=np.int8) for shape in ((m, k), (k, n)))
    weights, scale = proa.to_tensor(w), proa.ones([n])

    def layer(x: Any) -> Any:
        return ops.linear_int8(x, weights, scale, None, out_scale=1.0, dtype="int8")

    return x, w, layer


def _int8_case(name: str, ours: Work, x: Any, w: Any, *, packed: bool = False) -> Case:
    (m, k), n = x.shape, w.shape[1]
    unsigned = (x.astype(np.int16) + 128).astype(np.uint8)
    contenders: dict[str, Work] = {"proa": ours}
    contenders |= peers.products(peers.Shape(m, k, n, packed=packed), unsigned, w)
    return _case(f"{name} {m}x{k}x{n}", contenders, "int8", 2.0 * m * k * n)


def _linear_int8(m: int, k: int, n: int) -> Case:
    x, w, layer = _int8(m, k, n)
    tensor = proa.to_tensor(x)
    return _int8_case("int8", lambda: layer(tensor), x, w)


def _packed_int8(m: int, k: int, n: int) -> Case:
    x, w, layer = _int8(m, k, n)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "layer.proa")
        proa.jit.save(layer, path, input_spec=[InputSpec([m, k], "int8", "x")])
        engine = load_engine(path)
    return _int8_case("int8 packed", lambda: engine.run([x]), x, w, packed=True)
