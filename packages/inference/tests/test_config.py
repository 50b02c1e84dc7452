"""The interface of Paddle Inference: its names, and what they do here."""

import logging
from enum import Enum
from pathlib import Path

import numpy as np
import pytest
from inference_models import (
    batch,
    check_mlp,
    mlp,
    write_gate,
    write_loop,
)

import proa
import proa_inference as inference
from proa.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    NotFoundError,
    OutOfRangeError,
    PreconditionNotMetError,
    UnimplementedError,
)
from proa.ir import file
from proa_inference import Config, DataType, PrecisionType, create_predictor
from proa_inference.saved import saved_path

NAMES = (Path(__file__).parent / "paddle_names.txt").read_text().split()


@pytest.mark.feature("L515")
@pytest.mark.parametrize("name", NAMES)
def test_every_name_of_paddle_inference_is_here(name):
    found = inference
    for part in name.split("."):
        if found is inference.XpuConfig:
            return  # fields of what cannot be made
        if isinstance(found, type) and issubclass(found, Enum):
            found = next(iter(found)) if part in ("name", "value") else found
        found = getattr(found, part)


@pytest.mark.parametrize(
    "name",
    ["enable_use_gpu", "enable_tensorrt_engine", "enable_xpu", "enable_ipu",
     "enable_custom_device", "enable_opencl",
     "set_dist_config", "collect_shape_range_info", "enable_cudnn"],
)  # fmt: skip
def test_another_device_is_refused_and_nothing_changes(path, name):
    config = Config(path)
    with pytest.raises(UnimplementedError, match=rf"\[Config.{name}\]"):
        getattr(config, name)(100, 0)
    assert not config.use_gpu()
    assert not config.tensorrt_engine_enabled()
    check_mlp(create_predictor(config).run([batch(2)]), batch(2))


def test_the_module_of_proa_is_this_package(path):
    assert proa.inference.Config is Config
    from proa.inference import create_predictor as same

    assert same is create_predictor
    assert "PredictorPool" in dir(proa.inference)
    with pytest.raises(AttributeError, match="no_such_name"):
        proa.inference.no_such_name  # noqa: B018


def test_a_config_is_copied_and_then_changes_on_its_own(path):
    first = Config(path)
    first.set_cpu_math_library_num_threads(1)
    second = Config(first)
    second.set_cpu_math_library_num_threads(2)
    second.delete_pass("fold_constants")
    assert first.cpu_math_library_num_threads() == 1
    assert "fold_constants" in first.pass_builder().all_passes()
    assert second.prog_file() == str(path)
    assert "threads   2" in second.summary()


def test_switches_are_as_they_were_set():
    config = Config()
    for switch, state in [
        (config.enable_memory_optim, config.memory_optim_enabled),
        (config.switch_use_feed_fetch_ops, config.use_feed_fetch_ops_enabled),
        (config.switch_specify_input_names, config.specify_input_name),
        (config.switch_ir_optim, config.ir_optim),
    ]:
        for on in (True, False):
            switch(on)
            assert state() is on
    config.disable_mkldnn()
    assert not config.mkldnn_enabled()
    config.enable_profile()
    config.disable_glog_info()
    assert config.profile_enabled()
    assert config.glog_info_disabled()
    assert inference.get_trt_compile_version() == (0, 0, 0)
    assert Config.Precision is PrecisionType
    assert inference.get_num_bytes_of_data_type(DataType.FLOAT16) == 2
    assert inference.get_version()


@pytest.mark.parametrize("optimize", [True, False])
def test_int8_by_the_ranges_of_paddle_is_refused_for_other_models(path, optimize):
    config = Config(path)
    config.switch_ir_optim(optimize)
    assert not config.mkldnn_int8_enabled()
    config.enable_mkldnn_int8(mkldnn_int8_enabled_op_types={"conv2d"})
    assert config.mkldnn_int8_enabled()
    with pytest.raises(UnimplementedError, match=r"\[Config.enable_mkldnn_int8\]"):
        create_predictor(config)


def test_the_pass_builder_takes_positions_and_lists(path):
    builder = Config(path).pass_builder()
    first, second, *_ = builder.all_passes()
    builder.delete_pass(0)
    assert builder.all_passes()[0] == second
    builder.set_passes([first, second])
    builder.append_analysis_pass("remove_dead_code")
    assert builder.analysis_passes() == [first, second, "remove_dead_code"]
    assert builder.debug_string().splitlines()[0] == f"- {first}"
    for index in (-1, 9):
        with pytest.raises(OutOfRangeError, match=rf"got {index}"):
            builder.delete_pass(index)
        with pytest.raises(OutOfRangeError, match=rf"got {index}"):
            builder.insert_pass(index, first)
    with pytest.raises(NotFoundError, match="no_such_pass"):
        builder.set_passes(["no_such_pass"])
    builder.clear_passes()
    assert builder.all_passes() == []


def test_debugging_writes_the_graph_after_each_pass(path, tmp_path):
    config = Config(path)
    config.set_optim_cache_dir(tmp_path / "graphs")
    config.switch_ir_debug()
    config.enable_save_optim_model()
    check_mlp(create_predictor(config).run([batch(2)]), batch(2))
    texts = sorted(p.name for p in (tmp_path / "graphs").glob("*.txt"))
    assert "0_recorded.txt" in texts
    assert len(texts) == len(config.pass_builder().all_passes())
    assert "linear" in (tmp_path / "graphs" / "0_recorded.txt").read_text()
    saved = create_predictor(Config(saved_path(config)))
    check_mlp(saved.run([batch(2)]), batch(2))


def test_messages_are_logged_unless_disabled(path, caplog):
    with caplog.at_level(logging.INFO, logger="proa_inference"):
        create_predictor(Config(path))
        assert str(path) in caplog.text
        caplog.clear()
        config = Config(path)
        config.disable_glog_info()
        create_predictor(config)
        assert not caplog.text


def test_a_profile_has_operations_and_bytes_and_is_printed_at_the_end(path, capsys):
    config = Config(path)
    config.enable_profile()
    predictor = create_predictor(config)
    check_mlp(predictor.run([batch(4)]), batch(4))
    (steps,) = predictor.profile_runs()
    by_op = [(s.flops, s.bytes) for s in steps if s.op.startswith("linear")]
    # y = hidden @ W2 of (4, 8) and (8, 3), float32
    assert (2 * 4 * 8 * 3, 4 * (4 * 8 + 8 * 3 + 4 * 3)) in by_op
    del predictor
    printed = capsys.readouterr().err
    assert "GFLOP/s" in printed
    assert "linear" in printed


@pytest.mark.feature("L542")
def test_memory_is_freed_and_allocated_again(path, tmp_path):
    for model, inputs in [
        (path, [batch(1000)]),
        (write_loop(tmp_path / "loop.proa"), [np.ones((400, 8), "f4"), np.array(3)]),
    ]:
        predictor = create_predictor(Config(model))
        first = predictor.run(inputs)
        held = predictor.memory()["arena"]
        name = predictor.get_output_names()[0]
        assert predictor.try_shrink_memory() == held > 0
        assert predictor.memory()["arena"] == 0
        assert predictor.try_shrink_memory() == 0
        handle = predictor.get_output_handle(name)
        np.testing.assert_array_equal(handle.copy_to_cpu(), first[0])
        for got, want in zip(predictor.run(inputs), first, strict=True):
            np.testing.assert_array_equal(got, want)
        predictor.clear_intermediate_tensor()
        assert predictor.memory()["arena"] == 0


def test_a_cache_of_plans_has_a_limit(path):
    config = Config(path)
    config.set_cpu_math_library_num_threads(1)
    config.set_plan_cache(4)
    predictor = create_predictor(config)
    sizes = []
    for n in [*range(1, 40)] * 2:
        check_mlp(predictor.run([batch(n)]), batch(n))
        sizes.append(predictor.memory()["arena"])
    assert sizes[38] == sizes[-1]
    config.set_plan_cache(1000, 1)  # bytes for less than one
    small = create_predictor(config)
    for n in range(1, 40):
        check_mlp(small.run([batch(n)]), batch(n))
    assert small.memory()["arena"] < predictor.memory()["arena"]
    config.set_mkldnn_cache_capacity(3)
    assert config.plan_cache() == (3, 1)
    with pytest.raises(InvalidArgumentError, match="count >= 1"):
        config.set_plan_cache(0)


def test_hooks_are_called_with_every_array(path):
    config = Config(path)
    config.switch_ir_optim(False)
    predictor = create_predictor(config)
    seen = {}
    predictor.register_output_hook(
        lambda op, name, tensor: seen.update({name: (op, tensor.copy_to_cpu())})
    )
    x = batch(3)
    check_mlp(predictor.run([x]), x)
    y, hidden = mlp(x)
    assert seen["hidden"][0] == "relu"
    np.testing.assert_allclose(seen["hidden"][1], hidden, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(seen["y"][1], y, rtol=1e-4, atol=1e-5)
    assert len(seen) == 3


def test_handles_take_shapes_tensors_and_dlpack(path):
    predictor = create_predictor(Config(path))
    handle = predictor.get_input_handle("x")
    assert handle.type() is DataType.FLOAT32
    assert handle.place() is inference.PlaceType.CPU
    with pytest.raises(PreconditionNotMetError, match="be given"):
        handle.mutable_data()
    handle.reshape([2, 6])
    handle.mutable_data()[:] = batch(2)
    check_mlp(predictor.run(), batch(2))
    handle.copy_from_cpu(batch(4))
    check_mlp(predictor.run(), batch(4))
    tensor = proa.to_tensor(batch(3))
    handle.share_external_data(tensor)
    check_mlp(predictor.run(), batch(3))
    output = predictor.get_output_handle("y")
    shared = np.from_dlpack(output)
    assert np.shares_memory(shared, output.copy_to_cpu())
    np.testing.assert_allclose(
        proa.utils.dlpack.from_dlpack(output).numpy(), mlp(batch(3))[0], 1e-4
    )
    for wrong in (["text"], np.array([object()])):
        with pytest.raises(InvalidArgumentError, match="array of numbers"):
            handle.copy_from_cpu(wrong)
    with pytest.raises(InvalidArgumentError, match="only be given to an input"):
        output.copy_from_cpu(batch(1))
    with pytest.raises(InvalidArgumentError, match="sizes must be >= 0"):
        handle.reshape([-1, 6])


def test_offsets_of_sequences_are_stored_and_checked(path):
    predictor = create_predictor(Config(path))
    handle = predictor.get_input_handle("x")
    handle.copy_from_cpu(batch(5))
    assert handle.lod() == []
    handle.set_lod([[0, 1, 2], [0, 2, 5]])
    assert handle.lod() == [[0, 1, 2], [0, 2, 5]]
    for wrong in ([[0, 4]], [[1, 5]], [[0, 3, 2, 5]], [[]], [[0, 1], [0, 2, 5]]):
        with pytest.raises(InvalidArgumentError, match="offsets from 0"):
            handle.set_lod(wrong)
    handle.copy_from_cpu(batch(4))
    assert handle.lod() == []


def test_inputs_and_outputs_of_one_name_are_apart(tmp_path):
    path = tmp_path / "same.proa"
    spec = [proa.static.InputSpec([2], "float32", "x")]
    proa.jit.save(lambda x: {"x": x + 1, "copy": x * 1}, path, spec)
    predictor = create_predictor(Config(path))
    assert predictor.get_output_names() == ["x", "copy"]
    predictor.get_input_handle("x").copy_from_cpu(np.zeros(2, "f4"))
    for _ in range(2):
        predictor.run()
        assert predictor.get_output_handle("x").copy_to_cpu().tolist() == [1, 1]
        assert predictor.get_input_handle("x").copy_to_cpu().tolist() == [0, 0]


@pytest.mark.feature("L512")
@pytest.mark.feature("L511")
def test_names_before_2_0_work_and_warn(path):
    with pytest.warns(DeprecationWarning, match="use Config"):
        config = inference.AnalysisConfig(str(path))
    config.switch_use_feed_fetch_ops(False)
    with pytest.warns(DeprecationWarning, match="use create_predictor"):
        predictor = inference.create_paddle_predictor(config)
    handle = predictor.get_input_tensor("x")
    assert isinstance(handle, inference.ZeroCopyTensor)
    handle.copy_from_cpu(batch(3))
    assert predictor.zero_copy_run()
    check_mlp([predictor.get_output_tensor(n).copy_to_cpu() for n in ("y", "hidden")],
          batch(3))  # fmt: skip
    found = predictor.run([inference.PaddleTensor(batch(2), "x")])
    assert [tensor.name for tensor in found] == ["y", "hidden"]
    check_mlp([tensor.as_ndarray() for tensor in found], batch(2))
    assert found[0].shape == [2, 3]


@pytest.mark.parametrize("precision", [PrecisionType.Half, PrecisionType.Bfloat16])
@pytest.mark.parametrize("keep", [True, False])
def test_weights_of_16_bits_take_half_the_file(tmp_path, precision, keep):
    network, path = proa.nn.Linear(256, 256), tmp_path / "wide.proa"
    spec = [proa.static.InputSpec([None, 256], "float32", "x")]
    proa.jit.save(lambda x: {"y": network(x)}, path, spec)
    small = tmp_path / "small.proa"
    inference.convert_to_mixed_precision(
        path, "", small, "", precision, keep_io_types=keep
    )
    assert small.stat().st_size < 0.55 * path.stat().st_size
    predictor = create_predictor(Config(small))
    x = np.random.default_rng(0).standard_normal((4, 256)).astype(np.float32)
    want = x @ network.weight.numpy() + network.bias.numpy()
    kinds = {
        PrecisionType.Half: DataType.FLOAT16,
        PrecisionType.Bfloat16: DataType.BFLOAT16,
    }
    kind = DataType.FLOAT32 if keep else kinds[precision]
    assert predictor.get_input_handle("x").type() is kind
    assert predictor.get_output_handle("y").type() is kind
    if not keep:
        bits = (x.view(np.uint32) + 0x8000 >> 16).astype(np.uint16)
        x = x.astype(np.float16) if kind is DataType.FLOAT16 else bits
    (got,) = predictor.run([x])
    if kind is DataType.BFLOAT16:
        got = (got.astype(np.uint32) << 16).view(np.float32)
    bound = 2**-7 if precision is PrecisionType.Bfloat16 else 2**-10
    np.testing.assert_allclose(got, want, rtol=0, atol=4 * bound)
    with pytest.raises(InvalidArgumentError, match="Half or Bfloat16"):
        inference.convert_to_mixed_precision(path, "", small, "", PrecisionType.Int8)


def test_what_is_no_such_argument_is_named(path):
    config, predictor = Config(path), create_predictor(Config(path))
    x = predictor.get_input_handle("x")
    for call, message in [
        (lambda: Config(123), r"\[Config\] model must be a path, got 123"),
        (lambda: config.set_model_buffer("text"), r"expected bytes .*, got 'text'"),
        (lambda: config.set_params_file(1), r"path must be a path, got 1"),
        (lambda: config.set_cpu_math_library_num_threads("2"), "threads .* got '2'"),
        (lambda: config.set_cpu_math_library_num_threads(1.5), "threads .* got 1.5"),
        (lambda: config.set_plan_cache("1"), "count must be an int, got '1'"),
        (lambda: config.set_plan_cache(1, None), "max_bytes must be an int, got None"),
        (lambda: config.set_optim_cache_dir(3), "path must be a path, got 3"),
        (lambda: config.set_cipher_key(3), "key must be a function, got 3"),
        (lambda: config.add_delegate(3), "the methods takes, compile, got 3 without"),
        (lambda: create_predictor(path), "expected a Config, got"),
        (lambda: inference.PredictorPool(config, "2"), "size must be an int, got '2'"),
        (lambda: predictor.run({"x": batch(1)}), r"array for each of x, .* got \{'x'"),
        (lambda: predictor.register_output_hook(3), "hook must be a function, got 3"),
        (lambda: x.reshape("ab"), "sizes must be an int, got 'a'"),
        (lambda: inference.get_num_bytes_of_data_type(3), "a DataType, got 3"),
    ]:
        with pytest.raises(InvalidTypeError, match=message) as caught:
            call()
        assert isinstance(caught.value, TypeError)
    config.set_cpu_math_library_num_threads(np.int64(2))
    assert config.cpu_math_library_num_threads() == 2
    check_mlp(predictor.run([batch(2)]), batch(2))


@pytest.mark.parametrize(
    "chains",
    ["", "x", "0+99", "4294967295+2", "1+", "-1+2", "0+0", "2+1 0+2", "0+2 1+2", "0+4"],
)
def test_chains_that_a_file_states_are_checked(tmp_path, chains):
    path = write_gate(tmp_path / "gate.proa")
    program = file.read(path)
    program.metadata["chains"] = chains
    file.write(program, path)
    config = Config(path)
    config.switch_ir_optim(False)  # read by the engine itself
    x, g = np.random.default_rng(0).standard_normal((2, 4096, 96), "f4")
    (y,) = create_predictor(config).run([x, g])
    want = np.maximum(x / (1 + np.exp(-g)) + x, 0)
    np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-6)
