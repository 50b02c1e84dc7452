"""Models that a load leaves for later ones: whose they are, and when they are read."""

import logging
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from inference_models import batch, check_mlp, mlp, write_mlp

import proa
from proa import nn
from proa.ir import file
from proa.static import InputSpec
from proa_inference import Config, create_predictor, saved, tuning
from proa_inference.saved import saved_path


def caching(model: Path, folder: Path) -> Config:
    config = Config(model)
    config.set_cpu_math_library_num_threads(1)
    config.set_optim_cache_dir(folder)
    config.enable_save_optim_model()
    return config


@pytest.fixture
def ran_passes(caplog):
    """Loads a config's model; whether passes ran, that is, nothing saved was read."""

    def load(config: Config) -> bool:
        caplog.clear()
        with caplog.at_level(logging.INFO, logger="proa_inference"):
            create_predictor(config)
        return "passes" in caplog.text

    return load


def write_linear(path: Path, seed: int) -> np.ndarray:
    """Write x (?, 6) -> x @ w; returns w."""
    w = np.random.default_rng(seed).standard_normal((6, 4)).astype(np.float32)
    layer = nn.Linear(6, 4, bias_attr=False)
    layer.weight.set_value(w)
    path.parent.mkdir(parents=True, exist_ok=True)
    proa.jit.save(layer, path, [InputSpec([None, 6], "float32", "x")])
    return w


def test_models_in_one_folder_have_a_file_each(tmp_path, ran_passes):
    cache, x = tmp_path / "cache", batch(3)
    # Of one name, one size and one graph: their weights and folders differ.
    weights = {
        folder: write_linear(tmp_path / folder / "net.proa", seed)
        for seed, folder in enumerate("ab")
    }
    for read in (False, True, True):
        for folder, w in weights.items():
            config = caching(tmp_path / folder / "net.proa", cache)
            assert ran_passes(config) is not read
            (y,) = create_predictor(config).run([x])
            np.testing.assert_allclose(y, x @ w, rtol=1e-5, atol=1e-5)
    assert len(list(cache.iterdir())) == 2


def test_a_saved_model_is_of_its_passes_precision_version_and_cpu(
    tmp_path, ran_passes, monkeypatch
):
    model, cache = write_mlp(tmp_path / "mlp.proa"), tmp_path / "cache"
    plain = caching(model, cache)
    others = [caching(model, cache) for _ in range(3)]
    others[0].delete_pass("fuse_epilogue")
    others[1].switch_ir_optim(False)
    others[2].enable_tuning(tmp_path / "tuning", {"x": (4, 6)})
    for config in (plain, *others):
        ran_passes(config)
        assert saved_path(config).is_file()
    assert len({saved_path(config) for config in (plain, *others)}) == 4
    for config in (plain, *others):
        assert not ran_passes(config)
        check_mlp(create_predictor(config).run([batch(2)]), batch(2))
    with monkeypatch.context() as patch:
        patch.setattr(proa, "__version__", "0.0.1")
        assert ran_passes(plain) and not ran_passes(plain)
    here = saved.machine()
    with monkeypatch.context() as patch:
        patch.setattr(saved, "machine", lambda: {**here, "isa": "another"})
        assert ran_passes(plain) and not ran_passes(plain)
    assert not ran_passes(plain)  # what the others saved is not in its place


def damages(whole: bytes) -> dict[str, bytes]:
    middle = len(whole) // 2
    return {
        "empty": b"",
        "its head": whole[:7],
        "half": whole[:middle],
        "all but its end": whole[:-9],
        "a changed bit": whole[:-20] + bytes([whole[-20] ^ 1]) + whole[-19:],
        "zeros": bytes(len(whole)),
        "a hole": whole[:middle] + bytes(64) + whole[middle + 64 :],
        "longer": whole + bytes(64),
    }


def test_a_torn_file_is_written_again(tmp_path, ran_passes):
    config = caching(write_mlp(tmp_path / "mlp.proa"), tmp_path / "cache")
    assert ran_passes(config)
    path = saved_path(config)
    whole = path.read_bytes()
    for damage, content in damages(whole).items():
        path.write_bytes(content)
        assert ran_passes(config), damage
        assert path.read_bytes() == whole, damage
        assert not ran_passes(config), damage


#: Loads a model six times, once after the saved file was deleted.
LOADS = """
import sys
from pathlib import Path
import numpy as np
from proa_inference import Config, create_predictor

for load in range(6):
    config = Config(sys.argv[1])
    config.set_optim_cache_dir(sys.argv[2])
    config.enable_save_optim_model()
    if load == 2:
        for path in Path(sys.argv[2]).glob("*.proa"):
            path.unlink(missing_ok=True)
    y = create_predictor(config).run([np.ones((2, 6), "f4")])[0]
    print(y.tobytes().hex())
"""


def test_threads_and_processes_write_one_file_at_once(tmp_path, ran_passes):
    model, cache = write_mlp(tmp_path / "mlp.proa"), tmp_path / "cache"
    command = [sys.executable, "-c", LOADS, str(model), str(cache)]
    others = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]

    def load(_: int) -> str:
        config = caching(model, cache)
        return create_predictor(config).run([np.ones((2, 6), "f4")])[0].tobytes().hex()

    with ThreadPoolExecutor(4) as threads:
        found = set(threads.map(load, range(24), timeout=100))
    for process in others:
        printed = process.communicate(timeout=100)[0].split()
        assert process.returncode == 0 and len(printed) == 6
        found.update(printed)
    assert len(found) == 1
    assert not ran_passes(caching(model, cache))
    assert [p.name for p in cache.iterdir()] == [saved_path(caching(model, cache)).name]


def test_what_was_measured_is_saved_with_the_model(tmp_path, ran_passes, monkeypatch):
    proa.seed(3)
    network = nn.Sequential(
        nn.Conv2D(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2D(32, 64, 3, padding=1)
    )
    model = tmp_path / "net.proa"
    network.eval()
    proa.jit.save(network, model, [InputSpec([None, 3, 20, 24], "float32", "x")])
    config = caching(model, tmp_path / "cache")
    config.enable_tuning(tmp_path / "tuning")
    monkeypatch.setattr(tuning, "_measured", lambda *_: ["im2col", "implicit_gemm"])
    first = create_predictor(config)
    assert sorted(file.read(saved_path(config)).metadata["strategies"].split()) == [
        "0:im2col",
        "1:implicit_gemm",
    ]

    def measured(*_):
        raise AssertionError("measured")

    monkeypatch.setattr(tuning, "tuned_strategies", measured)
    monkeypatch.setattr("proa_inference.optimize.tuned_strategies", measured)
    assert not ran_passes(config)
    x = np.random.default_rng(0).standard_normal((2, 3, 20, 24)).astype(np.float32)
    (y,) = create_predictor(config).run([x])
    np.testing.assert_array_equal(y, first.run([x])[0])
    want = network(proa.to_tensor(x)).numpy()
    np.testing.assert_allclose(y, want, rtol=1e-4, atol=1e-4)
    plain = caching(model, tmp_path / "cache")
    assert create_predictor(plain).memory()["packed"] != first.memory()["packed"]


def test_a_saved_model_is_read_by_later_loads_until_the_model_changes(
    tmp_path, ran_passes
):
    model = write_mlp(tmp_path / "mlp.proa")
    config = caching(model, tmp_path / "cache")
    assert ran_passes(config)
    assert not ran_passes(config) and not ran_passes(config)
    check_mlp(create_predictor(config).run([batch(2)]), batch(2))
    os.utime(model, ns=(1, 1))
    assert ran_passes(config) and not ran_passes(config)
    assert len(list((tmp_path / "cache").iterdir())) == 1


@pytest.mark.parametrize("change", ["renamed", "overwritten", "within a tick"])
def test_a_replaced_model_of_the_same_size_and_time_is_not_what_was_saved(
    tmp_path, change, monkeypatch
):
    model = write_mlp(tmp_path / "mlp.proa")
    program = file.read(model)
    for value in program.constants():
        value.data = 2 * value.data
    other = tmp_path / "other.proa"
    file.write(program, other)
    config = Config(model)
    config.set_optim_cache_dir(tmp_path / "cache")
    config.enable_save_optim_model()
    x = batch(2)
    first = create_predictor(config).run([x])[0]
    before = model.stat()
    assert other.stat().st_size == before.st_size
    if change == "renamed":
        os.replace(other, model)
    else:
        model.write_bytes(other.read_bytes())
    os.utime(model, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = model.stat()
    assert (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    if change == "within a tick":  # as of file systems whose clock is coarse
        assert after.st_ino == before.st_ino
        stat, known = Path.stat, model.resolve()
        monkeypatch.setattr(
            Path, "stat", lambda p, **how: before if p == known else stat(p, **how)
        )
    got = create_predictor(config).run([x])[0]
    assert not np.allclose(got, first)
    unsaved = create_predictor(Config(model)).run([x])[0]
    np.testing.assert_array_equal(got, unsaved)


def test_a_model_that_is_replaced_while_it_loads_is_not_what_was_saved(
    tmp_path, monkeypatch
):
    model = write_mlp(tmp_path / "mlp.proa")
    program = file.read(model)
    for value in program.constants():
        value.data = 2 * value.data
    file.write(program, tmp_path / "other.proa")
    config = Config(model)
    config.set_optim_cache_dir(tmp_path / "cache")
    config.enable_save_optim_model()
    content = Config.content

    def replacing(self):
        held = content(self)
        if (tmp_path / "other.proa").exists():
            os.replace(tmp_path / "other.proa", model)
        return held

    monkeypatch.setattr(Config, "content", replacing)
    x = batch(2)
    check_mlp(create_predictor(config).run([x]), x)  # what was there at first
    got = create_predictor(config).run([x])[0]
    np.testing.assert_array_equal(got, create_predictor(Config(model)).run([x])[0])
    assert not np.allclose(got, mlp(x)[0])
