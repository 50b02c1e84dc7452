"""What becomes of calls that other names for arguments do not express.

A rule changes the arguments and returns the new name, or what is to be done by hand as
`ByHand`.
"""

from __future__ import annotations

from collections.abc import Callable

import libcst as cst

from proa.migrate.arguments import Arguments, is_false, is_true
from proa.migrate.table import FLUID, Row


class ByHand(Exception):
    """The call is left as it is; the text says what to do."""


Rule = Callable[[Row, Arguments], str]


def _default(name: str, new: str, value: str) -> Rule:
    """The default that the old parameter had."""

    def rule(row: Row, arguments: Arguments) -> str:
        if name not in arguments.values:
            arguments.added[new] = cst.parse_expression(value)
        return row.new

    return rule


def _brelu(row: Row, arguments: Arguments) -> str:
    for old, new, value in (("t_min", "min", "0.0"), ("t_max", "max", "24.0")):
        _default(old, new, value)(row, arguments)
    return row.new


def _broadcast(row: Row, arguments: Arguments) -> str:
    axis = arguments.values.get("axis")
    if axis is not None and cst.Module([]).code_for_node(axis) != "-1":
        arguments.keep()
        return f"{FLUID}layers.{row.old.rpartition('.')[2]}"
    arguments.handled("axis")
    return row.new


def _data(row: Row, arguments: Arguments) -> str:
    """The batch is the first size of the shape now, unless a size was open."""
    shape, append = arguments.values.get("shape"), "append_batch_size"
    arguments.handled(append, "type", "stop_gradient")
    if append in arguments.values and not is_true(arguments.values[append]):
        if not is_false(arguments.values[append]):
            raise ByHand("append_batch_size: give the whole shape")
        return row.new
    if not isinstance(shape, (cst.List, cst.Tuple)):
        raise ByHand("shape: add None before it, unless a size is negative")
    sizes = [cst.Module([]).code_for_node(e.value) for e in shape.elements]
    if not any(size.startswith("-") or size == "None" for size in sizes):
        batch = cst.Element(cst.Name("None"), cst.Comma(
            whitespace_after=cst.SimpleWhitespace(" ")))  # fmt: skip
        if not shape.elements:
            batch = cst.Element(cst.Name("None"))
        arguments.replace("shape", cst.List([batch, *shape.elements]))
    return row.new


def _dropout(row: Row, arguments: Arguments) -> str:
    how, test = "dropout_implementation", arguments.values.get("is_test")
    arguments.handled(how, "is_test")
    if how in arguments.values and arguments.text(how) is None:
        raise ByHand(f"{how}: mode 'downscale_in_infer' or 'upscale_in_train'")
    if arguments.text(how) != "upscale_in_train":
        arguments.added["mode"] = cst.SimpleString('"downscale_in_infer"')
    if row.is_class or is_false(test):
        return row.new
    test = cst.Name("False") if test is None else test
    training = cst.UnaryOperation(cst.Not(), test)
    arguments.added["training"] = cst.Name("False") if is_true(test) else training
    return row.new


def _embedding(row: Row, arguments: Arguments) -> str:
    size = arguments.values.get("size")
    arguments.handled("size", "is_distributed")
    if not isinstance(size, (cst.List, cst.Tuple)) or len(size.elements) != 2:
        raise ByHand("size: give both sizes, one by one")
    arguments.leading = [element.value for element in size.elements]
    return row.new


def _increment(row: Row, arguments: Arguments) -> str:
    in_place = arguments.values.get("in_place")
    if in_place is None or is_true(in_place):
        arguments.handled("in_place")
        return row.new
    arguments.keep()
    return f"{FLUID}layers.increment"


def _matmul(row: Row, arguments: Arguments) -> str:
    if "alpha" not in arguments.values:
        return row.new
    arguments.keep()
    return f"{FLUID}layers.matmul"


def _cross_entropy(row: Row, arguments: Arguments) -> str:
    """It took probabilities, and gave a loss for each sample."""
    arguments.added["reduction"] = cst.SimpleString('"none"')
    arguments.added["use_softmax"] = cst.Name("False")
    return row.new


def _uniform(row: Row, arguments: Arguments) -> str:
    given = arguments.values.get("uniform")
    arguments.handled("uniform")
    if given is None or is_true(given):
        return row.new
    if not is_false(given):
        raise ByHand(row.note)
    return row.new.replace("Uniform", "Normal")


def _pool(layer: bool) -> Rule:
    def rule(row: Row, arguments: Arguments) -> str:
        kind = arguments.text("pool_type") if "pool_type" in arguments.values else "max"
        whole = arguments.values.get("global_pooling")
        known = kind in ("max", "avg") and (is_false(whole) or is_true(whole))
        if not known or (kind == "max" and "exclusive" in arguments.values):
            raise ByHand(row.note)
        drop = {"pool_type", "global_pooling"}
        if is_true(whole):
            drop |= set(arguments.values) - {"input"}
            arguments.added["output_size"] = cst.Integer("1")
        elif "pool_stride" not in arguments.values:
            arguments.added["stride"] = cst.Integer("1")
        arguments.remove(drop)
        adaptive = "adaptive" if is_true(whole) else ""
        return _pool_name(layer, adaptive, str(kind))

    return rule


def _adaptive_pool2d(row: Row, arguments: Arguments) -> str:
    kind = arguments.text("pool_type") if "pool_type" in arguments.values else "max"
    if kind not in ("max", "avg") or not is_false(
        arguments.values.get("require_index")
    ):
        raise ByHand(row.note)
    arguments.handled("require_index")
    arguments.remove({"pool_type"})
    return _pool_name(False, "adaptive", kind)


def _pool_name(layer: bool, adaptive: str, kind: str) -> str:
    if layer:
        return f"paddle.nn.{adaptive.title()}{kind.title()}Pool2D"
    words = "_".join(filter(None, (adaptive, kind, "pool2d")))
    return f"paddle.nn.functional.{words}"


def _resized(mode: str | None) -> Rule:
    def rule(row: Row, arguments: Arguments) -> str:
        name = mode or (arguments.text("resample") or "BILINEAR").lower()
        arguments.handled("resample")
        arguments.added["mode"] = cst.SimpleString(f'"{name}"')
        if name == "nearest":
            if not is_false(arguments.values.get("align_corners", cst.Name("True"))):
                raise ByHand("align_corners: nearest neighbours have none in 2.x")
            arguments.handled("align_corners")
            return row.new
        if "align_corners" not in arguments.values:
            arguments.added["align_corners"] = cst.Name("True")
        if "align_mode" not in arguments.values:
            arguments.added["align_mode"] = cst.Integer("1")
        return row.new

    return rule


def _save_dygraph(row: Row, arguments: Arguments) -> str:
    state, path = arguments.values.get("state_dict"), arguments.values.get("model_path")
    if state is None or path is None:
        raise ByHand(row.note)
    code = cst.Module([]).code_for_node(state).lower()
    optimizer = any(word in code for word in ("opt", "adam", "sgd", "momentum"))
    suffix = ".pdopt" if optimizer else ".pdparams"
    if isinstance(path, cst.SimpleString) and not path.prefix:
        quote = path.quote
        new: cst.BaseExpression = cst.SimpleString(
            f"{quote}{path.raw_value}{suffix}{quote}"
        )
    else:
        new = cst.BinaryOperation(path, cst.Add(), cst.SimpleString(f'"{suffix}"'))
    arguments.replace("model_path", new)
    return row.new


RULES: dict[str, Rule] = {
    "Dropout": _dropout,
    "Embedding": _embedding,
    "Pool2D": _pool(layer=True),
    "adaptive_pool2d": _adaptive_pool2d,
    "axis0": _default("axis", "axis", "0"),
    "bilinear": _resized("bilinear"),
    "brelu": _brelu,
    "broadcast": _broadcast,
    "cross_entropy": _cross_entropy,
    "data": _data,
    "dropout": _dropout,
    "hard_sigmoid": _default("slope", "slope", "0.2"),
    "increment": _increment,
    "leaky_relu": _default("alpha", "negative_slope", "0.02"),
    "matmul": _matmul,
    "nearest": _resized("nearest"),
    "pool2d": _pool(layer=False),
    "resample": _resized(None),
    "save_dygraph": _save_dygraph,
    "split": _default("dim", "axis", "-1"),
    "uniform": _uniform,
}
