"""The types that callers catch are those of Paddle 2.x; nothing wrong is accepted."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import proa
from proa.errors import Error
from proa.io import RandomSampler, WeightedRandomSampler, random_split
from proa.nn import functional as F


def leaf() -> proa.Tensor:
    w = proa.ones([2, 2])
    w.stop_gradient = False
    return w


def assign_to_leaf() -> None:
    leaf()[0] = 3.0


def backward_after_a_change() -> None:
    y = leaf() * 1
    z = y * y
    y.add_(proa.ones([2, 2]))
    z.sum().backward()


class Ten(proa.io.Dataset[int]):
    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> int:
        return index


ones = proa.ones
x = ones([3, 4])
cube = ones([1, 1, 4, 4, 4])
ids = proa.to_tensor([9])
nan = math.nan
#: What is called, the type that Paddle 2.x raises, and what the text says.
CALLS: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "in-place op on a leaf": (lambda: leaf().add_(x[0, 0]), ValueError, r"\[add_\]"),
    "assignment to a leaf": (assign_to_leaf, ValueError, "leaf of shape"),
    "version conflict": (backward_after_a_change, RuntimeError, "modified in place"),
    "load of a missing path": (lambda: proa.load("/no/file"), ValueError, "/no/file"),
    "jit.load of a missing path": (
        lambda: proa.jit.load("/no/model"), ValueError, "/no/model",
    ),
    "read_file of a missing path": (
        lambda: proa.vision.ops.read_file("/no/file"), FileNotFoundError, "no file",
    ),
    "shapes": (lambda: ones([2]) + ones([3]), ValueError, r"\[add\]"),
    "range": (lambda: F.embedding(ids, ones([4, 2])), ValueError, r"\[embedding\]"),
    "index": (lambda: x[7], IndexError, "got 7"),
    "attribute": (lambda: proa.nn.Conv2D(3, 4, 3, groups=2), ValueError, "groups"),
    "kind": (lambda: proa.concat(3), TypeError, r"\[concat\] x must be .*got 'int' 3"),
    "kind of an attribute": (
        lambda: proa.nn.Linear(3, "a"), TypeError,
        r"\[Linear\] out_features must be an int, got 'str' 'a'",
    ),
    "a list for an int": (
        lambda: F.softmax(x, axis=[0]), TypeError,
        r"\[softmax\] axis must be an int, got 'list'",
    ),
    "a list for an axis": (
        lambda: proa.cumsum(x, axis=[0]), ValueError, r"\[cumsum\] .*got \[0\]",
    ),
    "swapaxes": (lambda: x.swapaxes(0, 5), ValueError, r"\[swapaxes\].*got 5"),
    "group_norm": (lambda: F.group_norm(ones([4]), 2), ValueError, "at least 2 axes"),
    "instance_norm": (
        lambda: F.instance_norm(ones([4])), ValueError, r"\[instance_norm\] .*\[4\]",
    ),
    "attention": (
        lambda: F.scaled_dot_product_attention(x, x, x), ValueError,
        r"\[scaled_dot_product_attention\] expected query with 4 axes, got .*\[3, 4\]",
    ),
    "bilinear": (lambda: F.bilinear(x, x, x), ValueError, "weight with 3 axes"),
    "crop": (lambda: proa.crop(x, [1]), ValueError, r"each of 2 axes, got \[1\]"),
    "maxout": (lambda: F.maxout(x, 0), ValueError, "channels=4, groups=0"),
    "cross_entropy": (
        lambda: F.cross_entropy(ones([]), ones([], "int64")), ValueError,
        r"\[cross_entropy\] .* got a 0-d tensor",
    ),
    "a list of unlike tensors": (
        lambda: proa.exp([x, ones([2])]), ValueError, r"\[exp\] expected x to be",
    ),
    "a tuple of words": (lambda: proa.exp(("a", "b")), ValueError, r"\[exp\] expected"),
    "logspace": (lambda: proa.logspace(0, 1, 3, base=-2), ValueError, "got -2"),
    "median of a list": (lambda: proa.median([1.0, 2.0]), TypeError, r"\[median\]"),
    "median axis": (lambda: proa.median(x, 1.0), ValueError, r"\[median\] .*1.0"),
    "frac of bool": (lambda: proa.frac(ones([2], "bool")), TypeError, r"\[frac\]"),
    "triu_indices row": (lambda: proa.triu_indices(-1), TypeError, "got -1"),
    "triu_indices as a value": (lambda: proa.triu_indices(-1), ValueError, "got -1"),
    "triu_indices col": (lambda: proa.triu_indices(2, 1.5), TypeError, "col .*1.5"),
    "triu_indices dtype": (
        lambda: proa.triu_indices(2, dtype="float32"), TypeError, "int32 or int64",
    ),
    "multinomial rank": (
        lambda: proa.multinomial(ones([2, 2, 2])), ValueError, "1 to 2 axes",
    ),
    "multinomial weights": (
        lambda: proa.multinomial(proa.to_tensor([-1.0, 2.0])), ValueError, "-1.0",
    ),
    "multinomial NaN": (
        lambda: proa.multinomial(proa.to_tensor([nan, 2.0])), ValueError, "nan",
    ),
    "multinomial zeros": (
        lambda: proa.multinomial(proa.zeros([2, 3])), ValueError, "a sum greater than",
    ),
    "multinomial count": (lambda: proa.multinomial(x, 0), ValueError, "got 0"),
    "topk 0": (lambda: proa.topk(x, 0), ValueError, r"\[topk\] .*k=0"),
    "topk below": (lambda: proa.topk(x, -1), ValueError, r"\[topk\] .*k=-1"),
    "topk above": (lambda: proa.topk(x, 5), ValueError, r"\[topk\] .*k=5"),
    "max_pool3d stride": (
        lambda: F.max_pool3d(cube, 2, stride=[1, 1]), ValueError, "stride",
    ),
    "avg_pool3d stride": (
        lambda: F.avg_pool3d(cube, 2, stride=[1, 1, 0]), ValueError, "stride",
    ),
    "pool3d stride 0": (lambda: F.max_pool3d(cube, 2, stride=0), ValueError, "got 0"),
    "rrelu of ints": (lambda: F.rrelu(ones([2], "int32")), TypeError, "int32"),
    "rrelu range": (lambda: F.rrelu(x, 0.5, 0.1), ValueError, r"got 0\.5 and 0\.1"),
    "rrelu kind": (lambda: F.rrelu(x, "a", 1.0), TypeError, "lower must be a float"),
    "random_split sum": (lambda: random_split(Ten(), [5, 6]), ValueError, "got 11"),
    "random_split sign": (lambda: random_split(Ten(), [-5, 15]), ValueError, "-5"),
    "random_split parts": (
        lambda: random_split(Ten(), [2.5, 7.5]), ValueError, r"2\.5",
    ),
    "RandomSampler": (
        lambda: RandomSampler(Ten(), num_samples=11), ValueError, "10, .*got 11",
    ),
    "RandomSampler kind": (
        lambda: RandomSampler(Ten(), replacement="yes"), TypeError, "bool",
    ),
    "WeightedRandomSampler NaN": (
        lambda: WeightedRandomSampler([1.0, nan], 1), ValueError, "nan",
    ),
    "WeightedRandomSampler inf": (
        lambda: WeightedRandomSampler([1.0, math.inf], 1), ValueError, "inf",
    ),
    "WeightedRandomSampler zeros": (
        lambda: WeightedRandomSampler([0, 0], 1), ValueError, "not all 0",
    ),
    "create_parameter without a shape": (
        lambda: proa.create_parameter(None), ValueError, r"\[create_parameter\]",
    ),
    "create_parameter of words": (
        lambda: proa.create_parameter("a"), ValueError, r"\[create_parameter\] .*'a'",
    ),
    "arange to infinity": (
        lambda: proa.arange(math.inf), ValueError, r"\[arange\] .*end=inf",
    ),
    "more parts than memory holds": (
        lambda: proa.zeros([0]).chunk(2**64), MemoryError,
        r"\[split\] expected num_or_sections to fit",
    ),
    "soft labels without classes": (
        lambda: F.cross_entropy(ones([]), ones([]), soft_label=True), ValueError,
        r"\[cross_entropy\] .* got a 0-d tensor",
    ),
    "soft labels' axis": (
        lambda: F.cross_entropy(x, x, soft_label=True, axis=5), ValueError, "got 5",
    ),
    "BatchNorm's names": (
        lambda: proa.nn.BatchNorm(2, moving_mean_name=3), TypeError,
        r"\[BatchNorm\] expected moving_mean_name to be a str, got 3",
    ),
    "gumbel_softmax": (
        lambda: F.gumbel_softmax(x, temperature=0), ValueError, "above 0, got 0",
    ),
    "attention without features": (
        lambda: F.scaled_dot_product_attention(*[ones([1, 2, 3, 0])] * 3), ValueError,
        "at least 1 feature",
    ),
    "collation of unlike shapes": (
        lambda: proa.io.default_collate_fn([ones([2]), ones([3])]), ValueError,
        r"one kind and shape, got \[float32 \(2,\), float32 \(3,\)\]",
    ),
    "collation of a large number": (
        lambda: proa.io.default_collate_fn([1, 2**64]), ValueError, "one kind",
    ),
    "Subset of a dict": (
        lambda: proa.io.Subset({"a": 1}, [0])[0], IndexError, "got 0",
    ),
    "batch size": (
        lambda: proa.io.BatchSampler(Ten(), batch_size=1.5), ValueError, r"got 1\.5",
    ),
    "kinds of edges": (
        lambda: proa.geometric.reindex_heter_graph(ids, [ids], []), ValueError,
        "got 1 and 0",
    ),
    "negative counts of edges": (
        lambda: proa.geometric.reindex_graph(
            proa.to_tensor([0, 1]), ids, proa.to_tensor([2, -1])
        ), ValueError, "one number of neighbors",
    ),
    "prroi_pool": (
        lambda: proa.vision.ops.prroi_pool(ones([1, 1, 4, 4]), [ones([])]), ValueError,
        r"\[prroi_pool\] boxes must have shape \(R, 4\)",
    ),
    "levels of a pyramid": (
        lambda: proa.vision.ops.distribute_fpn_proposals(x, 0, 2**40, 2, 3), ValueError,
        "at most 4096 levels",
    ),
    "boxes of each image": (
        lambda: proa.vision.ops.distribute_fpn_proposals(
            x, 2, 3, 2, 3, rois_num=proa.to_tensor([[3]])
        ), ValueError, "the 3 boxes",
    ),
    "einsum array": (
        lambda: proa.einsum("i->i", np.ones(2)), TypeError, r"operands\[0\].*ndarray",
    ),
    "einsum word": (lambda: proa.einsum("i->i", "a"), TypeError, r"operands\[0\]"),
    "einsum none": (lambda: proa.einsum("i->i"), ValueError, "got none"),
    "einsum count": (lambda: proa.einsum("i,j->ij", ones([2])), ValueError, "einsum"),
    "einsum equation": (lambda: proa.einsum(3, x), TypeError, "equation must be a str"),
}  # fmt: skip


@pytest.mark.feature("L269")
@pytest.mark.parametrize("name", CALLS)
def test_an_error_is_of_the_type_that_callers_catch(name: str):
    call, kind, text = CALLS[name]
    with pytest.raises(kind, match=text) as caught:
        call()
    assert isinstance(caught.value, Error)


def test_a_tuple_of_numbers_is_an_array():
    got = proa.multiply((1.0, 2.0, 3.0), ones([3]))
    np.testing.assert_array_equal(got.numpy(), [1, 2, 3])


def test_an_error_of_the_callers_function_passes_as_it_is():
    def broken(a: Any, b: Any) -> Any:
        return {}["missing"]

    with pytest.raises(KeyError, match="missing"):
        proa.optimizer.lr.LambdaDecay(0.1, lambda epoch: {}["missing"])
    with pytest.raises(KeyError, match="missing"):
        proa.vision.transforms.Compose([lambda image: {}["missing"]])(np.ones((2, 2)))
    with pytest.raises(KeyError, match="missing"):
        proa.static.nn.cond(proa.to_tensor(True), lambda: broken(1, 2), lambda: 1)


def test_what_python_raised_is_the_cause():
    with pytest.raises(Error, match=r"\[arange\] expected the documented") as caught:
        proa.arange(0, 3, {})
    assert type(caught.value.__cause__) is TypeError
