"""A mistake that shows only while code is recorded reads like the eager one."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from io import BytesIO
from typing import Any

import pytest

import proa
from proa import jit, nn
from proa.errors import PreconditionNotMetError, UnimplementedError
from proa.jit import InputSpec


class Net(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2D(3, 8, 3), nn.ReLU())
        self.head = Head()

    def forward(self, x: Any) -> Any:
        return self.head(self.features(x))


class Head(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 2)

    def forward(self, x: Any) -> Any:
        pooled = x.mean([2, 3])
        return self.linear(pooled)


class WrongHead(Head):
    def forward(self, x: Any) -> Any:
        return self.linear(x)


class Reshaping(nn.Layer):
    def forward(self, x: Any) -> Any:
        return proa.reshape(x, [7])


def net_with_wrong_head() -> Net:
    net = Net()
    net.head = WrongHead()
    return net


def net_with_wrong_input() -> Net:
    net = Net()
    net.features[0] = nn.Conv2D(5, 8, 3)
    return net


#: (name, Layer, shape and dtype of its input, the note, the user's line in the Layer)
MISTAKES = [
    ("linear", lambda: nn.Linear(3, 4), [2, 5], "float32", "Linear", ""),
    (
        "sequential",
        lambda: nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(5, 4)),
        [2, 3],
        "float32",
        "2 (Linear)",
        "",
    ),
    (
        "resnet18",
        proa.vision.models.resnet18,
        [1, 4, 32, 32],
        "float32",
        "conv1 (Conv2D)",
        "",
    ),
    ("lstm", lambda: nn.LSTM(3, 4), [2, 7, 5], "float32", "0 (RNN)", ""),
    ("embedding", lambda: nn.Embedding(3, 4), [2], "float32", "Embedding", ""),
    ("flatten", lambda: nn.Flatten(5), [2, 3], "float32", "Flatten", ""),
    (
        "wrong channels",
        net_with_wrong_input,
        [1, 3, 8, 8],
        "float32",
        "features.0 (Conv2D)",
        "return self.head(self.features(x))",
    ),
    (
        "nested Layer",
        net_with_wrong_head,
        [1, 3, 8, 8],
        "float32",
        "head.linear (Linear)",
        "return self.linear(x)",
    ),
    ("reshape", Reshaping, [2, 3], "float32", "Reshaping", "proa.reshape(x, [7])"),
]
IDS = [case[0] for case in MISTAKES]


def raised_by(call: Callable[[], Any]) -> Exception:
    with pytest.raises(Exception) as caught:
        call()
    return caught.value


def notes_of(error: BaseException) -> str:
    return "\n".join(getattr(error, "__notes__", ()))


def export(layer: Any, shape: list[int], dtype: str) -> None:
    jit.save(layer, BytesIO(), [InputSpec(shape, dtype)])


def record_call(layer: Any, shape: list[int], dtype: str) -> None:
    jit.to_static(layer)(proa.ones(shape, dtype))


def record_function(layer: Any, shape: list[int], dtype: str) -> None:
    jit.to_static(lambda x: layer(x))(proa.ones(shape, dtype))


@pytest.mark.parametrize("record", [export, record_call, record_function])
@pytest.mark.parametrize(
    ("make", "shape", "dtype", "where", "line"),
    [case[1:] for case in MISTAKES],
    ids=IDS,
)
def test_a_mistake_reads_as_it_does_eagerly(
    record: Any, make: Any, shape: list[int], dtype: str, where: str, line: str
) -> None:
    layer = make()
    eager = raised_by(lambda: layer(proa.ones(shape, dtype)))
    recorded = raised_by(lambda: record(layer, shape, dtype))
    assert type(recorded) is type(eager)
    assert str(recorded) == str(eager)
    assert f"in layer '{where}'" in notes_of(recorded)


@pytest.mark.parametrize(
    ("make", "shape", "dtype", "where", "line"),
    [case[1:] for case in MISTAKES],
    ids=IDS,
)
def test_a_failed_export_names_the_users_line(
    make: Any, shape: list[int], dtype: str, where: str, line: str
) -> None:
    error = raised_by(lambda: export(make(), shape, dtype))
    reported = line or "jit.save(layer, BytesIO(), [InputSpec(shape, dtype)])"
    assert "test_recording_errors.py:" in notes_of(error)
    assert reported in notes_of(error)
    # What led there is this file's and the recorder's, not the built-in layers' calls.
    files = [f.filename for f in traceback.extract_tb(error.__traceback__)]
    assert not any("/nn/" in name for name in files[-3:])


def test_an_error_shows_a_symbolic_batch_size_as_such() -> None:
    error = raised_by(
        lambda: jit.save(nn.Linear(3, 4), BytesIO(), [InputSpec([None, 5])])
    )
    assert isinstance(error, ValueError)
    assert "x float32 (?, 5), w float32 (3, 4)" in str(error)


def test_functions_name_their_line() -> None:
    @jit.to_static
    def multiply(a: Any, b: Any) -> Any:
        return proa.matmul(a, b)

    a, b = proa.ones([2, 3]), proa.ones([4, 5])
    error = raised_by(lambda: multiply(a, b))
    assert str(error) == str(raised_by(lambda: proa.matmul(a, b)))
    assert "return proa.matmul(a, b)" in notes_of(error)
    assert "in layer" not in notes_of(error)


def test_a_saved_model_names_its_layer() -> None:
    model = proa.Model(nn.Sequential(nn.Linear(3, 4)), [InputSpec([None, 5], name="x")])
    error = raised_by(lambda: model.save("unused", training=False))
    assert "in layer '0 (Linear)'" in notes_of(error)


def test_errors_of_users_keep_their_type_and_name_the_layer() -> None:
    class Strict(nn.Layer):
        def forward(self, x: Any) -> Any:
            raise KeyError("no such feature")

    error = raised_by(lambda: export(nn.Sequential(Strict()), [2], "float32"))
    assert type(error) is KeyError and error.args == ("no such feature",)
    assert "in layer '0 (Strict)'" in notes_of(error)


def test_the_layer_is_the_one_whose_error_was_not_caught() -> None:
    class Careful(nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.wrong, self.late = nn.Linear(9, 9), nn.Linear(7, 7)

        def forward(self, x: Any) -> Any:
            try:
                return self.wrong(x)
            except ValueError:
                return self.late(x)

    error = raised_by(lambda: export(Careful(), [2, 3], "float32"))
    assert "in layer 'late (Linear)'" in notes_of(error)


def test_an_argument_of_a_wrong_kind_is_rejected_by_the_layer() -> None:
    class Passing(nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(3, 4)

        def forward(self, x: Any) -> Any:
            return self.linear(None)

    layer = Passing()
    eager = raised_by(lambda: layer(proa.ones([2, 3])))
    recorded = raised_by(lambda: export(layer, [2, 3], "float32"))
    assert (type(recorded), str(recorded)) == (type(eager), str(eager))


def test_a_precondition_is_not_taken_for_a_value_that_is_not_known() -> None:
    class Unready(nn.Layer):
        def forward(self, x: Any) -> Any:
            raise PreconditionNotMetError("[Unready] expected fit() first, got none")

    error = raised_by(lambda: export(Unready(), [2], "float32"))
    assert type(error) is PreconditionNotMetError
    assert str(error) == "[Unready] expected fit() first, got none"


def test_an_error_about_reading_a_value_has_its_line() -> None:
    class Reading(nn.Layer):
        def forward(self, x: Any) -> Any:
            return x * float(x.numpy()[0])

    error = raised_by(lambda: export(Reading(), [2], "float32"))
    assert isinstance(error, (UnimplementedError, PreconditionNotMetError))
    assert "must not depend on a tensor's value" in str(error)
    assert "x * float(x.numpy()[0])" in notes_of(error)
