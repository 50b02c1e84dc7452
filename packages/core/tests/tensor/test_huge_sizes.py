"""Sizes, counts and repeats that no memory can hold are refused at once."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

import proa
import proa.nn.functional as F
from proa import _core
from proa.errors import InvalidArgumentError, OutOfRangeError, ResourceExhaustedError

nn, fft, distribution = proa.nn, proa.fft, proa.distribution
X, V, IMAGE, LINE = (
    proa.ones([3, 4]), proa.arange(5), proa.ones([1, 3, 8, 8]), proa.ones([1, 3, 8]),
)  # fmt: skip
KERNEL = proa.ones([3, 3, 3, 3])

#: What a huge number is given to, one call each.
CALLS: dict[str, Callable[[int], Any]] = {
    "arange": lambda n: proa.arange(n),
    "arange step": lambda n: proa.arange(0.0, 1.0, 1 / n),
    "broadcast_to": lambda n: proa.broadcast_to(X, [n, 3, 4]) + 1,
    "bincount": lambda n: proa.bincount(V, minlength=n),
    "bincount value": lambda n: proa.bincount(proa.to_tensor([n])),
    "chunk": lambda n: proa.chunk(X, n, 0),
    "create_parameter": lambda n: proa.create_parameter([n], "float32"),
    "diag": lambda n: proa.diag(proa.ones([3]), n),
    "diag_embed": lambda n: proa.diag_embed(X, n),
    "diagflat": lambda n: proa.diagflat(X, -n),
    "diff": lambda n: proa.diff(X, n=n),
    "empty": lambda n: proa.empty([n, 2]),
    "expand": lambda n: proa.expand(X, [n, 3, 4]) + 1,
    "eye": lambda n: proa.eye(n),
    "eye columns": lambda n: proa.eye(2, n),
    "full": lambda n: proa.full([n, n], 1.0),
    "histogram": lambda n: proa.histogram(X, bins=n),
    "kthvalue": lambda n: proa.kthvalue(X, n),
    "linspace": lambda n: proa.linspace(0, 1, n),
    "logspace": lambda n: proa.logspace(0, 1, n),
    "multinomial": lambda n: proa.multinomial(proa.ones([4]), n, True),
    "normal": lambda n: proa.normal(0.0, 1.0, [n]),
    "rand": lambda n: proa.rand([n]),
    "randint": lambda n: proa.randint(0, 5, [n]),
    "randn": lambda n: proa.randn([n, n]),
    "randperm": lambda n: proa.randperm(n),
    "repeat_interleave": lambda n: proa.repeat_interleave(X, n),
    "repeat_interleave axis": lambda n: proa.repeat_interleave(X, n, 0),
    "reshape": lambda n: proa.reshape(X, [n, n]),
    "scatter_nd": lambda n: proa.scatter_nd(proa.to_tensor([[0]]), proa.ones([1]), [n]),
    "split": lambda n: proa.split(X, n, 0),
    "standard_normal": lambda n: proa.standard_normal([n]),
    "tile": lambda n: proa.tile(X, [n, 1]),
    "tile both": lambda n: proa.tile(X, [n, n]),
    "topk": lambda n: proa.topk(X, n),
    "tril_indices": lambda n: proa.tril_indices(n, n),
    "triu_indices": lambda n: proa.triu_indices(2, n),
    "unbind": lambda n: proa.unbind(proa.expand(proa.ones([1]), [min(n, 2**48)])),
    "unstack": lambda n: proa.unstack(proa.expand(proa.ones([1]), [min(n, 2**48)])),
    "uniform": lambda n: proa.uniform([n]),
    "zeros": lambda n: proa.zeros([n]),
    "ones_like": lambda n: proa.ones_like(proa.expand(proa.ones([1]), [min(n, 2**48)])),
    "adaptive_avg_pool2d": lambda n: F.adaptive_avg_pool2d(IMAGE, n),
    "adaptive_max_pool1d": lambda n: F.adaptive_max_pool1d(LINE, n),
    "affine_grid": lambda n: F.affine_grid(proa.ones([1, 2, 3]), [1, 3, n, n]),
    "avg_pool2d": lambda n: F.avg_pool2d(IMAGE, n),
    "conv2d padding": lambda n: F.conv2d(IMAGE, KERNEL, padding=n),
    "conv2d dilation": lambda n: F.conv2d(IMAGE, KERNEL, dilation=n),
    "conv2d_transpose": lambda n: F.conv2d_transpose(IMAGE, KERNEL, stride=n),
    "dropout": lambda n: F.dropout(proa.expand(proa.ones([1]), [min(n, 2**48)])),
    "interpolate": lambda n: F.interpolate(IMAGE, [n, n]),
    "interpolate scale": lambda n: F.interpolate(IMAGE, scale_factor=float(n)),
    "local_response_norm": lambda n: F.local_response_norm(IMAGE, n),
    "max_pool2d": lambda n: F.max_pool2d(IMAGE, 2, padding=n),
    "one_hot": lambda n: F.one_hot(V, n),
    "pad": lambda n: F.pad(X, [0, 0, n, n]),
    "pad replicate": lambda n: F.pad(LINE, [n, n], mode="replicate", data_format="NCL"),
    "pad reflect": lambda n: F.pad(LINE, [n, n], mode="reflect", data_format="NCL"),
    "pixel_shuffle": lambda n: F.pixel_shuffle(IMAGE, n),
    "sequence_mask": lambda n: F.sequence_mask(V, n),
    "unfold kernel": lambda n: F.unfold(IMAGE, n),
    "unfold padding": lambda n: F.unfold(IMAGE, 3, paddings=n),
    "BatchNorm1D": lambda n: nn.BatchNorm1D(n),
    "Conv2D": lambda n: nn.Conv2D(n, 8, 3),
    "Embedding": lambda n: nn.Embedding(n, 8),
    "GRU": lambda n: nn.GRU(8, 4, num_layers=n),
    "LayerNorm": lambda n: nn.LayerNorm(n),
    "Linear": lambda n: nn.Linear(n, n),
    "LSTM": lambda n: nn.LSTM(8, 4, num_layers=n),
    "LSTM hidden": lambda n: nn.LSTM(8, n),
    "TransformerEncoder": lambda n: nn.TransformerEncoder(
        nn.TransformerEncoderLayer(8, 2, 8), n
    ),
    "ZeroPad2D": lambda n: nn.ZeroPad2D(n)(IMAGE),
    "fft": lambda n: fft.fft(X, n=n),
    "fftfreq": lambda n: fft.fftfreq(n),
    "fftn": lambda n: fft.fftn(X, [n, n]),
    "irfft": lambda n: fft.irfft(fft.rfft(X), n=n),
    "rfftfreq": lambda n: fft.rfftfreq(n),
    "Categorical": lambda n: distribution.Categorical(proa.ones([4])).sample([n]),
    "Normal": lambda n: distribution.Normal(0.0, 1.0).sample([n]),
}


@pytest.mark.parametrize("size", [2**63 - 1, 2**62, 2**40], ids=hex)
@pytest.mark.parametrize("name", CALLS)
def test_a_size_that_cannot_be_meant_is_refused_at_once(name: str, size: int) -> None:
    _core.reset_peak()
    before, start = _core.memory_stats(), time.process_time()
    state = proa.get_rng_state()
    with pytest.raises(
        (ResourceExhaustedError, InvalidArgumentError, OutOfRangeError)
    ) as raised:
        CALLS[name](size)
    assert str(raised.value).startswith("[")
    assert time.process_time() - start < 1
    after = _core.memory_stats()
    assert after["peak"] - before["allocated"] < 1 << 20
    if name.startswith(("rand", "normal", "uniform", "standard")):
        assert proa.get_rng_state() == state


def test_the_error_names_the_op_its_arguments_and_the_limit() -> None:
    with pytest.raises(ResourceExhaustedError, match=r"^\[full\] .*shape=\[1099511627"):
        proa.full([2**40], 1.0)
    limit = _core.memory_limit()
    with pytest.raises(MemoryError, match=rf"fits in memory \({limit} bytes\)"):
        proa.full([2**40], 1.0)
    with pytest.raises(MemoryError, match=r"\[diff\] expected n .* got 9223372036854"):
        proa.diff(X, n=2**63 - 1)


def test_diff_of_more_than_the_length_is_empty() -> None:
    assert proa.diff(X, n=10**6).shape == [3, 0]
    assert proa.diff(X, n=0).shape == [3, 4]
    with pytest.raises(InvalidArgumentError, match=r"\[diff\]"):
        proa.diff(X, n=-1)
