"""One file, the same numbers: every runtime on the models that core can build."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import proa
import proa_inference
import proa_lite
import proa_slim as slim
from proa import nn, static
from proa.static import InputSpec
from proa.vision.models import LeNet, mobilenet_v3_small, resnet18

RNG = np.random.default_rng(11)


class Encoder(nn.Layer):
    """Two post-norm transformer encoder layers over (batch, 12, 32)."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0)
        self.body = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(32, 5)

    def forward(self, x: proa.Tensor) -> proa.Tensor:
        return self.head(self.body(x).mean(1))


class Mlp(nn.Sequential):
    """Three products with a batch norm between."""

    def __init__(self) -> None:
        super().__init__(
            nn.Linear(20, 32), nn.BatchNorm1D(32), nn.ReLU(), nn.Linear(32, 7)
        )


Case = tuple[Callable[[], nn.Layer], tuple[int, ...]]
CASES: dict[str, Case] = {
    "lenet": (LeNet, (1, 28, 28)),
    "resnet18": (lambda: resnet18(num_classes=10), (3, 32, 32)),
    "mobilenet": (lambda: mobilenet_v3_small(num_classes=10), (3, 64, 64)),
    "encoder": (Encoder, (12, 32)),
    "mlp": (Mlp, (20,)),
}


def built(name: str) -> tuple[nn.Layer, tuple[int, ...], list[InputSpec]]:
    """The network in evaluation mode, its norms with statistics of a batch."""
    proa.seed(3)
    make, shape = CASES[name]
    network = make()
    network.train()
    network(proa.to_tensor(RNG.standard_normal((8, *shape)).astype(np.float32)))
    network.eval()
    return network, shape, [InputSpec([None, *shape], "float32", "x")]


def batch(n: int, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, *shape)).astype(np.float32)


def quantized(
    network: nn.Layer, shape: tuple[int, ...], spec: list[InputSpec]
) -> slim.QuantizedModel:
    """The network in int8, calibrated on four batches of 16."""
    return slim.quant_post_static(
        network,
        spec,
        [batch(16, shape, seed=s) for s in range(4)],
        slim.QuantConfig("abs_max"),
    )


def runtimes(path: Path) -> dict[str, Callable[[np.ndarray], np.ndarray]]:
    """Array in, array out, for each runtime."""
    plain = proa_inference.Config(path)
    plain.switch_ir_optim(False)
    predictors = {
        "inference": proa_inference.create_predictor(proa_inference.Config(path)),
        "inference, no passes": proa_inference.create_predictor(plain),
        "lite": proa_lite.create_predictor(proa_lite.Config(path)),
    }
    loaded = proa.jit.load(str(path))
    calls = {k: lambda x, p=p: p.run([x])[0] for k, p in predictors.items()}
    calls["jit.load"] = lambda x: loaded(proa.to_tensor(x)).numpy()
    return calls


@pytest.mark.parametrize("name", CASES)
def test_fp32_is_the_same_in_every_runtime(name: str, tmp_path: Path):
    network, shape, spec = built(name)
    path = tmp_path / f"{name}.proa"
    proa.jit.save(network, str(path), spec)
    for runtime, run in runtimes(path).items():
        for n in (1, 5, 2):
            x = batch(n, shape, seed=n)
            with proa.no_grad():
                want = network(proa.to_tensor(x)).numpy()
            np.testing.assert_allclose(
                run(x), want, rtol=1e-5, atol=1e-5, err_msg=f"{runtime}, batch {n}"
            )


@pytest.mark.parametrize("name", CASES)
@pytest.mark.feature("L544")
def test_int8_is_the_same_integers_in_every_runtime(name: str, tmp_path: Path):
    network, shape, spec = built(name)
    model = quantized(network, shape, spec)
    assert any(n.op.endswith("_int8") for n in model.program.main.nodes)
    path = tmp_path / f"{name}.int8.proa"
    model.save(path)
    for n in (1, 5):
        x = batch(n, shape, seed=n)
        want = model(x)
        exact = network(proa.to_tensor(x)).numpy()
        noise = np.abs(want - exact).max() / np.abs(exact).max()
        assert noise < 0.15, (
            f"int8 must stay near fp32, got a relative error of {noise:.3f}"
        )
        for runtime, run in runtimes(path).items():
            if name in ("lenet", "mlp", "resnet18", "mobilenet"):
                assert run(x).tobytes() == want.tobytes(), runtime
            else:
                np.testing.assert_allclose(
                    run(x), want, rtol=1e-4, atol=1e-4, err_msg=runtime
                )


@pytest.mark.feature("L474", "L554")
@pytest.mark.parametrize("name", ["lenet", "mlp"])
def test_a_trained_int8_network_is_the_same_in_every_runtime(name: str, tmp_path: Path):
    network, shape, spec = built(name)
    student = slim.QAT().quantize(network)
    optimizer = proa.optimizer.SGD(0.01, parameters=student.parameters())
    student.train()
    for seed in range(4):
        student(proa.to_tensor(batch(8, shape, seed))).square().mean().backward()
        optimizer.step()
        optimizer.clear_grad()
    student.eval()
    model = slim.QAT().convert(student, spec)
    assert any(n.op.endswith("_int8") for n in model.program.main.nodes)
    path = tmp_path / f"{name}.int8.proa"
    model.save(path)
    for n in (1, 5):
        x = batch(n, shape, seed=n)
        want, faked = model(x), student(proa.to_tensor(x)).numpy()
        assert np.abs(want - faked).max() < 0.1 * np.abs(faked).max()
        for runtime, run in runtimes(path).items():
            assert run(x).tobytes() == want.tobytes(), runtime


def test_an_int8_image_gives_the_same_bits_anywhere(tmp_path: Path):
    network, shape, spec = built("mobilenet")
    model = slim.quant_post_static(
        network, spec, [batch(4, shape)], slim.QuantConfig("abs_max")
    )
    path = tmp_path / "net.int8.proa"
    model.save(path)
    x = batch(3, shape, seed=1)
    want = model(x)
    for threads in (1, 2):
        config = proa_inference.Config(path)
        config.set_cpu_math_library_num_threads(threads)
        predictor = proa_inference.create_predictor(config)
        for _ in range(3):
            assert predictor.run([x])[0].tobytes() == want.tobytes()
        for i in (2, 0, 1):
            assert predictor.run([x[i : i + 1]])[0].tobytes() == want[i].tobytes()
        assert predictor.run([x[::-1].copy()])[0].tobytes() == want[::-1].tobytes()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", CASES)
def test_weights_of_16_bits_run_in_every_runtime(name: str, dtype: str, tmp_path: Path):
    network, shape, spec = built(name)
    model = slim.half_weights(network, spec, dtype)
    path = tmp_path / f"{name}.{dtype}.proa"
    model.save(path)
    x = batch(5, shape)
    want = model(x)
    for runtime, run in runtimes(path).items():
        np.testing.assert_allclose(run(x), want, rtol=1e-4, atol=1e-5, err_msg=runtime)


@pytest.mark.parametrize("make", [nn.LSTM, nn.GRU])
def test_recurrent_layers_have_the_same_integers_in_every_runtime(make, tmp_path: Path):
    class Tagger(nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.cells, self.head = make(20, 24), nn.Linear(24, 5)

        def forward(self, x: proa.Tensor) -> proa.Tensor:
            return self.head(self.cells(x)[0])

    proa.seed(3)
    network, spec = Tagger().eval(), [InputSpec([None, 7, 20], "float32", "x")]
    config = slim.QuantConfig(
        "abs_max", ops=("linear", "recurrent"), recurrent_states=True
    )
    model = slim.quant_post_static(network, spec, [batch(32, (7, 20))], config)
    assert "recurrent_int8" in {node.op for node in model.program.main.nodes}
    path = tmp_path / "net.int8.proa"
    model.save(path)
    for n in (1, 5):
        x = batch(n, (7, 20), seed=n)
        want, exact = model(x), network(proa.to_tensor(x)).numpy()
        assert np.abs(want - exact).max() < 0.05 * np.abs(exact).max()
        for runtime, run in runtimes(path).items():
            assert run(x).tobytes() == want.tobytes(), runtime


@pytest.mark.feature("L464", "L472")
def test_a_trained_static_program_is_the_same_in_every_runtime(tmp_path: Path):
    data = batch(32, (1, 8, 8))
    proa.enable_static()
    try:
        with static.scope_guard(static.Scope()):
            main, startup = static.Program(), static.Program()
            with static.program_guard(main, startup):
                x = static.data("x", [None, 1, 8, 8], "float32")
                h = static.nn.conv2d(x, 8, 3, padding=1, bias_attr=False)
                h = static.nn.batch_norm(h, act="relu")
                h = static.nn.fc(nn.functional.max_pool2d(h, 2), 16, activation="relu")
                y = static.nn.fc(h, 3)
                loss = (y - 1).square().mean()
            exe = static.Executor()
            exe.run(startup)
            train = slim.quant.quant_aware(main)
            test = slim.quant.quant_aware(main, for_test=True)
            after = static.Program()
            with static.program_guard(train, after):
                proa.optimizer.Adam(0.01).minimize(train.find(loss.name))
            exe.run(after)
            for _ in range(10):
                exe.run(train, {"x": data}, [loss.name])
            (want,) = exe.run(test, {"x": data}, [y.name])
            int8 = slim.quant.convert(test)
            feeds, fetches = [int8.find("x")], [int8.find(y.name)]
            path = str(tmp_path / "net")
            static.save_inference_model(path, feeds, fetches, exe, program=int8)
    finally:
        proa.disable_static()
    (file,) = tmp_path.glob("net*")
    graph = proa.ir.read(file)
    ops = [node.op for node in graph.main.nodes]
    assert ops.count("linear_int8") == 2 and ops.count("conv2d_int8") == 1
    assert f'"{y.name}"' in graph.metadata["out_threshold"]
    for runtime, run in runtimes(file).items():
        assert run(data).tobytes() == want.tobytes(), runtime
