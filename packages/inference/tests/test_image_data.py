"""Images as binary files in bfloat16, and the accuracy of models on them."""

import json
import struct

import numpy as np
import pytest

import proa
from proa.errors import InvalidArgumentError
from proa.static import InputSpec
from proa_inference.cli import main
from proa_inference.image_data import read_image_data, write_image_data

RNG = np.random.default_rng(7)


def rounded(x):
    """The nearest bfloat16, of two the one whose last bit is 0, by its definition."""
    fraction, exponent = np.frexp(x.astype("float64"))
    return np.ldexp(np.rint(fraction * 256) / 256, exponent)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two classes, whose images are dark and bright."""
    image = pytest.importorskip("PIL.Image")
    root = tmp_path_factory.mktemp("images")
    for name, low in (("bright", 150), ("dark", 0)):
        (root / name).mkdir()
        for i in range(3):
            pixels = RNG.integers(low, low + 100, (20 + i, 30, 3)).astype("uint8")
            image.fromarray(pixels).save(root / name / f"{i}.png")
    return root


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Scores of two classes: the first grows with brightness."""
    net = proa.nn.Sequential(
        proa.nn.Conv2D(3, 2, 1), proa.nn.AdaptiveAvgPool2D(1), proa.nn.Flatten()
    )
    kernels = np.array([1, -1], "float32")[:, None, None, None] * np.ones((2, 3, 1, 1))
    net[0].weight.set_value(kernels.astype("float32"))
    net[0].bias.set_value(np.zeros(2, "float32"))
    path = tmp_path_factory.mktemp("model") / "net"
    proa.jit.save(net, str(path), input_spec=[InputSpec([None, 3, 8, 8], "float32")])
    return next(str(p) for p in path.parent.glob("net*") if p.suffix == ".proa")


def expected_image(path):
    """The middle 8 x 8 of an image whose shorter edge is resized to 10."""
    from PIL import Image

    with Image.open(path) as image:
        width, height = image.size
        edge = min(width, height)
        size = (width * 10 // edge, height * 10 // edge)
        pixels = np.asarray(image.resize(size, Image.Resampling.BILINEAR), "float64")
    top, left = round((size[1] - 8) / 2), round((size[0] - 8) / 2)
    x = pixels[top : top + 8, left : left + 8] / 255
    return ((x - 0.5) / 0.25).transpose(2, 0, 1)


@pytest.mark.feature("L556")
def test_a_folder_of_images_becomes_a_bfloat16_file(folder, model, tmp_path, capsys):
    out = tmp_path / "images.bin"
    options = ["--size", "8", "--resize", "10", "--mean", *["0.5"] * 3]
    assert (
        main(["images", str(folder), str(out), *options, "--std", *["0.25"] * 3]) == 0
    )
    data = out.read_bytes()
    assert struct.unpack("<8s5I6q", data[:76]) == (
        *(b"PROAIMG1", 1, 6, 3, 8, 8),
        *(0, 0, 0, 1, 1, 1),
    )
    assert len(data) == 76 + 2 * 6 * 3 * 8 * 8
    # An element of the file is the upper half of a float32.
    bits = np.frombuffer(data[76:], "<u2").astype("uint32") << 16
    stored = bits.view("float32").reshape(6, 3, 8, 8)
    want = [expected_image(p) for p in sorted(folder.glob("*/*.png"))]
    # 2^-9 of the value by rounding, and the resizing to whole levels of 255 of 0.25.
    np.testing.assert_allclose(stored, want, rtol=2.0**-8, atol=1e-5)
    images, labels = read_image_data(out)
    np.testing.assert_array_equal(images, stored)
    assert labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert main(["accuracy", model, str(out), "--json", "--batch", "4"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == {"images": 6, "top1": 1.0, "top5": 1.0}


def test_arrays_of_a_file_become_the_nearest_bfloat16(tmp_path):
    x = (RNG.standard_normal((5, 2, 3, 4)) * 10.0 ** RNG.integers(-9, 9, 4)).astype("f")
    x[0, 0, 0, :2] = 1 + 2.0**-8, 1 + 3 * 2.0**-8  # both between two
    x[1, 0, 0, :3] = np.inf, -np.inf, np.nan
    source, out = tmp_path / "arrays.npz", tmp_path / "images.bin"
    np.savez(source, images=x, labels=np.arange(5))
    assert main(["images", str(source), str(out)]) == 0
    images, labels = read_image_data(out)
    np.testing.assert_array_equal(images, rounded(x))
    np.testing.assert_array_equal(labels, np.arange(5))
    assert main(["images", str(source), str(out), "--dtype", "float32"]) == 0
    np.testing.assert_array_equal(read_image_data(out)[0], x)


def test_accuracy_counts_labels_among_the_best(model, tmp_path, capsys):
    images = (
        np.ones((4, 3, 8, 8), "float32") * np.array([1, -1, 1, -1])[:, None, None, None]
    )
    write_image_data(tmp_path / "data.bin", images, [0, 1, 1, 7])
    assert main(["accuracy", model, str(tmp_path / "data.bin")]) == 0
    assert capsys.readouterr().out == "4 images: top1 50.00%, top5 75.00%\n"
    write_image_data(tmp_path / "data.bin", images)
    assert main(["accuracy", model, str(tmp_path / "data.bin")]) != 0
    assert "of which 4 have no label" in capsys.readouterr().err


def test_bad_input_is_refused(tmp_path):
    path = tmp_path / "data.bin"
    for images, labels, dtype in (
        (np.zeros((2, 3)), None, "bfloat16"),
        (np.zeros((2, 1, 1, 1)), [1], "bfloat16"),
        (np.zeros((2, 1, 1, 1)), [1.0, 2.0], "bfloat16"),
        (np.zeros((2, 1, 1, 1)), None, "float16"),
    ):
        with pytest.raises(InvalidArgumentError, match="write_image_data"):
            write_image_data(path, images, labels, dtype)
    write_image_data(path, np.zeros((2, 1, 2, 2)))
    data = path.read_bytes()
    huge = data[:12] + b"\xff" * 16 + data[28:]
    for broken in (data[:-1], data + b"0", b"x" + data[1:], data[:9], huge):
        path.write_bytes(broken)
        with pytest.raises(InvalidArgumentError, match="read_image_data"):
            read_image_data(path)
