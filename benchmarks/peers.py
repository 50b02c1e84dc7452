"""Matrix products of libraries that have no Python interface: oneDNN and OpenBLAS.

Both come as packages (the dependency group ``peers``) and need a C compiler, since a
call of many arguments by ctypes would take longer than a small product. What is missing
is left out.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.metadata
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from harness import Work

import proa

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Shape:
    """z (m, n) = x (m, k) @ y (k, n), so many times.

    transpose_b: y is the transpose of an (n, k) array.

    packed: y has been brought into the form that suits the library before.
    """

    m: int
    k: int
    n: int
    batch: int = 1
    transpose_b: bool = False
    packed: bool = False


@dataclass
class _Product:
    """A prepared product, and the arrays it uses."""

    library: ctypes.CDLL
    prefix: str
    handle: ctypes.c_void_p
    arrays: tuple[Any, ...]

    def __post_init__(self) -> None:
        self._run = self.library[f"{self.prefix}_run"]
        self._run.restype = None

    def __call__(self) -> None:
        self._run(self.handle)

    def __del__(self) -> None:
        self.library[f"{self.prefix}_free"](self.handle)


def products(shape: Shape, x: Any, y: Any) -> dict[str, Work]:
    """By name, what multiplies two arrays: float32, or uint8 by int8."""
    z = np.zeros(
        (shape.batch, shape.m, shape.n), np.float32 if x.dtype == "f4" else np.int32
    )
    arrays = (np.ascontiguousarray(x), np.ascontiguousarray(y), z)
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in arrays]
    sizes = [ctypes.c_int64(v) for v in (shape.batch, shape.m, shape.k, shape.n)]
    transpose_b, packed = ctypes.c_int(shape.transpose_b), ctypes.c_int(shape.packed)
    found: dict[str, Work] = {}
    library = _onednn()
    if library is not None:
        library.onednn_product.restype = ctypes.c_void_p
        kind = ctypes.c_int(x.dtype != "f4")
        handle = library.onednn_product(*sizes, transpose_b, kind, packed, *pointers)
        if handle:
            found["onednn"] = _Product(
                library, "onednn", ctypes.c_void_p(handle), arrays
            )
    blas = _openblas()
    if blas is not None and x.dtype == "f4" and not shape.packed:
        library, sgemm = blas
        library.blas_product.restype = ctypes.c_void_p
        handle = library.blas_product(sgemm, *sizes, transpose_b, *pointers)
        found["openblas"] = _Product(library, "blas", ctypes.c_void_p(handle), arrays)
    return found


def _file_of(package: str, name: str) -> Path | None:
    try:
        files = importlib.metadata.files(package) or []
    except importlib.metadata.PackageNotFoundError:
        return None
    found = [Path(str(f.locate())) for f in files if f.name == name]
    return found[0].resolve() if found else None


def _compile(source: str, *flags: str) -> ctypes.CDLL | None:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "peer.so"
        command = [compiler, "-O2", "-shared", "-fPIC", str(HERE / source), *flags]
        done = subprocess.run([*command, "-o", str(library)], capture_output=True)
        return ctypes.CDLL(str(library)) if done.returncode == 0 else None


@functools.cache
def _onednn() -> ctypes.CDLL | None:
    shared = _file_of("onednn-cpu-gomp", "libdnnl.so.3")
    header = _file_of("onednn-devel-cpu-gomp", "dnnl.h")
    if shared is None or header is None:
        return None
    while header.parent.name != "include":
        header = header.parent
    try:
        ctypes.CDLL(str(shared), mode=ctypes.RTLD_GLOBAL)
        openmp = ctypes.CDLL("libgomp.so.1")
    except OSError:
        return None
    openmp.omp_set_num_threads(proa.get_num_threads())
    return _compile("onednn_peer.c", f"-I{header.parent}")


@functools.cache
def _openblas() -> tuple[ctypes.CDLL, Any] | None:
    try:
        import scipy_openblas32 as package
    except ImportError:
        return None
    folder = Path(package.get_lib_dir())
    openblas = ctypes.CDLL(str(next(folder.glob("lib*.so"))))
    openblas.scipy_openblas_set_num_threads(proa.get_num_threads())
    library = _compile("blas_peer.c")
    if library is None:
        return None
    return library, ctypes.cast(openblas.scipy_cblas_sgemm, ctypes.c_void_p)
