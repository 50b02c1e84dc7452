"""Networks, transforms and datasets for images."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proa
from proa.errors import InvalidArgumentError, NotFoundError
from proa.vision import datasets, models, transforms

RNG = np.random.RandomState(0)


def count(net: Any) -> int:
    return sum(p.size for p in net.parameters())


def test_lenet() -> None:
    net = models.LeNet()
    assert count(net) == 61610
    assert net(proa.ones([2, 1, 28, 28])).shape == [2, 10]
    assert models.LeNet(0)(proa.ones([2, 1, 28, 28])).shape == [2, 16, 5, 5]


@pytest.mark.parametrize(
    ("make", "parameters"),
    [(models.resnet18, 11689512), (models.resnet34, 21797672),
     (models.resnet50, 25557032)],
)  # fmt: skip
def test_resnets_have_their_known_sizes(make: Any, parameters: int) -> None:
    assert count(make()) == parameters


def test_resnet_computes_and_trains() -> None:
    proa.seed(0)
    net = models.resnet18(num_classes=4)
    x = proa.randn([2, 3, 32, 32])
    loss = proa.nn.functional.cross_entropy(net(x), proa.to_tensor([0, 3]))
    loss.backward()
    assert all(p.grad is not None for p in net.parameters())
    net.eval()
    assert net(x).shape == [2, 4]


def test_to_tensor_and_normalize() -> None:
    image = RNG.randint(0, 256, (4, 5, 3)).astype(np.uint8)
    chain = transforms.Compose(
        [transforms.ToTensor(), transforms.Normalize([0.5] * 3, [0.25] * 3)]
    )
    got = chain(image)
    expected = (image.transpose(2, 0, 1) / 255.0 - 0.5) / 0.25
    assert isinstance(got, proa.Tensor)
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-5, atol=1e-6)
    assert transforms.ToTensor()(image[:, :, 0]).shape == [1, 4, 5]
    assert transforms.ToTensor("HWC")(image).shape == [4, 5, 3]
    one = transforms.Normalize(127.5, 127.5, data_format="HWC")(image)
    np.testing.assert_allclose(one, (image - 127.5) / 127.5, rtol=1e-6)
    digit = transforms.Normalize([127.5], [127.5], data_format="CHW")(image[:, :, 0])
    np.testing.assert_allclose(digit, (image[None, :, :, 0] - 127.5) / 127.5, rtol=1e-6)
    moved, label = transforms.Transpose()((image, 3))
    assert moved.shape == (3, 4, 5)
    assert label == 3


def test_resize() -> None:
    torch = pytest.importorskip("torch")
    image = RNG.rand(6, 8, 3).astype(np.float32)
    for size in ((12, 4), (3, 9)):
        got = transforms.resize(image, size)
        t = torch.tensor(image).permute(2, 0, 1)[None]
        expected = torch.nn.functional.interpolate(t, size, mode="bilinear")[0]
        np.testing.assert_allclose(got, expected.permute(1, 2, 0).numpy(), atol=1e-6)
        got = transforms.resize(image, size, "nearest")
        expected = torch.nn.functional.interpolate(t, size)[0].permute(1, 2, 0)
        np.testing.assert_array_equal(got, expected.numpy())
    assert transforms.Resize(3)(image).shape == (3, 4, 3)
    assert transforms.resize(np.zeros((4, 4), np.uint8), 8).dtype == np.uint8


def test_cropping_and_flipping() -> None:
    image = np.arange(20).reshape(4, 5)
    np.testing.assert_array_equal(transforms.hflip(image), image[:, ::-1])
    np.testing.assert_array_equal(transforms.vflip(image), image[::-1])
    np.testing.assert_array_equal(transforms.CenterCrop(2)(image), image[1:3, 2:4])
    assert transforms.Pad([1, 2])(image).shape == (8, 7)
    assert transforms.RandomCrop(3, padding=1)(image).shape == (3, 3)
    always, never = (transforms.RandomHorizontalFlip(p) for p in (1.0, 0.0))
    np.testing.assert_array_equal(always(image), image[:, ::-1])
    np.testing.assert_array_equal(never(image), image)
    with pytest.raises(InvalidArgumentError, match="at most"):
        transforms.center_crop(image, 10)


def write_idx(path: Path, array: np.ndarray, compress: bool = True) -> None:
    head = struct.pack(f">I{array.ndim}I", 0x0800 + array.ndim, *array.shape)
    data = head + array.tobytes()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(data) if compress else data)


def fill(folder: Path, compress: bool = True) -> tuple[np.ndarray, np.ndarray]:
    images = RNG.randint(0, 256, (7, 28, 28)).astype(np.uint8)
    labels = RNG.randint(0, 10, 7).astype(np.uint8)
    end = ".gz" if compress else ""
    for stem in ("train", "t10k"):
        write_idx(folder / f"{stem}-images-idx3-ubyte{end}", images, compress)
        write_idx(folder / f"{stem}-labels-idx1-ubyte{end}", labels, compress)
    return images, labels


@pytest.mark.parametrize("compress", [True, False])
def test_datasets_read_local_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compress: bool
) -> None:
    images, labels = fill(tmp_path / "fashion-mnist", compress)
    monkeypatch.setenv("PROA_DATA_HOME", str(tmp_path))
    data = datasets.FashionMNIST(mode="test", backend="cv2")
    image, label = data[3]
    np.testing.assert_array_equal(image, images[3].astype(np.float32))
    assert label.tolist() == [labels[3]]
    assert label.dtype == np.int64
    assert len(data) == 7
    assert data[-1][1].tolist() == [labels[-1]]
    scaled = datasets.FashionMNIST(transform=transforms.ToTensor())
    assert scaled[0][0].shape == [1, 28, 28]
    batch, ys = next(iter(proa.io.DataLoader(scaled, batch_size=4)))
    assert batch.shape == [4, 1, 28, 28]
    assert ys.shape == [4, 1]
    end = ".gz" if compress else ""
    folder = tmp_path / "fashion-mnist"
    assert np.asarray(datasets.FashionMNIST()[2][0]).tolist() == images[2].tolist()
    given = datasets.MNIST(
        str(folder / f"train-images-idx3-ubyte{end}"),
        str(folder / f"train-labels-idx1-ubyte{end}"),
    )
    assert len(given) == 7


def test_missing_data_error_names_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        datasets.FashionMNIST, "folders", classmethod(lambda cls: [tmp_path])
    )
    with pytest.raises(NotFoundError, match="dataset-fashion-mnist"):
        datasets.FashionMNIST()
    with pytest.raises(NotFoundError, match="image_path must be a file"):
        datasets.MNIST(image_path=str(tmp_path / "x"))
    with pytest.raises(InvalidArgumentError, match="train or test"):
        datasets.MNIST(mode="valid")


@pytest.mark.parametrize(
    "content",
    [b"", b"text file", b"\x1f\x8b broken", b"\x00\x00\x08\x01\x00\x00\x00\x09abc",
     b"\x00\x00\x08\x03\x00"],
)  # fmt: skip
def test_damaged_idx_files_are_rejected(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(InvalidArgumentError, match="read_idx"):
        datasets.read_idx(tmp_path / "x")


def test_the_real_data_if_it_is_here() -> None:
    try:
        data = datasets.FashionMNIST(mode="test")
    except NotFoundError:
        pytest.skip("Debian's dataset-fashion-mnist is not installed")
    assert data.images.shape == (10000, 28, 28)
    assert np.bincount(data.labels).tolist() == [1000] * 10


def test_names_of_vision_without_their_module() -> None:
    for name in ("DatasetFolder", "LeNet", "resnet18", "Compose", "MNIST"):
        assert callable(getattr(proa.vision, name))
    with pytest.raises(AttributeError, match="has no attribute 'Lenet'"):
        proa.vision.Lenet  # noqa: B018


def test_a_vgg_of_ones_own_layers() -> None:
    plan = [4, "M", 6, 6, "M"]
    body = proa.vision.models.vgg.make_layers(plan, batch_norm=True)
    kinds = [type(layer).__name__ for layer in body]
    conv = ["Conv2D", "BatchNorm2D", "ReLU"]
    assert kinds == [*conv, "MaxPool2D", *conv, *conv, "MaxPool2D"]
    assert body(proa.ones([1, 3, 8, 8])).shape == [1, 6, 2, 2]
