"""A row's flags must fit its name and arguments: nothing is read from a name."""

from __future__ import annotations

import pytest

from proa.schema import ROWS, op


@pytest.mark.parametrize(
    ("signature", "fields", "text"),
    [
        ("probe_(x)", {"inplace": "x"}, "mutates"),
        ("probe(x)", {"inplace": "x", "mutates": True}, "mutates"),
        ("probe_(x)", {"mutates": True}, "inplace="),
        ("probe(x, *, seed: int, offset: int)", {}, "seed and offset"),
        ("probe(x, *, seed: int)", {"random": True}, "seed and offset"),
        ("probe(x)", {"random": True}, "seed and offset"),
        ("probe(x)", {"extra_isas": ("avx512",)}, "extra_isas"),
        ("probe(x: mark)", {}, "known kind"),
    ],
)
def test_a_row_with_flags_that_contradict_it_is_refused(signature, fields, text):
    with pytest.raises(ValueError, match=text):
        op(signature, shape="same", grad=None, doc="A test's.", **fields)
    assert not {"probe", "probe_"} & set(ROWS)


def test_optimizer_steps_mutate_and_others_have_two_forms():
    mutating = {row.name for row in ROWS.values() if row.mutates}
    assert {"sgd_", "adam_", "momentum_"} < mutating
    assert not mutating & {"relu", "add", "index_put"}


def test_random_rows_are_those_that_draw():
    assert {row.name for row in ROWS.values() if row.random} == {
        "attention", "attention_grad", "bernoulli", "dropout", "gaussian", "randint",
        "randperm", "uniform",
    }  # fmt: skip
