"""Sequences of rows: LoDTensors, which the wheels of Paddle 3 partly lack."""

from __future__ import annotations

from typing import Any

from builder import Rows, case, f, ints, op, weight
from paddle import static

LENGTHS = [2, 4, 1, 3]
ROWS = Rows(f(10, 4), [LENGTHS])
IDS = Rows(ints(7, 10, 1), [LENGTHS])
TWO = Rows(f(6, 4), [[2, 1], [3, 1, 2]])


def sequence(name: str) -> Any:
    """The function, or one that fails where it is called: a missing reference."""
    found = getattr(static.nn, f"sequence_{name}", None)
    if found is None:
        raise NotImplementedError(f"sequence_{name} is no longer in the wheel")
    return found


for kind in ("sum", "average", "sqrt", "max", "first", "last"):
    case(f"sequence_pool_{kind}", ROWS, lambda x, k=kind: sequence("pool")(x, k))
case("sequence_pool_levels", TWO, lambda x: sequence("pool")(sequence("pool")(x, "sum"),
                                                              "average"))  # fmt: skip
case("sequence_softmax", Rows(f(10, 1), [LENGTHS]), lambda x: sequence("softmax")(x))
for name, options in {
    "plain": {}, "wide": {"filter_size": 5, "act": "tanh"},
    "start": {"filter_size": 3, "padding_start": -2}, "after": {"padding_start": 0},
}.items():  # fmt: skip
    case(
        f"sequence_conv_{name}", ROWS, lambda x, o=options: sequence("conv")(x, 3, **o)
    )
case("sequence_expand_rows", [f(4, 3), ROWS], lambda x, y: sequence("expand")(x, y))
case(
    "sequence_expand_level", [f(2, 3), TWO],
    lambda x, y: sequence("expand")(x, y, ref_level=0),
)  # fmt: skip
case(
    "sequence_expand_sequences", [Rows(f(4, 3), [[3, 1]]), TWO],
    lambda x, y: sequence("expand")(x, y, ref_level=0),
)  # fmt: skip
case("sequence_expand_as", [f(4, 3), ROWS], lambda x, y: sequence("expand_as")(x, y))
case("sequence_reverse", ROWS, lambda x: sequence("reverse")(x))
case("sequence_reshape", ROWS, lambda x: sequence("reshape")(x, 2))
case(
    "sequence_concat", [ROWS, Rows(f(6, 4), [[1, 2, 2, 1]])],
    lambda x, y: sequence("concat")([x, y]),
)  # fmt: skip
case("sequence_enumerate", IDS, lambda x: sequence("enumerate")(x, 3, pad_value=8))
case(
    "sequence_scatter", [f(4, 7), IDS, Rows(f(10, 1), [LENGTHS])],
    lambda x, i, u: sequence("scatter")(x, i, u),
)  # fmt: skip
case("sequence_erase", Rows(ints(4, 10, 1).astype("int32"), [LENGTHS]),
     lambda x: sequence("pool")(op("cast", {"X": op(
         "sequence_erase", {"X": x}, {"tokens": [1, 3]}, ("Out", "int32"))},
         {"in_dtype": 2, "out_dtype": 5}, ("Out", "float32")), "sum"))  # fmt: skip


def padded(x: Any, **options: Any) -> Any:
    return sequence("pad")(x, weight(1), **options)


case("sequence_pad", ROWS, padded)
case("sequence_pad_to", ROWS, lambda x: padded(x, maxlen=6))


def unpadded(x: Any) -> Any:
    wide, length = padded(x)
    return sequence("pool")(sequence("unpad")(wide * 2.0, length), "sum")


case("sequence_unpad", ROWS, unpadded)


case(
    "sequence_slice", [ROWS, ints(1, 4, 1), ints(1, 4, 1) + 1],
    lambda x, at, n: sequence("slice")(x, at, n),
)  # fmt: skip


def text_classifier(x: Any) -> Any:
    words = op("lookup_table", {"Ids": x, "W": weight(7, 5)}, {}, ("Out", "float32"))
    hidden = static.nn.fc(words, 6, activation="tanh")
    return static.nn.fc(sequence("pool")(hidden, "max"), 2)


case("sequence_text_classifier", IDS, text_classifier)


def lstm(x: Any, holes: bool = False, **attrs: Any) -> Any:
    size = 3
    bias = weight(1, (7 if holes else 4) * size)
    result = op(
        "lstm", {"Input": x, "Weight": weight(size, 4 * size), "Bias": bias},
        {"use_peepholes": holes, "is_test": True, **attrs},
        ("Hidden", "float32"), ("Cell", "float32"), ("BatchGate", "float32"),
        ("BatchCellPreAct", "float32"),
    )  # fmt: skip
    return result[0], result[1]


GATES = Rows(f(10, 12), [LENGTHS])
case("lstm_plain", GATES, lstm)
case("lstm_peepholes", GATES, lambda x: lstm(x, True))
case("lstm_reverse", GATES, lambda x: lstm(x, True, is_reverse=True))
case("lstm_relu", GATES, lambda x: lstm(x, candidate_activation="relu"))


def gru(x: Any, **attrs: Any) -> Any:
    size = 4
    return op(
        "gru", {"Input": x, "Weight": weight(size, 3 * size),
                "Bias": weight(1, 3 * size)},
        {"is_test": True, **attrs}, ("Hidden", "float32"), ("BatchGate", "float32"),
        ("BatchResetHiddenPrev", "float32"), ("BatchHidden", "float32"),
    )[0]  # fmt: skip


case("gru_plain", GATES, gru)
case("gru_origin", GATES, lambda x: gru(x, origin_mode=True))
case("gru_reverse", GATES, lambda x: gru(x, is_reverse=True))


def reset(x: Any, *others: Any, **attrs: Any) -> Any:
    given = {"X": x, **({"Y": others[0]} if others else {})}
    return sequence("pool")(op("lod_reset", given, attrs, ("Out", "float32")), "sum")


case("lod_reset_offsets", ROWS, lambda x: reset(x, target_lod=[0, 3, 10]))
case("lod_reset_like", [f(10, 4), ROWS], reset)
