"""Functions of 1.x that count, sample, encode places, or take the rows of tags."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import proa
from proa._core import Tensor, ops
from proa.base.dtype import as_dtype
from proa.base.no_tape import NoTape
from proa.errors import InvalidArgumentError
from proa.interop.paddle.streams import read_stream
from proa.migrate.fluid.host_calls import Array, Like, Rows, on_host
from proa.nn import functional as F
from proa.nn.schemes import Constant
from proa.static import default_main_program
from proa.static.nn import batch_norm
from proa.static.nn.sequence_arguments import (
    has_sequences,
    sequences_of,
    with_sequences,
)
from proa.static.state import require_static
from proa.tensor.creation import as_tensor

if TYPE_CHECKING:
    from proa.nn.attr import ParamAttrLike

__all__ = [
    "MultivariateNormalDiag", "add_position_encoding", "autoincreased_step_counter",
    "continuous_value_model", "filter_by_instag", "get_tensor_from_selected_rows",
    "inplace_abn", "load", "lstm", "merge_selected_rows",
    "sampled_softmax_with_cross_entropy", "similarity_focus",
]  # fmt: skip


def add_position_encoding(
    input: Tensor, alpha: float, beta: float, name: str | None = None
) -> Tensor:
    """alpha * x + beta * the sines, then cosines, of each place (Vaswani et al., 2017).

    With h half the width, element i of place p has the angle p / 10000^(i / (h - 1)).

    Args:
        input: (batch, length, width), or rows (n, width) of sequences.
        alpha: Factor of the input.
        beta: Factor of the places.
        name: Has no meaning here.
    """
    width = int(input.shape[-1])
    half = width // 2
    steps = np.arange(half) / max(half - 1, 1) if half > 1 else np.ones(1)
    rates = as_tensor((10000.0**-steps).astype("float32"))
    own = sequences_of("add_position_encoding", input) if input.ndim == 2 else None
    places = proa.arange(input.shape[1]) if own is None else own.places(own.owners())
    angle = ops.mul(ops.unsqueeze(ops.cast(places, dtype="float32"), axis=[1]), rates)
    table = ops.cast(
        ops.concat(proa.sin(angle), proa.cos(angle), axis=1), dtype=input.dtype
    )
    result = ops.add(
        ops.scale(input, scale=float(alpha)), ops.scale(table, scale=float(beta))
    )
    return result if own is None else with_sequences(result, own)


class MultivariateNormalDiag:
    """A normal distribution of k elements that are independent.

    Args:
        loc: The mean (k,).
        scale: The covariance (k, k), a diagonal matrix.
    """

    def __init__(self, loc: Any, scale: Any) -> None:
        self.loc, self.scale = (
            t if isinstance(t, Tensor) else as_tensor(np.asarray(t, "float32"))
            for t in (loc, scale)
        )

    def _variances(self) -> Tensor:
        return proa.sum(
            proa.multiply(self.scale, proa.eye(int(self.scale.shape[0]))), 1
        )

    def entropy(self) -> Tensor:
        """(k * (1 + log(2 pi)) + log |scale|) / 2."""
        count = int(self.scale.shape[0])
        whole = proa.sum(proa.log(self._variances()))
        return proa.scale(whole, 0.5, 0.5 * count * (1.0 + math.log(2 * math.pi)))

    def kl_divergence(self, other: MultivariateNormalDiag) -> Tensor:
        """The divergence from this distribution to another one."""
        own, wanted = self._variances(), other._variances()
        gap = proa.square(proa.subtract(other.loc, self.loc))
        parts = proa.divide(proa.add(own, gap), wanted)
        parts = proa.add(parts, proa.log(proa.divide(wanted, own)))
        return proa.scale(proa.sum(parts), 0.5, -0.5 * int(self.scale.shape[0]))


def autoincreased_step_counter(
    counter_name: str | None = None, begin: int = 1, step: int = 1
) -> Tensor:
    """A Variable that grows by `step` in each run from begin - 1 on, int64 (1,).

    One of a name that the program has is given again.
    """
    name = counter_name or "@STEP_COUNTER@"
    builder, program = (
        require_static("autoincreased_step_counter"),
        default_main_program(),
    )
    known = program.vars.get(name)
    if known is not None:
        return known
    counter = builder.state(name, [1], as_dtype("int64"), Constant(begin - 1))
    with NoTape():
        counter[...] = ops.add(counter, step)
    return counter


def continuous_value_model(input: Tensor, cvm: Tensor, use_cvm: bool = True) -> Tensor:
    """Embeddings (n, d) whose first two elements count shows and clicks.

    With use_cvm these become log(shows + 1) and log(clicks + 1) - log(shows + 1), else
    they go. Their gradients are the counts `cvm` (n, 2).
    """
    if not use_cvm:
        return input[:, 2:]
    shows, clicks = (
        ops.slice(input, axes=[1], starts=[k], ends=[k + 1], steps=[1])
        for k in range(2)
    )
    first = proa.log(proa.scale(shows, 1.0, 1.0))
    second = proa.subtract(proa.log(proa.scale(clicks, 1.0, 1.0)), first)
    result = ops.concat(first, second, input[:, 2:], axis=1)
    if has_sequences(input):
        return with_sequences(result, sequences_of("continuous_value_model", input))
    return result


def filter_by_instag(
    ins: Tensor,
    ins_tag: Tensor,
    filter_tag: Tensor,
    is_lod: bool,
    out_val_if_empty: float = 0,
) -> tuple[Tensor, Tensor]:
    """The samples that have one of some tags.

    Args:
        ins: Rows, of which with is_lod each sequence is a sample, else each row.
        ins_tag: Tags of the samples (n, 1), a sequence for each.
        filter_tag: The tags (m,).
        is_lod: See ins.
        out_val_if_empty: What a row has that is given where there is no sample.

    Returns:
        The rows, and a weight (n, 1) of each sample: 1, or 0 where there is none.
    """

    def choose(given: Any, tags: Rows, wanted: Array) -> list[Any]:
        array = given.array if isinstance(given, Rows) else given
        parts = given.parts() if isinstance(given, Rows) and is_lod else np.split(
            array, len(array))  # fmt: skip
        pairs = zip(parts, tags.parts(), strict=True)
        chosen = [own for own, marks in pairs if np.isin(marks, wanted).any()]
        empty = np.full((1, *array.shape[1:]), out_val_if_empty, array.dtype)
        found = chosen or [empty]
        weight = np.full((len(found), 1), float(bool(chosen)))
        lengths = [[len(own) for own in found]]
        return [Rows(np.concatenate(found), lengths), Rows(weight, [[1] * len(found)])]

    tail = tuple(int(n) for n in ins.shape[1:])
    likes = [Like(ins.dtype.name, (None, *tail), 1), Like("float32", (None, 1), 1)]
    rows, weight = on_host(choose, [ins, ins_tag, filter_tag], likes)
    return rows, weight


def get_tensor_from_selected_rows(x: Tensor, name: str | None = None) -> Tensor:
    """x: gradients of programs are dense."""
    return proa.assign(x)


def merge_selected_rows(x: Tensor, name: str | None = None) -> Tensor:
    """x: gradients of programs are dense."""
    return proa.assign(x)


def inplace_abn(
    input: Tensor,
    act: str | None = None,
    is_test: bool = False,
    momentum: float = 0.9,
    epsilon: float = 1e-05,
    param_attr: ParamAttrLike | None = None,
    bias_attr: ParamAttrLike | None = None,
    data_layout: str = "NCHW",
    name: str | None = None,
    moving_mean_name: str | None = None,
    moving_variance_name: str | None = None,
    do_model_average_for_mean_and_var: bool = True,
    use_global_stats: bool = False,
    act_alpha: float = 1.0,
) -> Tensor:
    """`static.nn.batch_norm`, then leaky_relu or elu of slope act_alpha, or nothing."""
    tensor: Tensor = batch_norm(
        input, None, is_test, momentum, epsilon, param_attr, bias_attr, data_layout,
        False, name, moving_mean_name, moving_variance_name,
        do_model_average_for_mean_and_var, use_global_stats,
    )  # fmt: skip
    if act in (None, "identity"):
        return tensor
    if act not in ("leaky_relu", "elu"):
        raise InvalidArgumentError(
            f"[inplace_abn] act must be None, 'leaky_relu' or 'elu', got {act!r}"
        )
    return (
        F.leaky_relu(tensor, act_alpha)
        if act == "leaky_relu"
        else F.elu(tensor, act_alpha)
    )


def load(out: Tensor, file_path: str, load_as_fp16: bool | None = None) -> None:
    """Let the startup program fill a Variable with the tensor of a file of 1.x."""
    with open(file_path, "rb") as file:
        array = read_stream(file.read(), 0, "load")[0].array
    if load_as_fp16:
        array = array.astype("float16")
    require_static("load")
    proa.assign(as_tensor(array.astype(out.dtype.name)), out)


def lstm(
    input: Tensor,
    init_h: Tensor,
    init_c: Tensor,
    max_len: int,
    hidden_size: int,
    num_layers: int,
    dropout_prob: float = 0.0,
    is_bidirec: bool = False,
    is_test: bool = False,
    name: str | None = None,
    default_initializer: Any = None,
    seed: int = -1,
) -> tuple[Tensor, Tensor, Tensor]:
    """LSTM layers over (steps, batch, width): all outputs, and the last states.

    Args:
        input: (steps, batch, width).
        init_h: The first outputs (layers * directions, batch, hidden_size).
        init_c: The first states, likewise.
        max_len: Has no meaning here.
        hidden_size: Width of the outputs of a direction.
        num_layers: How many layers there are.
        dropout_prob: Which share of the outputs between layers is dropped.
        is_bidirec: Whether each layer also goes backwards.
        is_test: Whether nothing is dropped.
        name: Has no meaning here.
        default_initializer: What fills the parameters, which 1.x had in one blob.
        seed: Has no meaning here.
    """
    attr = None if default_initializer is None else proa.ParamAttr(
        initializer=default_initializer)  # fmt: skip
    layer = proa.nn.LSTM(
        int(input.shape[2]), hidden_size, num_layers,
        "bidirect" if is_bidirec else "forward", time_major=True, dropout=dropout_prob,
        weight_ih_attr=attr, weight_hh_attr=attr,
    )  # fmt: skip
    layer.train() if not is_test else layer.eval()
    out, (h, c) = layer(input, (init_h, init_c))
    return out, h, c


def sampled_softmax_with_cross_entropy(
    logits: Tensor,
    label: Tensor,
    num_samples: int,
    num_true: int = 1,
    remove_accidental_hits: bool = True,
    use_customized_samples: bool = False,
    customized_samples: Tensor | None = None,
    customized_probabilities: Tensor | None = None,
    seed: int = 0,
) -> Tensor:
    """Softmax and cross entropy over labels and classes that are drawn (Jean et al.,
    2014): of logits minus log(probability of being drawn), (n, 1).

    Args:
        logits: (n, classes).
        label: (n, num_true).
        num_samples: How many classes are drawn for all rows, each once.
        num_true: Labels of a row.
        remove_accidental_hits: Whether a drawn class that is a label counts as none.
        use_customized_samples: Whether these are given:
        customized_samples: Labels and drawn classes (n, num_true + num_samples).
        customized_probabilities: Their probabilities.
        seed: Where not 0, every run draws the same classes.
    """
    if use_customized_samples:
        assert customized_samples is not None and customized_probabilities is not None
        chosen, chance = customized_samples, customized_probabilities
    else:
        chosen, chance = _drawn(logits, label, num_samples, seed)
    scores = ops.take_along_axis(logits, ops.cast(chosen, dtype="int64"), axis=1)
    scores = proa.subtract(scores, proa.log(chance))
    if remove_accidental_hits:
        own = ops.unsqueeze(chosen[:, num_true:], axis=[2])
        hits = proa.any(proa.equal(own, ops.unsqueeze(label, axis=[1])), axis=2)
        hits = proa.cast(hits, scores.dtype)
        none = proa.zeros_like(scores[:, :num_true])
        scores = proa.subtract(scores, ops.concat(none, proa.scale(hits, 1e20), axis=1))
    normal = F.log_softmax(scores)
    return proa.scale(proa.mean(normal[:, :num_true], axis=1, keepdim=True), -1.0)


def _drawn(
    logits: Tensor, label: Tensor, count: int, seed: int
) -> tuple[Tensor, Tensor]:
    """Labels and classes that are drawn, log-uniformly, and their probabilities."""
    classes = int(logits.shape[1])
    wide = int(label.shape[1]) + count

    def draw(labels: Array) -> list[Array]:
        rng = np.random.default_rng(seed or None)
        found: list[int] = []
        tries = 0
        while len(found) < count:
            tries += 1
            each = int(np.exp(rng.random() * np.log(classes + 1.0))) - 1
            if each < classes and each not in found:
                found.append(each)
        whole = np.concatenate([labels, np.tile(found, (len(labels), 1))], 1)
        chance = np.log((whole + 2.0) / (whole + 1.0)) / np.log(classes + 1.0)
        return [whole, -np.expm1(tries * np.log1p(-chance))]

    likes = [Like("int64", (None, wide)), Like(logits.dtype.name, (None, wide))]
    chosen, chance = on_host(draw, [label], likes)
    return chosen, chance


def similarity_focus(
    input: Tensor, axis: int, indexes: Sequence[int], name: str | None = None
) -> Tensor:
    """A mask of x (batch, A, B, C): 1 at the greatest numbers of chosen matrices.

    Of each matrix, which is at an index of the axis, the greatest number of rows and
    columns that have none yet is taken, again and again.
    """

    def mask(x: Array) -> Array:
        moved = np.moveaxis(x, axis, 1)
        chosen = np.zeros((len(x), *moved.shape[2:]))
        for i in range(len(x)):
            for index in indexes:
                left = moved[i, index].astype("float64")
                for _ in range(min(left.shape)):
                    r, c = np.unravel_index(left.argmax(), left.shape)
                    chosen[i, r, c] = 1
                    left[r], left[:, c] = -np.inf, -np.inf
        wide = np.broadcast_to(chosen[:, None], moved.shape)
        return np.moveaxis(wide, 1, axis)

    shape = tuple(int(n) if int(n) >= 0 else None for n in input.shape)
    return on_host(mask, [input], [Like(input.dtype.name, shape)])[0]
