"""DARTS and PC-DARTS: architectures as continuous parameters, trained by gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import proa
from proa import nn
from proa.errors import InvalidArgumentError

#: An edge of a cell: the operation, and the node that it reads (0 and 1 are the
#: results of the two cells before).
Edge = tuple[str, int]


@dataclass(frozen=True)
class Genotype:
    """A cell that was found: two edges for each node.

    Attributes:
        normal: Edges of cells that keep the size.
        reduce: Edges of cells that halve it.
        concat: Nodes whose results a cell concatenates.
    """

    normal: tuple[Edge, ...]
    reduce: tuple[Edge, ...]
    concat: tuple[int, ...]


# --- operations


class _Zero(nn.Layer):
    def __init__(self, stride: int) -> None:
        super().__init__()
        self.stride = stride

    def forward(self, x: Any) -> Any:
        return x[:, :, :: self.stride, :: self.stride] * 0.0


class _FactorizedReduce(nn.Layer):
    """Halves the size by two 1 x 1 convolutions, one of them shifted by a pixel."""

    def __init__(self, i: int, o: int, affine: bool) -> None:
        super().__init__()
        self.even = nn.Conv2D(i, o // 2, 1, 2, bias_attr=False)
        self.odd = nn.Conv2D(i, o - o // 2, 1, 2, bias_attr=False)
        self.norm = _norm(o, affine)

    def forward(self, x: Any) -> Any:
        x = nn.functional.relu(x)
        height, width = x.shape[2] % 2, x.shape[3] % 2
        shifted = nn.functional.pad(x, [0, 1 - width, 0, 1 - height])[:, :, 1:, 1:]
        if height or width:
            shifted = nn.functional.pad(x[:, :, 1:, 1:], [0, width, 0, height])
        return self.norm(proa.concat([self.even(x), self.odd(shifted)], axis=1))


def _norm(channels: int, affine: bool) -> nn.Layer:
    given = None if affine else False
    return nn.BatchNorm2D(channels, weight_attr=given, bias_attr=given)


def _relu_conv(i: int, o: int, affine: bool) -> nn.Layer:
    return nn.Sequential(
        nn.ReLU(), nn.Conv2D(i, o, 1, bias_attr=False), _norm(o, affine)
    )


def _depthwise(c: int, kernel: int, stride: int, dilation: int, affine: bool) -> Any:
    around = dilation * (kernel // 2)
    return [
        nn.ReLU(),
        nn.Conv2D(c, c, kernel, stride, around, dilation, groups=c, bias_attr=False),
        nn.Conv2D(c, c, 1, bias_attr=False),
        _norm(c, affine),
    ]


def _separable(kernel: int) -> Callable[[int, int, bool], nn.Layer]:
    return lambda c, stride, affine: nn.Sequential(
        *_depthwise(c, kernel, stride, 1, affine), *_depthwise(c, kernel, 1, 1, affine)
    )


def _dilated(kernel: int) -> Callable[[int, int, bool], nn.Layer]:
    return lambda c, stride, affine: nn.Sequential(
        *_depthwise(c, kernel, stride, 2, affine)
    )


#: Layers of operations, of channels, stride, and whether norms have parameters.
#: Further ones are added by assignment.
OPERATIONS: dict[str, Callable[[int, int, bool], nn.Layer]] = {
    "none": lambda c, stride, affine: _Zero(stride),
    "max_pool_3x3": lambda c, stride, affine: nn.Sequential(
        nn.MaxPool2D(3, stride, 1), _norm(c, affine)
    ),
    "avg_pool_3x3": lambda c, stride, affine: nn.Sequential(
        nn.AvgPool2D(3, stride, 1), _norm(c, affine)
    ),
    "skip_connect": lambda c, stride, affine: (
        nn.Identity() if stride == 1 else _FactorizedReduce(c, c, affine)
    ),
    "sep_conv_3x3": _separable(3),
    "sep_conv_5x5": _separable(5),
    "dil_conv_3x3": _dilated(3),
    "dil_conv_5x5": _dilated(5),
}


class MixedOperation(nn.Layer):
    """sum_i weights[i] * operation_i(x): an edge while it is searched.

    Args:
        operations: Names.
        channels: Number of channels of the input.
        stride: 1 or 2.
    """

    def __init__(self, operations: Sequence[str], channels: int, stride: int) -> None:
        super().__init__()
        self.choices = nn.LayerList(
            [OPERATIONS[name](channels, stride, False) for name in operations]
        )

    def forward(self, x: Any, weights: Any) -> Any:
        """The weighted sum."""
        total = None
        for i, choice in enumerate(self.choices):
            term = choice(x) * weights[i]
            total = term if total is None else total + term
        return total


class PartialMixedOperation(MixedOperation):
    """PC-DARTS (Xu et al., 2020): a k-th of the channels is mixed, the others pass, and
    channels are shuffled, so that the next edge mixes others.
    """

    #: k.
    part = 4

    def __init__(self, operations: Sequence[str], channels: int, stride: int) -> None:
        if channels % self.part:
            raise InvalidArgumentError(
                f"[DartsNetwork] expected channels divisible by {self.part} for "
                f"partial channels, got {channels}"
            )
        super().__init__(operations, channels // self.part, stride)
        self.pool = nn.MaxPool2D(2, 2, ceil_mode=True) if stride > 1 else nn.Identity()

    def forward(self, x: Any, weights: Any) -> Any:
        """The mixed channels among the others."""
        mixed = x.shape[1] // self.part
        rest = self.pool(x[:, mixed:])
        y = proa.concat([super().forward(x[:, :mixed], weights), rest], axis=1)
        n, c, h, w = y.shape
        y = y.reshape([n, self.part, c // self.part, h, w])
        return y.transpose([0, 2, 1, 3, 4]).reshape([n, c, h, w])


# --- cells


class _Cell(nn.Layer):
    """Nodes 2, 3, .. each add up their edges; all are concatenated.

    Args:
        edges: By node, the makers of its edges: (layer of channels and stride, number
            of the node that it reads).
        inputs: Channels of the cells before.
        channels: Number of channels of each node.
        halves: Whether this cell halves the size, and whether the one before did.
        affine: Whether norms have parameters.
    """

    def __init__(
        self,
        edges: Sequence[Sequence[tuple[Callable[[int, int], nn.Layer], int]]],
        inputs: tuple[int, int],
        channels: int,
        halves: tuple[bool, bool],
        affine: bool,
    ) -> None:
        super().__init__()
        reduce, reduced = halves
        self.before = (
            _FactorizedReduce(inputs[0], channels, affine)
            if reduced
            else _relu_conv(inputs[0], channels, affine)
        )
        self.last = _relu_conv(inputs[1], channels, affine)
        self.sources = [[source for _, source in node] for node in edges]
        self.edges = nn.LayerList(
            [
                make(channels, 2 if reduce and source < 2 else 1)
                for node in edges
                for make, source in node
            ]
        )

    def forward(self, x0: Any, x1: Any, weights: Any = None, betas: Any = None) -> Any:
        states = [self.before(x0), self.last(x1)]
        number = 0
        for sources in self.sources:
            total: Any = None
            for source in sources:
                edge = self.edges[number]
                x = states[source]
                y = edge(x) if weights is None else edge(x, weights[number])
                if betas is not None:
                    y = y * betas[number]
                total = y if total is None else total + y
                number += 1
            states.append(total)
        return proa.concat(states[2:], axis=1)


class _CellNetwork(nn.Layer):
    """A stem, cells, pooling and a linear layer; cells at 1/3 and 2/3 halve."""

    def __init__(
        self, channels: int, num_classes: int, layers: int, in_channels: int,
        nodes: int, make: Callable[[tuple[int, int], int, tuple[bool, bool]], _Cell],
    ) -> None:  # fmt: skip
        super().__init__()
        if min(channels, num_classes, layers, in_channels, nodes) < 1:
            raise InvalidArgumentError(
                "[DartsNetwork] expected positive sizes, got channels="
                f"{channels}, num_classes={num_classes}, layers={layers}, "
                f"in_channels={in_channels}, steps={nodes}"
            )
        width = 3 * channels
        self.stem = nn.Sequential(
            nn.Conv2D(in_channels, width, 3, 1, 1, bias_attr=False),
            nn.BatchNorm2D(width),
        )
        inputs, reduced, cells = (width, width), False, []
        self.reductions = [layers // 3, 2 * layers // 3] if layers > 2 else []
        for i in range(layers):
            reduce = i in self.reductions
            channels *= 2 if reduce else 1
            cells.append(make(inputs, channels, (reduce, reduced)))
            inputs, reduced = (inputs[1], nodes * channels), reduce
        self.cells = nn.LayerList(cells)
        self.pool = nn.AdaptiveAvgPool2D(1)
        self.classifier = nn.Linear(inputs[1], num_classes)

    def _run(self, x: Any, weights: Callable[[bool], tuple[Any, Any]]) -> Any:
        x0 = x1 = self.stem(x)
        for i, cell in enumerate(self.cells):
            x0, x1 = x1, cell(x0, x1, *weights(i in self.reductions))
        return self.classifier(self.pool(x1).flatten(1))


class DartsNetwork(_CellNetwork):
    """The network while it is searched: every edge mixes all operations.

    Args:
        channels: Number of channels of the first cells' nodes.
        num_classes: Scores given.
        layers: Cells.
        steps: Nodes of a cell.
        in_channels: Number of channels of images.
        operations: Names among `OPERATIONS`.
        partial: Whether edges mix a part of the channels and have weights themselves
            (PC-DARTS).
        mixed: What an edge is, if another than these: a subclass of `MixedOperation`.

    Shape:
        x: (N, in_channels, H, W). Returns (N, num_classes).

    Raises:
        InvalidArgumentError: If a size is not positive, or an operation is unknown.
    """

    def __init__(
        self,
        channels: int = 16,
        num_classes: int = 10,
        layers: int = 8,
        steps: int = 4,
        in_channels: int = 3,
        operations: Sequence[str] = tuple(OPERATIONS),
        partial: bool = False,
        mixed: type[MixedOperation] | None = None,
    ) -> None:
        unknown = [name for name in operations if name not in OPERATIONS]
        if unknown or not operations:
            raise InvalidArgumentError(
                f"[DartsNetwork] operations must be among {', '.join(OPERATIONS)}, got "
                f"{list(operations)}"
            )
        kind = mixed or (PartialMixedOperation if partial else MixedOperation)
        names = tuple(operations)

        def edge(width: int, stride: int) -> nn.Layer:
            return kind(names, width, stride)

        def cell(
            inputs: tuple[int, int], width: int, halves: tuple[bool, bool]
        ) -> _Cell:
            edges = [[(edge, s) for s in range(2 + n)] for n in range(steps)]
            return _Cell(edges, inputs, width, halves, False)

        super().__init__(channels, num_classes, layers, in_channels, steps, cell)
        self.operations, self.steps, self.partial = names, steps, partial
        count = sum(2 + node for node in range(steps))
        rng = np.random.default_rng(0)
        shapes = {"alphas": [count, len(names)]} | (
            {"betas": [count]} if partial else {}
        )
        for name, shape in shapes.items():
            for cell_kind in ("normal", "reduce"):
                values = (1e-3 * rng.standard_normal(shape)).astype("float32")
                parameter = self.create_parameter(shape)
                parameter.set_value(values)
                self.add_parameter(f"{name}_{cell_kind}", parameter)

    def arch_parameters(self) -> list[Any]:
        """The architecture's: alphas, and betas of PC-DARTS."""
        found = dict(self.named_parameters())
        names = [n for n in found if n.startswith(("alphas_", "betas_"))]
        return [found[name] for name in names]

    def weight_parameters(self) -> list[Any]:
        """All others."""
        own = {id(p) for p in self.arch_parameters()}
        return [p for p in self.parameters() if id(p) not in own]

    def _weights(self, reduce: bool) -> tuple[Any, Any]:
        kind = "reduce" if reduce else "normal"
        alphas = nn.functional.softmax(getattr(self, f"alphas_{kind}"), axis=-1)
        if not self.partial:
            return alphas, None
        betas, parts, begin = getattr(self, f"betas_{kind}"), [], 0
        for node in range(self.steps):
            end = begin + 2 + node
            parts.append(nn.functional.softmax(betas[begin:end], axis=-1))
            begin = end
        return alphas, proa.concat(parts)

    def forward(self, x: Any) -> Any:
        """Scores, with all operations mixed."""
        shared = {kind: self._weights(kind) for kind in (False, True)}
        return self._run(x, lambda reduce: shared[reduce])

    def genotype(self) -> Genotype:
        """The cells: for each node the two edges with the strongest operation other
        than ``none``.
        """
        nodes = tuple(range(2, 2 + self.steps))
        return Genotype(self._edges(False), self._edges(True), nodes)

    def _edges(self, reduce: bool) -> tuple[Edge, ...]:
        alphas, betas = self._weights(reduce)
        weights = alphas.numpy()
        if betas is not None:
            weights = weights * betas.numpy()[:, None]
        real = [i for i, name in enumerate(self.operations) if name != "none"]
        found, begin = [], 0
        for node in range(self.steps):
            rows = weights[begin : begin + 2 + node][:, real]
            best = np.argsort(-rows.max(1), kind="stable")[:2]
            for source in sorted(int(b) for b in best):
                found.append((self.operations[real[rows[source].argmax()]], source))
            begin += 2 + node
        return tuple(found)


class DerivedNetwork(_CellNetwork):
    """The network of a genotype, to be trained from the beginning.

    Args:
        genotype: What `DartsNetwork.genotype` returned.
        channels, num_classes, layers, in_channels: As there.

    Raises:
        InvalidArgumentError: If an operation is unknown, or an edge reads a node that
            comes later; it names the edge.
    """

    def __init__(
        self,
        genotype: Genotype,
        channels: int = 36,
        num_classes: int = 10,
        layers: int = 20,
        in_channels: int = 3,
    ) -> None:
        nodes = len(genotype.concat)
        for edges in (genotype.normal, genotype.reduce):
            for i, (name, source) in enumerate(edges):
                if name not in OPERATIONS or not 0 <= source < 2 + i // 2:
                    raise InvalidArgumentError(
                        "[DerivedNetwork] expected an operation among "
                        f"{', '.join(OPERATIONS)} that reads an earlier node, got "
                        f"{(name, source)} as edge {i}"
                    )

        def edge(name: str) -> Callable[[int, int], nn.Layer]:
            return lambda width, stride: OPERATIONS[name](width, stride, True)

        def cell(
            inputs: tuple[int, int], width: int, halves: tuple[bool, bool]
        ) -> _Cell:
            chosen = genotype.reduce if halves[0] else genotype.normal
            pairs = [(edge(name), source) for name, source in chosen]
            edges = [pairs[2 * n : 2 * n + 2] for n in range(nodes)]
            return _Cell(edges, inputs, width, halves, True)

        super().__init__(channels, num_classes, layers, in_channels, nodes, cell)
        self.genotype = genotype

    def forward(self, x: Any) -> Any:
        """Scores."""
        return self._run(x, lambda reduce: (None, None))
