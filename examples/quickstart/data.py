"""The images of the main job: Fashion-MNIST in full, or scikit-learn's digits without
it.

Fashion-MNIST (Xiao et al., 2017, MIT licence): 60,000 + 10,000 images of 28 x 28 in
ten classes, as Debian's package ``dataset-fashion-mnist`` holds it. It is looked for on
this machine first, then unpacked from the package without root. Where there is no
``apt-get``, the 1,797 digits that scikit-learn ships replace it, enlarged to 28 x 28.
"""

from __future__ import annotations

import gzip
import os
import shutil
import struct
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

PACKAGE = "dataset-fashion-mnist"
FILES = {
    "train_images": "train-images-idx3-ubyte.gz",
    "train_labels": "train-labels-idx1-ubyte.gz",
    "test_images": "t10k-images-idx3-ubyte.gz",
    "test_labels": "t10k-labels-idx1-ubyte.gz",
}
FASHION = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)


@dataclass(frozen=True)
class Images:
    """A labelled image set: (n, 1, 28, 28) float32 in [-1, 1] and (n,) int64."""

    name: str
    source: str
    classes: tuple[str, ...]
    train_x: NDArray[np.float32]
    train_y: NDArray[np.int64]
    test_x: NDArray[np.float32]
    test_y: NDArray[np.int64]


def load(cache: Path) -> Images:
    """Find or fetch the images; `cache` keeps what had to be unpacked."""
    folder = _find_fashion_mnist(cache) or _unpack_debian_package(cache)
    return _read_fashion_mnist(folder) if folder else _digits()


def _find_fashion_mnist(cache: Path) -> Path | None:
    places = [
        Path(os.environ.get("PROA_DATA_HOME", "")) / "fashion-mnist",
        cache / "fashion-mnist",
        Path("/usr/share/datasets/fashion-mnist"),
        Path.home() / ".cache" / "proa" / "fashion-mnist",
    ]
    for place in places:
        if all((place / name).is_file() for name in FILES.values()):
            return place
    return None


def _unpack_debian_package(cache: Path) -> Path | None:
    if not (shutil.which("apt-get") and shutil.which("dpkg")):
        return None
    target = cache / "fashion-mnist"
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)
        # Package lists of our own, so that neither root nor an earlier update is
        # needed.
        (work / "lists" / "partial").mkdir(parents=True)
        own_lists = ["-o", f"Dir::State::Lists={work / 'lists'}"]
        attempts = [[], own_lists]
        for options in attempts:
            if options:
                _quiet(["apt-get", *options, "update"], work)
            _quiet(["apt-get", *options, "download", PACKAGE], work)
            packages = list(work.glob(f"{PACKAGE}_*.deb"))
            if packages:
                break
        else:
            return None
        if not _quiet(["dpkg", "-x", str(packages[0]), str(work / "root")], work):
            return None
        unpacked = work / "root" / "usr" / "share" / "datasets" / "fashion-mnist"
        part = target.with_name(target.name + ".part")
        shutil.rmtree(part, ignore_errors=True)
        shutil.copytree(unpacked, part)
        os.replace(part, target)
    return _find_fashion_mnist(cache)


def _quiet(command: list[str], folder: Path) -> bool:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, timeout=240, check=False
    )
    return done.returncode == 0


def _read_idx(path: Path) -> NDArray[np.uint8]:
    """The IDX format: two zeros, type 8 (unsigned byte), rank, big-endian sizes."""
    raw = gzip.decompress(path.read_bytes())
    rank = raw[3]
    shape = struct.unpack(f">{rank}I", raw[4 : 4 + 4 * rank])
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * rank).reshape(shape)


def _to_unit(images: NDArray[np.uint8]) -> NDArray[np.float32]:
    return (images[:, None].astype(np.float32) / np.float32(127.5)) - np.float32(1)


def _read_fashion_mnist(folder: Path) -> Images:
    raw = {key: _read_idx(folder / name) for key, name in FILES.items()}
    return Images(
        "Fashion-MNIST",
        str(folder),
        FASHION,
        _to_unit(raw["train_images"]),
        raw["train_labels"].astype(np.int64),
        _to_unit(raw["test_images"]),
        raw["test_labels"].astype(np.int64),
    )


def _digits() -> Images:
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    # 8 x 8 pixels of 0..16, each drawn 3 x 3 within a border of 2.
    large = np.kron(images.reshape(-1, 8, 8), np.ones((3, 3)))
    pixels = (np.pad(large, ((0, 0), (2, 2), (2, 2))) * (255 / 16)).astype(np.uint8)
    order = np.random.default_rng(0).permutation(len(pixels))
    x, y = _to_unit(pixels[order]), labels[order].astype(np.int64)
    return Images(
        "digits",
        "scikit-learn (Fashion-MNIST could not be downloaded)",
        tuple(str(d) for d in range(10)),
        x[:1400],
        y[:1400],
        x[1400:],
        y[1400:],
    )
