import io
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from inference_models import (
    batch,
    check_mlp,
    loop,
    write_gate,
    write_loop,
)

import proa
from proa.errors import (
    InvalidArgumentError,
    NotFoundError,
    OutOfRangeError,
    PreconditionNotMetError,
)
from proa.jit import InputSpec, to_static
from proa_inference import Config, PredictorPool, create_predictor


@pytest.fixture
def predictor(path):
    config = Config(path)
    config.set_cpu_math_library_num_threads(1)
    return create_predictor(config)


def test_run_takes_and_returns_arrays(predictor):
    for n in (1, 4, 0, 7):
        check_mlp(predictor.run([batch(n)]), batch(n))


def test_specs_match_the_file(predictor):
    (spec,) = predictor.get_input_specs()
    assert (spec.name, spec.dtype, spec.shape) == ("x", np.float32, (-1, 6))
    assert predictor.get_output_names() == ["y", "hidden"]


def test_handles_copy_in_and_out(predictor):
    x = batch(5)
    handle = predictor.get_input_handle("x")
    handle.copy_from_cpu(x)
    assert handle.shape() == [5, 6]
    predictor.run()
    handles = [predictor.get_output_handle(name) for name in ("y", "hidden")]
    check_mlp([handle.copy_to_cpu() for handle in handles], x)


@pytest.mark.feature("L514")
def test_shared_input_is_read_in_place_at_the_run(predictor):
    x = batch(2)
    predictor.get_input_handle("x").share_external_data(x)
    x *= 2
    check_mlp(predictor.run(), x)


def test_results_are_new_arrays(predictor):
    first = predictor.run([batch(3)])[0]
    copy = first.copy()
    predictor.run([batch(3, seed=1)])
    np.testing.assert_array_equal(first, copy)


def test_strided_inputs_have_the_same_result(predictor):
    wide = np.zeros((8, 12), np.float32)
    wide[::2, ::2] = batch(4)
    check_mlp(predictor.run([wide[::2, ::2]]), batch(4))
    check_mlp(predictor.run([np.asfortranarray(batch(4))]), batch(4))
    check_mlp(predictor.run([batch(4)[::-1]]), batch(4)[::-1])


def test_results_do_not_depend_on_disabled_passes(path):
    config = Config(path)
    config.switch_ir_optim(False)
    check_mlp(create_predictor(config).run([batch(4)]), batch(4))
    config.switch_ir_optim(True)
    names = config.pass_builder().all_passes()
    config.delete_pass(names[0])
    assert names[0] not in config.pass_builder().all_passes()
    with pytest.raises(NotFoundError, match="name must be one of"):
        config.delete_pass("no_such_pass")
    check_mlp(create_predictor(config).run([batch(4)]), batch(4))


@pytest.mark.parametrize("rows", [1, 2000])
@pytest.mark.parametrize("threads", [1, 2])
def test_elementwise_nodes_run_as_one_step_where_arrays_are_large(
    tmp_path, rows, threads
):
    x, g = np.random.default_rng(1).standard_normal((2, rows, 96), np.float32)
    config = Config(write_gate(tmp_path / "gate.proa"))
    config.set_cpu_math_library_num_threads(threads)
    chained = create_predictor(config)
    config.switch_ir_optim(False)
    (want,) = create_predictor(config).run([x, g])
    np.testing.assert_allclose(
        want, np.maximum(x / (1 + np.exp(-g)) + x, 0), rtol=1e-5, atol=1e-6
    )
    for predictor in (chained, chained.clone()):
        np.testing.assert_array_equal(predictor.run([x, g])[0], want)
        steps = [step.op for step in predictor.profile([x, g])]
        assert (steps == ["chain"]) == (rows == 2000), steps


def test_a_model_from_memory(path):
    config = Config()
    config.set_model_buffer(path.read_bytes())
    check_mlp(create_predictor(config).run([batch(2)]), batch(2))


@pytest.mark.feature("L526")
def test_a_model_that_is_never_a_plain_file(tmp_path):
    network = proa.nn.Linear(6, 3)
    spec = [proa.static.InputSpec([None, 6], "float32", "x")]
    buffer = io.BytesIO()
    proa.jit.save(network, buffer, spec)
    key = np.random.default_rng(0).integers(0, 256, len(buffer.getvalue()), np.uint8)
    secret = tmp_path / "model.secret"
    secret.write_bytes((np.frombuffer(buffer.getvalue(), np.uint8) ^ key).tobytes())
    config = Config()
    config.set_model_buffer(
        (np.frombuffer(secret.read_bytes(), np.uint8) ^ key).tobytes()
    )
    (y,) = create_predictor(config).run([batch(2)])
    want = batch(2) @ network.weight.numpy() + network.bias.numpy()
    np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-6)
    buffer.seek(0)
    again = proa.jit.load(buffer)(proa.to_tensor(batch(2))).numpy()
    np.testing.assert_allclose(again, want, rtol=1e-5, atol=1e-6)


@pytest.mark.feature("L518")
def test_passes_are_listed_deleted_and_inserted(path):
    config = Config(path)
    builder = config.pass_builder()
    before = builder.all_passes()
    builder.delete_pass(before[1])
    assert builder.all_passes() == [before[0], *before[2:]]
    builder.insert_pass(0, before[1])
    builder.append_pass(before[0])
    assert builder.all_passes() == [before[1], before[0], *before[2:], before[0]]
    check_mlp(create_predictor(config).run([batch(4)]), batch(4))
    with pytest.raises(NotFoundError, match="name must be one of"):
        builder.insert_pass(0, "no_such_pass")
    builder.turn_off()
    assert builder.all_passes() == []
    check_mlp(create_predictor(config).run([batch(4)]), batch(4))


@pytest.mark.parametrize("threads", [0, 1, 2])
def test_the_number_of_threads_changes_nothing(path, threads):
    config = Config(path)
    config.set_cpu_math_library_num_threads(threads)
    (want, _), (got, _) = (
        create_predictor(Config(path)).run([batch(64)]),
        create_predictor(config).run([batch(64)]),
    )
    assert got.tobytes() == want.tobytes()


@pytest.mark.feature("L565")
def test_models_and_predictors_run_in_many_threads_at_once(path, tmp_path):
    rounds = write_loop(tmp_path / "loop.proa")
    pools = [PredictorPool(Config(path), 2), PredictorPool(Config(rounds), 2)]

    def work(index):
        pooled = pools[index % 2].retrieve(index // 2)
        config = Config((path, rounds)[index % 2])
        config.set_cpu_math_library_num_threads(2)
        own = create_predictor(config)  # while the others run
        for i in range(40):
            for predictor in (pooled, own):
                if index % 2 == 0:
                    x = batch(1 + (i + index) % 5, seed=i)
                    check_mlp(predictor.run([x]), x)
                else:
                    x = np.full((1, 8), index + i, np.float32)
                    rows, count = predictor.run([x, np.array(i % 4)])
                    assert count == i % 4
                    np.testing.assert_allclose(rows, loop(x, i % 4), 1e-5, 1e-5)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, range(4), timeout=60))  # raises what a thread raised


@pytest.mark.feature("L513")
def test_clones_run_in_threads_of_their_own(path):
    pool = PredictorPool(Config(path), 4)
    failures = []

    def work(index):
        predictor = pool.retrieve(index)
        try:
            for i in range(50):
                x = batch(1 + (i + index) % 5, seed=i)
                check_mlp(predictor.run([x]), x)
        except AssertionError as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures
    assert len(pool) == 4
    with pytest.raises(OutOfRangeError, match=r"index must be in \[0, 4\), got 4"):
        pool.retrieve(4)


def test_the_profile_names_every_step(predictor):
    steps = predictor.profile([batch(4)])
    assert len(steps) >= 2
    assert all(s.milliseconds >= 0 and s.op for s in steps)


def test_wrong_inputs_are_named(predictor):
    with pytest.raises(InvalidArgumentError, match=r"input 'x'.*float64"):
        predictor.run([batch(2).astype(np.float64)])
    with pytest.raises(InvalidArgumentError, match=r"input 'x'.*\(2, 5\)"):
        predictor.run([batch(2)[:, :5]])
    with pytest.raises(InvalidArgumentError, match="1 input"):
        predictor.run([])
    with pytest.raises(NotFoundError, match="input name must be one of x"):
        predictor.get_input_handle("z")
    with pytest.raises(PreconditionNotMetError, match="got none for x"):
        predictor.run()
    with pytest.raises(PreconditionNotMetError, match="computed by run"):
        predictor.get_output_handle("y").copy_to_cpu()
    check_mlp(predictor.run([batch(2)]), batch(2))


def test_wrong_files_are_typed_errors(path, tmp_path):
    with pytest.raises(NotFoundError, match="must be a file"):
        Config(tmp_path / "none.proa")
    with pytest.raises(InvalidArgumentError, match="expected a model"):
        create_predictor(Config())
    content = path.read_bytes()
    flipped = bytearray(content)
    flipped[-3] ^= 0x10
    for damaged in (
        content[: len(content) // 2],
        b"",
        b"PK\3\4 not a model",
        bytes(flipped),
    ):
        config = Config()
        config.set_model_buffer(damaged)
        for optimize in (True, False):
            config.switch_ir_optim(optimize)
            with pytest.raises(InvalidArgumentError):
                create_predictor(config)


def test_symbolic_bounds_of_slices_are_limited(tmp_path):
    def function(x, y):
        n = y.shape[0]
        return x[:, :n], x[n:], x[:, -n:], x[:, n - 3 : n]

    spec = [InputSpec([None, None], name="x"), InputSpec([None], name="y")]
    proa.jit.save(to_static(function, input_spec=spec), str(tmp_path / "net"))
    predictor = create_predictor(Config(str(tmp_path / "net.proa")))
    for rows, columns, n in ((5, 6, 2), (2, 3, 4), (3, 1, 1), (2, 5, 0), (4, 4, 9)):
        x = np.arange(rows * columns, dtype=np.float32).reshape(rows, columns)
        found = predictor.run([x, np.zeros(n, np.float32)])
        want = x[:, :n], x[n:], x[:, -n:], x[:, n - 3 : n]
        for got, expected in zip(found, want, strict=True):
            np.testing.assert_array_equal(got, expected)
