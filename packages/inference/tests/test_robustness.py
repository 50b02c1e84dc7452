"""Many shapes, threads, models and runs: memory stays, results do not change."""

import gc
import hashlib
import struct
import threading
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from inference_models import batch, check_mlp

import proa
import proa_inference
from proa import nn
from proa.errors import VersionError
from proa.static import InputSpec
from proa_inference import Config, create_predictor


def resident():
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def run_shapes(predictor, sizes):
    for n in sizes:
        (y, _) = predictor.run([np.ones((n, 6), np.float32)])
        assert y.shape == (n, 3)


@pytest.mark.parametrize("runs", [4_000, pytest.param(100_000, marks=pytest.mark.full)])
def test_memory_is_flat_over_runs_of_a_thousand_shapes(path, runs):
    config = Config(path)
    config.set_cpu_math_library_num_threads(1)
    predictor = create_predictor(config)
    run_shapes(predictor, range(1, 1001))
    gc.collect()
    before, held = resident(), predictor.memory()["arena"]
    run_shapes(predictor, (1 + i * 7 % 1000 for i in range(runs)))
    gc.collect()
    assert predictor.memory()["arena"] == held
    assert resident() - before < 8 << 20


def test_models_are_loaded_and_dropped_without_a_trace(tmp_path):
    network, large = nn.Linear(512, 512), tmp_path / "large.proa"
    proa.jit.save(network, large, [InputSpec([None, 512], "float32", "x")])
    x = np.ones((4, 512), np.float32)
    want = network(proa.to_tensor(x)).numpy()
    threads = threading.active_count()

    def load(times):
        for i in range(times):
            config = Config(large)
            config.set_cpu_math_library_num_threads(1 + i % 2)
            predictor = create_predictor(config)
            np.testing.assert_allclose(
                predictor.run([x])[0], want, rtol=1e-4, atol=1e-5
            )

    load(20)
    gc.collect()
    before = resident()
    load(200)
    gc.collect()
    # The allocator keeps some of the 400 MB that were loaded and packed.
    assert resident() - before < 64 << 20
    assert threading.active_count() == threads


@pytest.mark.feature("L564")
def test_clones_in_threads_have_memory_of_their_own(path):
    config = Config(path)
    config.set_cpu_math_library_num_threads(1)
    first = create_predictor(config)
    check_mlp(first.run([batch(2)]), batch(2))
    held = first.memory()["arena"]

    def work(index):
        clone = first.clone()  # from this thread, while others run
        assert clone.memory()["arena"] == 0
        assert clone.memory()["packed"] == first.memory()["packed"]
        for i in range(60):
            x = batch(1 + (7 * index + i) % 90, seed=i)
            check_mlp(clone.run([x]), x)
        return clone.memory()["arena"]

    with ThreadPoolExecutor(6) as threads:
        arenas = list(threads.map(work, range(6), timeout=100))
    assert min(arenas) > held
    assert first.memory()["arena"] == held
    check_mlp(first.run([batch(2)]), batch(2))


class Recognizer(nn.Layer):
    """Convolutions, a recurrent layer along the width, classes: an OCR model."""

    def __init__(self, cell):
        super().__init__()
        self.conv = nn.Conv2D(1, 8, 3, padding=1)
        self.norm = nn.BatchNorm2D(8)
        self.pool = nn.MaxPool2D((8, 2), (8, 2))
        self.recurrent = cell(8, 12, direction="bidirect")
        self.fc = nn.Linear(24, 5)

    def forward(self, image):
        features = self.pool(nn.functional.relu(self.norm(self.conv(image))))
        sequence = features.squeeze(2).transpose([0, 2, 1])
        return nn.functional.softmax(self.fc(self.recurrent(sequence)[0]))


@pytest.fixture(scope="module", params=[nn.LSTM, nn.GRU])
def recognizer(request, tmp_path_factory):
    proa.seed(5)
    network = Recognizer(request.param)
    network.norm._mean.set_value(np.linspace(-1, 1, 8, dtype="f4"))
    network.eval()
    path = tmp_path_factory.mktemp("models") / "ocr.proa"
    proa.jit.save(network, path, [InputSpec([None, 1, 8, None], "float32", "image")])
    return network, path


@pytest.mark.feature("L570")
def test_an_ocr_model_gives_each_image_of_a_batch_what_it_gets_alone(recognizer):
    network, path = recognizer
    images = np.random.default_rng(1).standard_normal((5, 1, 8, 40), np.float32)
    for optimize in (True, False):
        config = Config(path)
        config.switch_ir_optim(optimize)
        predictor = create_predictor(config)
        (whole,) = predictor.run([images])
        for i in range(5):
            (alone,) = predictor.run([images[i : i + 1]])
            np.testing.assert_allclose(whole[i], alone[0], rtol=1e-5, atol=1e-6)
        want = network(proa.to_tensor(images)).numpy()
        np.testing.assert_allclose(whole, want, rtol=1e-4, atol=1e-6)


@pytest.mark.feature("L562")
def test_passes_run_in_many_threads_at_once(recognizer, path):
    images = np.random.default_rng(2).standard_normal((2, 1, 8, 20), np.float32)
    (want,) = create_predictor(Config(recognizer[1])).run([images])

    def work(index):
        for i in range(6):
            if (index + i) % 2:
                check_mlp(create_predictor(Config(path)).run([batch(3)]), batch(3))
            else:
                (got,) = create_predictor(Config(recognizer[1])).run([images])
                np.testing.assert_array_equal(got, want)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, range(4), timeout=100))


def regions(size, count):
    """[start, end) of each region of adaptive pooling along an axis."""
    return [(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]


def pooled(x, height, width, reduce):
    """Adaptive pooling by its definition."""
    rows, columns = regions(x.shape[2], height), regions(x.shape[3], width)
    return np.stack(
        [
            np.stack([reduce(x[:, :, a:b, c:d], (2, 3)) for c, d in columns], -1)
            for a, b in rows
        ],
        -2,
    )


@pytest.mark.feature("L569")
def test_adaptive_pools_of_any_size_are_those_of_the_definition(tmp_path):
    sizes = [(1, 1), (2, 2), (3, 3), (6, 6), (5, 7)]

    def pyramid(x):
        averages = [nn.functional.adaptive_avg_pool2d(x, s) for s in sizes]
        return averages + [nn.functional.adaptive_max_pool2d(x, s) for s in sizes]

    for channels, shape in ((3, (13, 17)), (16, (12, 12))):
        x = np.random.default_rng(0).standard_normal((2, channels, *shape), np.float32)
        path = tmp_path / "pools.proa"
        spec = [InputSpec([None, channels, *shape], "float32", "x")]
        proa.jit.save(pyramid, path, spec)
        outputs = create_predictor(Config(path)).run([x])
        want = [pooled(x, *s, np.mean) for s in sizes]
        want += [pooled(x, *s, np.max) for s in sizes]
        for got, expected in zip(outputs, want, strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


def resized(x, size, axis, corners, nearest):
    """Interpolation of one axis by its definition."""
    n, i = x.shape[axis], np.arange(size, dtype=np.float64)
    if nearest:
        return np.take(x, np.floor(i * n / size).astype(int), axis)
    at = i * (n - 1) / (size - 1) if corners else (i + 0.5) * n / size - 0.5
    at = np.clip(at, 0, n - 1)
    low = np.floor(at).astype(int)
    high, part = np.minimum(low + 1, n - 1), (at - low)
    part = part.reshape([-1 if a == axis else 1 for a in range(x.ndim)])
    return np.take(x, low, axis) * (1 - part) + np.take(x, high, axis) * part


@pytest.mark.feature("L561")
@pytest.mark.feature("L560", how="mechanism")
@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bilinear-corners"])
def test_interpolation_is_that_of_the_definition(tmp_path, mode):
    kind, _, corners = mode.partition("-")
    path = tmp_path / "resize.proa"

    def resize(x):
        options = {"mode": kind, "align_corners": bool(corners)}
        return [
            nn.functional.interpolate(x, size=size, **options)
            for size in ([9, 14], [3, 4], [7, 5])
        ]

    proa.jit.save(resize, path, [InputSpec([None, 4, 7, 5], "float32", "x")])
    x = np.random.default_rng(0).standard_normal((2, 4, 7, 5), np.float32)
    outputs = create_predictor(Config(path)).run([x])
    for got, (height, width) in zip(outputs, [(9, 14), (3, 4), (7, 5)], strict=True):
        want = resized(x, height, 2, corners, kind == "nearest")
        want = resized(want, width, 3, corners, kind == "nearest")
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.feature("L573")
def test_comparisons_with_nan_are_those_of_ieee_754(tmp_path):
    path = tmp_path / "compare.proa"

    def compare(x, y):
        results = [x == y, x != y, x < y, x <= y, x > y, x >= y]
        return [*results, proa.isnan(x), proa.maximum(x, y), proa.where(x > y, x, y)]

    specs = [InputSpec([None], "float32", name) for name in "xy"]
    proa.jit.save(compare, path, specs)
    values = np.float32([0.0, -0.0, 1.5, -2.0, np.inf, -np.inf, np.nan])
    x, y = (a.reshape(-1).copy() for a in np.meshgrid(values, values))
    want = [x == y, x != y, x < y, x <= y, x > y, x >= y, np.isnan(x)]
    want += [np.maximum(x, y), np.where(x > y, x, y)]
    for rows in (len(x), 1):
        for optimize in (True, False):
            config = Config(path)
            config.switch_ir_optim(optimize)
            outputs = create_predictor(config).run([x[:rows], y[:rows]])
            for got, expected in zip(outputs, want, strict=True):
                np.testing.assert_array_equal(got, expected[:rows])


@pytest.mark.feature("L524")
@pytest.mark.parametrize("optimize", [True, False], ids=["passes", "plain"])
def test_a_model_of_another_version_of_an_operator_is_refused(path, optimize):
    content = bytearray(path.read_bytes())
    graph = 8 + int.from_bytes(content[:8], "little")  # as FORMAT.md has it
    table, count = struct.unpack_from("<II", content, graph + 48)
    assert count == 2  # linear and relu
    for i in range(count):
        other = bytearray(content)
        at = graph + table + 8 * i + 4
        assert struct.unpack_from("<I", other, at) == (1,)
        struct.pack_into("<I", other, at, 2)
        struct.pack_into("<I", other, graph + 32, 0)
        struct.pack_into("<I", other, graph + 32, zlib.crc32(other))
        config = Config()
        config.switch_ir_optim(optimize)
        config.set_model_buffer(bytes(other))
        with pytest.raises(VersionError, match="version"):
            create_predictor(config)


@pytest.mark.feature("L614")
def test_the_package_has_no_file_twice():
    folder = Path(proa_inference.__file__).parent
    seen = {}
    for found in sorted(folder.rglob("*")):
        if found.is_dir() or "__pycache__" in found.parts or not found.stat().st_size:
            continue
        digest = hashlib.sha256(found.read_bytes()).hexdigest()
        assert digest not in seen, (found, seen[digest])
        seen[digest] = found
    assert any(f.suffix == ".so" for f in seen.values())


def test_a_run_of_an_empty_graph_costs_little(tmp_path):
    path = tmp_path / "empty.proa"
    proa.jit.save(lambda x: x, path, [InputSpec([4], "float32", "x")])
    config = Config(path)
    config.set_cpu_math_library_num_threads(1)
    predictor, x = create_predictor(config), [np.ones(4, np.float32)]
    best = np.inf
    for _ in range(50):
        start = time.perf_counter()
        for _ in range(200):
            predictor.run(x)
        best = min(best, (time.perf_counter() - start) / 200)
    assert best < 100e-6  # 15 us on an idle machine; this one may be shared
