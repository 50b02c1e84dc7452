"""Data sets of images from small archives in their public forms."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
from PIL import Image

import proa
from proa.errors import InvalidArgumentError, NotFoundError
from proa.vision import (
    datasets,
    get_image_backend,
    image_load,
    set_image_backend,
    transforms,
)
from proa.vision.image import image_load as image_load_by_module

from ..archives import make_tar

RNG = np.random.RandomState(0)


def encoded(pixels: np.ndarray, form: str, palette: bool = False) -> bytes:
    image = Image.fromarray(pixels)
    if palette:
        image.putpalette([i for i in range(256) for _ in range(3)])
    out = io.BytesIO()
    image.save(out, form)
    return out.getvalue()


def batch(count: int, label: bytes, protocol: int = 2) -> tuple[bytes, Any]:
    data = RNG.randint(0, 256, (count, 3072)).astype(np.uint8)
    labels = RNG.randint(0, 10, count).tolist()
    # Protocol 2 of NumPy arrays and byte keys is what the published archives hold.
    content = {b"data": data, label: labels, b"batch_label": b"x"}
    return pickle.dumps(content, protocol), (data, labels)


@pytest.mark.parametrize("hundred", [False, True])
def test_cifar(tmp_path: Path, hundred: bool) -> None:
    label = b"fine_labels" if hundred else b"labels"
    folder = "cifar-100-python" if hundred else "cifar-10-batches-py"
    names = ["train"] if hundred else [f"data_batch_{i}" for i in range(1, 6)]
    test = "test" if hundred else "test_batch"
    parts = {name: batch(3, label) for name in [*names, test]}
    path = make_tar(
        tmp_path / "archive.tar.gz", {f"{folder}/{k}": v[0] for k, v in parts.items()}
    )
    make = datasets.Cifar100 if hundred else datasets.Cifar10
    train = make(path, backend="cv2")
    assert len(train) == 3 * len(names)
    data, labels = parts[names[-1]][1]
    image, number = train[-1]
    want = data[-1].reshape(3, 32, 32).transpose(1, 2, 0)
    np.testing.assert_array_equal(image, want.astype(np.float32))
    assert number == labels[-1] and number.dtype == np.int64
    held = make(path, "test", transform=transforms.ToTensor())
    data, labels = parts[test][1]
    np.testing.assert_allclose(
        held[1][0].numpy(), data[1].reshape(3, 32, 32) / 255, rtol=1e-6
    )
    assert isinstance(make(path, "test")[0][0], Image.Image)
    planes, _ = make(path, "test", backend="tensor")[2]
    np.testing.assert_array_equal(planes.numpy(), data[2].reshape(3, 32, 32))
    images, numbers = next(iter(proa.io.DataLoader(held, batch_size=3)))
    assert images.shape == [3, 3, 32, 32]
    assert numbers.tolist() == labels


class Evil:
    def __reduce__(self) -> Any:
        return print, ("code of the archive ran",)


def test_cifar_archives_cannot_run_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = pickle.dumps({b"data": Evil(), b"labels": []})
    files = {"cifar-10-batches-py/test_batch": content}
    path = make_tar(tmp_path / "evil.tar.gz", files)
    with pytest.raises(InvalidArgumentError, match=r"must hold arrays, got .*print"):
        datasets.Cifar10(path, "test")
    assert "ran" not in capsys.readouterr().out
    with pytest.raises(NotFoundError, match=r"expected \S+/data_batch_1 in"):
        datasets.Cifar10(path, "train")
    (tmp_path / "text").write_text("no archive")
    with pytest.raises(InvalidArgumentError, match="must be a tar file"):
        datasets.Cifar10(str(tmp_path / "text"))
    with pytest.raises(InvalidArgumentError, match="mode must be train or test"):
        datasets.Cifar10(path, "valid")


def test_flowers(tmp_path: Path) -> None:
    pictures = [RNG.randint(0, 256, (5, 6, 3)).astype(np.uint8) for _ in range(4)]
    files = {
        f"jpg/image_{i:05d}.jpg": encoded(pixels, "JPEG")
        for i, pixels in enumerate(pictures, 1)
    }
    archive = make_tar(tmp_path / "102flowers.tgz", files)
    labels, splits = tmp_path / "imagelabels.mat", tmp_path / "setid.mat"
    scipy.io.savemat(labels, {"labels": np.array([[7, 8, 9, 10]], np.uint8)})
    scipy.io.savemat(
        splits, {"trnid": [[2]], "valid": [[4]], "tstid": np.array([[3, 1]])}
    )
    paths = (archive, str(labels), str(splits))
    train = datasets.Flowers(*paths)
    assert len(train) == 2
    image, label = train[0]
    assert image.size == (6, 5)
    assert label.tolist() == [9] and label.dtype == np.int64
    pixels, label = datasets.Flowers(*paths, mode="test", backend="cv2")[0]
    assert pixels.dtype == np.float32
    decoded = Image.open(io.BytesIO(files["jpg/image_00002.jpg"]))
    np.testing.assert_array_equal(pixels[:, :, ::-1], np.asarray(decoded))
    assert label.tolist() == [8]
    loader = proa.io.DataLoader(
        datasets.Flowers(*paths, transform=transforms.ToTensor()),
        batch_size=1, num_workers=2,
    )  # fmt: skip
    assert sorted(y.tolist() for _, y in loader) == [[[7]], [[9]]]
    with pytest.raises(InvalidArgumentError, match="mode must be one of"):
        datasets.Flowers(*paths, mode="all")
    with pytest.raises(InvalidArgumentError, match="MATLAB file"):
        datasets.Flowers(archive, archive, str(splits))


def test_voc2012(tmp_path: Path) -> None:
    root = "VOCdevkit/VOC2012"
    picture = RNG.randint(0, 256, (5, 6, 3)).astype(np.uint8)
    classes = RNG.randint(0, 21, (5, 6)).astype(np.uint8)
    files = {
        f"{root}/ImageSets/Segmentation/trainval.txt": b"a\nb\n",
        f"{root}/ImageSets/Segmentation/train.txt": b"a\n",
        f"{root}/ImageSets/Segmentation/val.txt": b"b\n",
    }
    for name in "ab":
        files[f"{root}/JPEGImages/{name}.jpg"] = encoded(picture, "JPEG")
        files[f"{root}/SegmentationClass/{name}.png"] = encoded(classes, "PNG", True)
    path = make_tar(tmp_path / "voc.tar", files, "w")
    assert [len(datasets.VOC2012(path, m)) for m in ("train", "test", "valid")] == [
        2, 1, 1,
    ]  # fmt: skip
    image, label = datasets.VOC2012(path)[1]
    assert image.size == label.size == (6, 5)
    np.testing.assert_array_equal(np.asarray(label), classes)
    image, label = datasets.VOC2012(path, backend="cv2")[0]
    assert image.shape == (5, 6, 3) and image.dtype == np.float32
    np.testing.assert_array_equal(label, classes)
    image, label = datasets.VOC2012(path, backend="tensor")[0]
    assert image.shape == [3, 5, 6]
    np.testing.assert_array_equal(label.numpy()[0], classes)


@pytest.fixture
def pets(tmp_path: Path) -> Path:
    for name in ("dog/b.png", "cat/x/a.PNG", "cat/c.jpg", "cat/notes.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        pixels = np.full((4, 5, 3), len(name), np.uint8)
        content = b"" if name.endswith("txt") else encoded(pixels, "PNG")
        (tmp_path / name).write_bytes(content)
    (tmp_path / "empty.txt").write_text("")
    return tmp_path


def test_dataset_folder(pets: Path) -> None:
    data = datasets.DatasetFolder(str(pets))
    assert data.classes == ["cat", "dog"]
    assert data.class_to_idx == {"cat": 0, "dog": 1}
    assert [Path(path).name for path, _ in data.samples] == ["c.jpg", "a.PNG", "b.png"]
    assert data.targets == [0, 0, 1]
    image, target = data[2]
    assert image.mode == "RGB" and target == 1
    shaped = datasets.DatasetFolder(pets, transform=transforms.ToTensor())
    assert shaped[0][0].shape == [3, 4, 5]
    texts = datasets.DatasetFolder(
        pets, lambda path: Path(path).name, extensions=[".txt"]
    )
    assert [sample for sample, _ in texts] == ["notes.txt"]
    chosen = datasets.DatasetFolder(pets, is_valid_file=lambda path: "a.PNG" in path)
    assert len(chosen) == 1
    with pytest.raises(NotFoundError, match="must be a folder"):
        datasets.DatasetFolder(pets / "none")
    with pytest.raises(NotFoundError, match="2 folders without any"):
        datasets.DatasetFolder(pets, extensions=[".gif"])
    with pytest.raises(InvalidArgumentError, match="at most one of"):
        datasets.DatasetFolder(pets, extensions=[".gif"], is_valid_file=bool)


def test_image_folder(pets: Path) -> None:
    data = datasets.ImageFolder(str(pets), transform=transforms.ToTensor())
    assert len(data) == 3
    (image,) = data[1]
    assert image.shape == [3, 4, 5]
    with pytest.raises(NotFoundError, match=r"got none"):
        datasets.ImageFolder(pets, extensions=[".gif"])


def test_image_backends(tmp_path: Path) -> None:
    pixels = RNG.randint(0, 256, (4, 5, 3)).astype(np.uint8)
    path = tmp_path / "x.png"
    path.write_bytes(encoded(pixels, "PNG"))
    assert get_image_backend() == "pil"
    assert image_load is image_load_by_module
    np.testing.assert_array_equal(np.asarray(image_load(str(path))), pixels)
    np.testing.assert_array_equal(image_load(path, "cv2"), pixels[:, :, ::-1])
    try:
        set_image_backend("tensor")
        assert get_image_backend() == "tensor"
        np.testing.assert_array_equal(
            image_load(path).numpy(), pixels.transpose(2, 0, 1)
        )
    finally:
        set_image_backend("pil")
    with pytest.raises(InvalidArgumentError, match="backend must be one of"):
        set_image_backend("gd")
    with pytest.raises(NotFoundError, match="path must be a file"):
        image_load(tmp_path / "none.png", "cv2")
    path.write_text("no image")
    with pytest.raises(InvalidArgumentError, match="must be an image"):
        image_load(path)


@pytest.mark.parametrize("name", ["Cifar10", "Cifar100", "Flowers", "VOC2012", "MNIST"])
def test_a_missing_archive_error_names_the_expected_folder(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROA_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(NotFoundError, match=r"in one of: .*or give \w+\."):
        getattr(datasets, name)()
