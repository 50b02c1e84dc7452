"""Training steps in JAX: the networks of networks.py over a few layers of its own.

A layer keeps arrays in boxes. A step is one compiled function from what the boxes hold
to what they hold next, so that all memory is given over (donated).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import workloads
from dialects import Dialect
from jax import lax

RNG = np.random.default_rng(0)
RATE, BETA1, BETA2, EPSILON = 1e-3, 0.9, 0.999, 1e-8


class Box:
    """A place for an array: "trained", "table" (by rows) or "state"."""

    def __init__(self, value: Any, kind: str = "trained") -> None:
        self.value, self.kind = jnp.asarray(value), kind


class Module:
    """A layer or network; calling it runs `forward`."""

    #: What tables got for each row that was looked up, while a step is traced.
    changes: dict[int, Any] = {}

    def __call__(self, *inputs: Any) -> Any:
        return self.forward(*inputs)

    def forward(self, *inputs: Any) -> Any:
        raise NotImplementedError

    def boxes(self) -> Iterator[Box]:
        """Every box of this and of the layers in it."""
        for value in vars(self).values():
            for item in value if isinstance(value, (list, tuple)) else [value]:
                if isinstance(item, Box):
                    yield item
                elif isinstance(item, Module):
                    yield from item.boxes()


def _uniform(*shape: int, width: int) -> np.ndarray:
    bound = 1 / math.sqrt(width)
    return RNG.uniform(-bound, bound, shape).astype(np.float32)


class Apply(Module):
    """A function as a layer."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.forward = function  # type: ignore[method-assign]


class Sequential(Module):
    def __init__(self, *layers: Module) -> None:
        self.layers = layers

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        return x


class Linear(Module):
    def __init__(self, i: int, o: int) -> None:
        self.weight = Box(_uniform(i, o, width=i))
        self.bias = Box(_uniform(o, width=i))

    def forward(self, x: Any) -> Any:
        return x @ self.weight.value + self.bias.value


class Conv(Module):
    def __init__(self, i: int, o: int, k: int, s: int = 1, p: int = 0, g: int = 1):
        self.weight = Box(_uniform(o, i // g, k, k, width=i // g * k * k))
        self.how: dict[str, Any] = {
            "window_strides": (s, s), "padding": [(p, p)] * 2,
            "feature_group_count": g, "dimension_numbers": ("NCHW", "OIHW", "NCHW"),
        }  # fmt: skip

    def forward(self, x: Any) -> Any:
        return lax.conv_general_dilated(x, self.weight.value, **self.how)


class BatchNorm(Module):
    def __init__(self, count: int) -> None:
        self.scale, self.shift = Box(np.ones(count, "f")), Box(np.zeros(count, "f"))
        self.mean = Box(np.zeros(count, "f"), "state")
        self.variance = Box(np.ones(count, "f"), "state")

    def forward(self, x: Any) -> Any:
        mean, variance = x.mean((0, 2, 3)), x.var((0, 2, 3))
        self.mean.value = 0.9 * self.mean.value + 0.1 * mean
        self.variance.value = 0.9 * self.variance.value + 0.1 * variance
        factor = self.scale.value * lax.rsqrt(variance + 1e-5)
        shift = self.shift.value - mean * factor
        return x * factor[:, None, None] + shift[:, None, None]


class LayerNorm(Module):
    def __init__(self, count: int) -> None:
        self.scale, self.shift = Box(np.ones(count, "f")), Box(np.zeros(count, "f"))

    def forward(self, x: Any) -> Any:
        centred = x - x.mean(-1, keepdims=True)
        rstd = lax.rsqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)
        return centred * rstd * self.scale.value + self.shift.value


class Dropout(Module):
    def __init__(self, p: float) -> None:
        self.p = p
        self.key = Box(jax.random.PRNGKey(int(RNG.integers(1 << 30))), "state")

    def forward(self, x: Any) -> Any:
        self.key.value, now = jax.random.split(self.key.value)
        mask = jax.random.bernoulli(now, 1 - self.p, x.shape)
        return jnp.where(mask, x / (1 - self.p), 0)


class Embedding(Module):
    def __init__(self, n: int, d: int, sparse: bool = False) -> None:
        kind = "table" if sparse else "trained"
        self.weight = Box(RNG.standard_normal((n, d), np.float32), kind)

    def forward(self, ids: Any) -> Any:
        rows = jnp.take(self.weight.value, ids, axis=0)
        return rows + Module.changes.get(id(self.weight), 0.0)


class EncoderLayer(Module):
    def __init__(self, d: int, heads: int, inner: int, activation: str) -> None:
        self.heads = heads
        self.qkv, self.out = Linear(d, 3 * d), Linear(d, d)
        self.first, self.second = Linear(d, inner), Linear(inner, d)
        self.norms = [LayerNorm(d), LayerNorm(d)]
        self.drops = [Dropout(0.1) for _ in range(4)]
        self.activation = jax.nn.relu
        if activation == "gelu":
            self.activation = lambda x: jax.nn.gelu(x, approximate=False)

    def attend(self, x: Any) -> Any:
        b, n, d = x.shape
        parts = self.qkv(x).reshape(b, n, 3, self.heads, -1)
        q, k, v = (parts[:, :, i] for i in range(3))
        scores = jnp.einsum("bnhd,bmhd->bhnm", q, k) / math.sqrt(d // self.heads)
        weights = self.drops[0](jax.nn.softmax(scores, -1))
        joined = jnp.einsum("bhnm,bmhd->bnhd", weights, v).reshape(b, n, d)
        return self.out(joined)

    def forward(self, x: Any) -> Any:
        x = self.norms[0](x + self.drops[1](self.attend(x)))
        inner = self.second(self.drops[2](self.activation(self.first(x))))
        return self.norms[1](x + self.drops[3](inner))


class LSTM(Module):
    def __init__(self, i: int, h: int, layers: int, p: float) -> None:
        self.inputs = [Linear(i if k == 0 else h, 4 * h) for k in range(layers)]
        self.states = [Linear(h, 4 * h) for _ in range(layers)]
        self.drops = [Dropout(p) for _ in range(layers - 1)]
        self.hidden = h

    def forward(self, x: Any) -> tuple[Any, None]:
        for k, (given, own) in enumerate(zip(self.inputs, self.states, strict=True)):

            def step(state: Any, part: Any, own: Linear = own) -> Any:
                h, c = state
                i, f, g, o = jnp.split(part + own(h), 4, -1)
                c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
                h = jax.nn.sigmoid(o) * jnp.tanh(c)
                return (h, c), h

            start = jnp.zeros((x.shape[0], self.hidden))
            gates = given(x).swapaxes(0, 1)
            x = lax.scan(step, (start, start), gates)[1].swapaxes(0, 1)
            if k < len(self.drops):
                x = self.drops[k](x)
        return x, None


def _max_pool(size: int, stride: int, pad: int) -> Module:
    window, strides = (1, 1, size, size), (1, 1, stride, stride)
    pads = [(0, 0), (0, 0), (pad, pad), (pad, pad)]
    return Apply(
        lambda x: lax.reduce_window(x, -jnp.inf, lax.max, window, strides, pads)
    )


def cross_entropy(logits: Any, labels: Any) -> Any:
    """The mean over samples."""
    rows = jnp.arange(labels.shape[0])
    return -jax.nn.log_softmax(logits)[rows, labels].mean()


def _absent(*_: Any) -> Any:
    raise NotImplementedError("[jax_steps] a step is one function here")


DIALECT = Dialect(
    name="jax",
    module=Module,
    sequential=Sequential,
    linear=Linear,
    conv=Conv,
    batch_norm=BatchNorm,
    layer_norm=LayerNorm,
    relu=lambda: Apply(jax.nn.relu),
    max_pool=_max_pool,
    dropout=Dropout,
    embedding=Embedding,
    sparse_embedding=lambda n, d: Embedding(n, d, True),
    encoder_layer=EncoderLayer,
    lstm=LSTM,
    mean_of_plane=lambda x: x.mean((2, 3)),
    tanh=jnp.tanh,
    concat=lambda xs: jnp.concatenate(xs, 1),
    cross_entropy=cross_entropy,
    tensor=jnp.asarray,
    optimizer=_absent,
    zero=_absent,
    low_precision=_absent,
)


def step_of(work: workloads.Workload, precision: str) -> workloads.Step | None:
    """The compiled step; float32 alone."""
    if precision != "fp32":
        return None
    network = work.network(DIALECT)
    boxes = list(network.boxes())
    arrays, labels = workloads.data_of(work)
    inputs, y = [jnp.asarray(a) for a in arrays], jnp.asarray(labels)

    def of(kind: str) -> list[Box]:
        return [b for b in boxes if b.kind == kind]

    def put(kind: str, values: list[Any]) -> None:
        for box, value in zip(of(kind), values, strict=True):
            box.value = value

    def loss_of(
        trained: list[Any],
        changes: list[Any],
        tables: list[Any],
        state: list[Any],
        batch: tuple[list[Any], Any],
    ) -> Any:
        put("trained", trained)
        put("table", tables)
        put("state", state)
        ids = map(id, of("table"))
        Module.changes = dict(zip(ids, changes, strict=True))
        loss = cross_entropy(network(*batch[0]), batch[1])
        return loss, [b.value for b in of("state")]

    def run(now: dict[str, Any], batch: Any) -> tuple[dict[str, Any], Any]:
        # Tables take part by the rows that were met: these have gradients of their own.
        changes = [
            jnp.zeros((*batch[0][0].shape, table.shape[1])) for table in now["table"]
        ]
        slope = jax.value_and_grad(loss_of, argnums=(0, 1), has_aux=True)
        (loss, state), (grads, rows) = slope(
            now["trained"], changes, now["table"], now["state"], batch
        )
        tables = [
            table.at[batch[0][0]].add(-RATE * g)
            for table, g in zip(now["table"], rows, strict=True)
        ]
        updated = _updated(now, grads, work.optimizer)
        return {**updated, "table": tables, "state": state}, loss

    now: dict[str, Any] = {k: [b.value for b in of(k)] for k in ("table", "state")}
    now["trained"] = [b.value for b in of("trained")]
    if work.optimizer == "adam":
        now["count"] = jnp.zeros(())
        for moment in ("first", "second"):
            now[moment] = [jnp.zeros_like(p) for p in now["trained"]]
    compiled = jax.jit(run, donate_argnums=0)

    def step() -> object:
        nonlocal now
        now, loss = compiled(now, (inputs, y))
        return loss.block_until_ready()

    return step


def _updated(now: dict[str, Any], grads: list[Any], kind: str) -> dict[str, Any]:
    """Parameters after a step of SGD or Adam, and Adam's moments."""
    pairs = list(zip(now["trained"], grads, strict=True))
    if kind == "sgd":
        return {"trained": [p - RATE * g for p, g in pairs]}
    count = now["count"] + 1
    first = [
        BETA1 * m + (1 - BETA1) * g for m, g in zip(now["first"], grads, strict=True)
    ]
    second = [
        BETA2 * v + (1 - BETA2) * g * g
        for v, g in zip(now["second"], grads, strict=True)
    ]
    rate = RATE * jnp.sqrt(1 - BETA2**count) / (1 - BETA1**count)
    trained = [
        p - rate * m / (jnp.sqrt(v) + EPSILON)
        for p, m, v in zip(now["trained"], first, second, strict=True)
    ]
    return {"trained": trained, "first": first, "second": second, "count": count}
