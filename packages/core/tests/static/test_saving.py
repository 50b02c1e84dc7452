"""Programs and their values as files and bytes, and what is left for inference."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proa
from proa import nn, optimizer, static
from proa.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    MissingFileError,
    NotFoundError,
    PreconditionNotMetError,
)

RNG = np.random.default_rng(9)
X = RNG.normal(size=(5, 6)).astype("float32")
Y = RNG.integers(0, 3, (5, 1))
Programs = tuple[static.Program, static.Program]


def network(startup: static.Program) -> tuple[Any, Any, Any, static.Executor]:
    """x, scores, loss and an executor; trained for two steps."""
    x, y = static.data("x", [None, 6]), static.data("y", [None, 1], "int64")
    hidden = static.nn.batch_norm(static.nn.fc(x, 8, activation="relu"))
    scores = static.nn.fc(proa.nn.functional.dropout(hidden, 0.5), 3, name="scores")
    loss = proa.nn.functional.cross_entropy(scores, y)
    proa.optimizer.Adam(0.1).minimize(loss)
    exe = static.Executor()
    exe.run(startup)
    for _ in range(2):
        exe.run(feed={"x": X, "y": Y}, fetch_list=[loss])
    return x, scores, loss, exe


def in_numpy() -> Any:
    """The scores after training, by the values of the scope."""
    held = {k: t.numpy() for k, t in static.default_main_program().state_dict().items()}
    h = np.maximum(X @ held["fc_0.w_0"] + held["fc_0.b_0"], 0)
    h = (h - held["batch_norm_0.w_1"]) / np.sqrt(held["batch_norm_0.w_2"] + 1e-5)
    h = h * held["batch_norm_0.w_0"] + held["batch_norm_0.b_0"]
    return h @ held["scores.w_0"] + held["scores.b_0"]


@pytest.mark.feature("L221")
def test_a_normalized_program_has_what_inference_needs(static_mode: Programs) -> None:
    x, scores, loss, exe = network(static_mode[1])
    part = static.normalize_program(static_mode[0], [x], [scores])
    assert isinstance(part, static.Program) and part is not static_mode[0]
    (found,) = exe.run(part, feed={"x": X}, fetch_list=[scores.name])
    np.testing.assert_allclose(found, in_numpy(), rtol=1e-4, atol=1e-5)
    kinds = [op.type for op in part.global_block().ops]
    assert len(kinds) < 10 < len(static_mode[0].global_block().ops)
    assert "batch_norm_infer" in kinds and "dropout" not in kinds
    names = {v.name for v in part.list_vars() if v.persistable}
    assert names == {p.name for p in static_mode[0].all_parameters()}
    hidden = static_mode[0].global_block().ops[1].output_arg_names[0]
    cut = static.normalize_program(static_mode[0], hidden, scores)
    assert list(cut.data) == [hidden]
    with pytest.raises(InvalidArgumentError, match=r"without \['y'\]"):
        static.normalize_program(static_mode[0], [x], [loss])
    with pytest.raises(InvalidTypeError, match=r"program must be a static\.Program"):
        static.normalize_program(3, [x], [scores])  # type: ignore[arg-type]
    with pytest.raises(InvalidTypeError, match="feed_vars must be Variables"):
        static.normalize_program(static_mode[0], [3], [scores])  # type: ignore[list-item]


def test_a_program_is_saved_for_inference_and_loaded(
    static_mode: Programs, tmp_path: Path
) -> None:
    x, scores, _, exe = network(static_mode[1])
    want = in_numpy()
    static.save_inference_model(str(tmp_path / "net"), [x], [scores], exe)
    compiled = static.CompiledProgram(static_mode[0])
    static.save_inference_model(tmp_path / "same", x, scores, exe, program=compiled)
    proa.disable_static()
    for name in ("net", "same"):
        program, feeds, fetches = static.load_inference_model(tmp_path / name, exe)
        assert feeds == ["x"] and [f.name for f in fetches] == [scores.name]
        (found,) = exe.run(program, feed={"x": X[:2]}, fetch_list=fetches)
        np.testing.assert_allclose(found, want[:2], rtol=1e-4, atol=1e-5)
    layer = proa.jit.load(str(tmp_path / "net"))
    np.testing.assert_allclose(
        layer(proa.to_tensor(X)).numpy(), want, rtol=1e-4, atol=1e-5
    )


@pytest.mark.feature("L224")
def test_programs_and_values_become_bytes_and_files(
    static_mode: Programs, tmp_path: Path
) -> None:
    x, scores, _, exe = network(static_mode[1])
    want = in_numpy()
    program = static.serialize_program([x], [scores])
    values = static.serialize_persistables([x], [scores], exe)
    path = tmp_path / "folder" / "net.bytes"
    path.parent.mkdir()
    static.save_to_file(path, program)
    assert static.load_from_file(path) == program == path.read_bytes()
    with static.scope_guard(static.Scope()):
        again = static.deserialize_program(static.load_from_file(path))
        with pytest.raises(PreconditionNotMetError, match="in the scope"):
            exe.run(again, feed={"x": X}, fetch_list=[scores.name])
        static.deserialize_persistables(again, values, exe)
        (found,) = exe.run(again, feed={"x": X}, fetch_list=[scores.name])
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-5)
    with pytest.raises(InvalidArgumentError, match="static program"):
        static.deserialize_program(static.load_from_file(_model(tmp_path)))
    with pytest.raises(NotFoundError, match="in data"):
        static.deserialize_persistables(again, _bytes_of({"w": X}), exe)
    with pytest.raises(InvalidTypeError, match="bytes"):
        static.save_to_file(path, "text")  # type: ignore[arg-type]
    with pytest.raises(MissingFileError):
        static.load_from_file(tmp_path / "none")
    with (
        static.scope_guard(static.Scope()),
        pytest.raises(PreconditionNotMetError, match="serialize_persistables"),
    ):
        static.serialize_persistables([x], [scores], exe)


def _model(folder: Path) -> Path:
    proa.disable_static()
    spec = [static.InputSpec([None, 6], "float32", "x")]
    proa.jit.save(proa.nn.Linear(6, 2), str(folder / "model"), spec)
    proa.enable_static()
    return folder / "model.proa"


def _bytes_of(values: dict[str, Any]) -> bytes:
    import io

    buffer = io.BytesIO()
    proa.disable_static()
    proa.save({k: proa.to_tensor(v) for k, v in values.items()}, buffer)
    proa.enable_static()
    return buffer.getvalue()


def test_training_goes_on_from_a_file_with_the_same_bits(
    static_mode: Programs, tmp_path: Path
) -> None:
    main = static_mode[0]
    _, _, loss, exe = network(static_mode[1])
    static.save(main, str(tmp_path / "net"))
    assert {f.name for f in tmp_path.iterdir()} == {"net.pdparams", "net.pdopt"}
    feed = {"x": X, "y": Y}
    proa.seed(3)
    first = [exe.run(feed=feed, fetch_list=[loss])[0] for _ in range(3)]
    with static.scope_guard(static.Scope()):
        exe.run(static_mode[1])
        static.load(main, str(tmp_path / "net"), exe)
        proa.seed(3)
        again = [exe.run(feed=feed, fetch_list=[loss])[0] for _ in range(3)]
    np.testing.assert_array_equal(first, again)
    state = static.load_program_state(str(tmp_path / "net.pdparams"))
    held = main.state_dict()
    assert set(state) == set(held)
    weight = main.find("fc_0.w_0")
    state["fc_0.w_0"] = np.zeros((6, 8), "float32")
    static.set_program_state(main, state)
    assert not weight.get_value().numpy().any()
    static.load(main, str(tmp_path / "net"), var_list=[weight])
    assert weight.get_value().numpy().any()
    with pytest.warns(UserWarning, match="no persistable 'other'"):
        static.set_program_state(main, {"other": X})
    with pytest.raises(InvalidArgumentError, match="must have shape"):
        static.set_program_state(main, {"fc_0.w_0": X})
    with pytest.raises(NotFoundError, match="no file"):
        static.load_program_state(tmp_path / "none")
    with pytest.raises(InvalidArgumentError, match="model_path"):
        static.save(main, f"{tmp_path}/")


def stream(array: Any) -> bytes:
    """PaddlePaddle's file of one float32 tensor: version 0, no levels, its descriptor
    in protobuf (field 1 the type 5, field 2 each size), and the elements.
    """
    about = bytes([0x08, 5, *(b for n in array.shape for b in (0x10, n))])
    return struct.pack("<IQIi", 0, 0, 0, len(about)) + about + array.tobytes()


@pytest.mark.feature("L223")
def test_other_files_of_a_folder_are_passed_over_with_a_warning(
    static_mode: Programs, tmp_path: Path
) -> None:
    arrays = {"w": X, "b": X[0]}
    for name, array in arrays.items():
        (tmp_path / name).write_bytes(stream(array))
    (tmp_path / "notes.txt").write_text("what was trained, and when")
    (tmp_path / "sub").mkdir()
    with pytest.warns(UserWarning, match=r"notes\.txt is no file of one tensor"):
        state = static.load_program_state(str(tmp_path))
    assert set(state) == {"w", "b"}
    for name, array in arrays.items():
        np.testing.assert_array_equal(state[name], array)
    w = static.create_parameter([5, 6], "float32", name="w")
    only = static.load_program_state(str(tmp_path), var_list=[w])
    assert list(only) == ["w"]
    static.load(static_mode[0], str(tmp_path), static.Executor(), [w])
    np.testing.assert_array_equal(w.get_value().numpy(), X)
    both = tmp_path / "both"
    both.write_bytes(stream(X) + stream(X[0]))
    b = static.create_parameter([6], "float32", name="b")
    found = static.load_program_state(str(both), [w, b])
    np.testing.assert_array_equal(found["b"], X[0])
    with pytest.raises(InvalidArgumentError, match="var_list"):
        static.load_program_state(str(both))


@pytest.mark.feature("L222")
def test_the_old_names_in_io_are_those_of_static(
    static_mode: Any, tmp_path: Path
) -> None:
    main, startup = static_mode
    x = static.data("x", [None, 3])
    out = static.nn.fc(x, 2)
    executor = static.Executor()
    executor.run(startup)
    array = np.ones((4, 3), np.float32)
    (want,) = executor.run(main, {"x": array}, [out])
    prefix = str(tmp_path / "model")
    with pytest.warns(DeprecationWarning, match=r"proa\.static\.save now"):
        proa.io.save(main, prefix)
    with pytest.warns(DeprecationWarning, match="save_inference_model now"):
        proa.io.save_inference_model(prefix, [x], [out], executor)
    for parameter in main.all_parameters():
        parameter.set_value(np.zeros(parameter.shape, np.float32))
    with pytest.warns(DeprecationWarning):
        proa.io.load(main, prefix, executor)
    np.testing.assert_array_equal(executor.run(main, {"x": array}, [out])[0], want)
    with pytest.warns(DeprecationWarning):
        program, names, fetches = proa.io.load_inference_model(prefix, executor)
    (found,) = executor.run(program, {names[0]: array}, fetches)
    np.testing.assert_allclose(found, want, rtol=1e-6)
    for name in ("save", "load", "save_inference_model", "load_inference_model"):
        assert name not in proa.io.__all__
        with pytest.warns(DeprecationWarning):
            assert getattr(proa.io, name) is getattr(static, name)


@pytest.mark.usefixtures("static_mode")
def test_statistics_of_batch_normalisation_are_among_the_parameters(
    tmp_path: Path,
) -> None:
    """As in Paddle: names and files."""
    main = static.default_main_program()
    x = static.data("x", [None, 3, 4, 4])
    y = static.nn.batch_norm(x, moving_mean_name="mean", moving_variance_name="spread")
    y = nn.BatchNorm2D(3)(y)
    optimizer.SGD(0.1).minimize(proa.mean(y * y))
    own = [f"batch_norm2d_0.{end}" for end in ("b_0", "w_0", "w_1", "w_2")]
    names = ["batch_norm_0.b_0", "batch_norm_0.w_0", "mean", "spread", *own]
    assert sorted(p.name for p in main.all_parameters()) == sorted(names)
    trained = [p.name for p in main.all_parameters() if p.trainable]
    assert sorted(trained) == sorted({*names[:2], *own[:2]})
    exe = static.Executor()
    exe.run(static.default_startup_program())
    array = np.random.default_rng(0).normal(2.0, size=(4, 3, 4, 4)).astype("float32")
    exe.run(main, feed={"x": array}, fetch_list=[y])
    static.save(main, str(tmp_path / "net"))
    assert set(names) <= set(proa.load(tmp_path / "net.pdparams", allow_pickle=True))
