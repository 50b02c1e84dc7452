"""Unstructured pruning: single weights are set to zero and kept there in training."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

import proa
from proa import static
from proa.errors import InvalidArgumentError, PreconditionNotMetError
from proa_slim.prune.static_pruner import array_in
from proa_slim.quant.input_check import require_finite_weight

Mode = Literal["ratio", "threshold", "2:4"]
Mask = NDArray[np.bool_]
Model = proa.nn.Layer | static.Program
#: Names of parameters that stay dense.
SkipParams = (
    Callable[[proa.nn.Layer], Collection[str]]
    | Callable[[static.Program], Collection[str]]
)


class UnstructuredPruner:
    """Sets the weights of the smallest magnitude to zero.

        pruner = UnstructuredPruner(net, mode="ratio", ratio=0.75)
        for x, y in batches:
            loss(net(x), y).backward()
            optimizer.step()
            optimizer.clear_grad()
            pruner.step()

    Weights of layers are pruned, not biases and scales of norms.

    Args:
        model: Is changed in place. Of a static program, after its startup program ran,
            what the scope has is changed; `step()` follows each run of the executor.
        mode: ``ratio``: this share of the weights; ``threshold``: those of a magnitude
            below it; ``2:4``: the two smallest of each four along the inputs of a
            linear layer or the input channels of a convolution.
        threshold: For mode ``threshold``.
        ratio: For mode ``ratio``, in [0, 1).
        prune_params_type: ``conv1x1_only``: 1 x 1 convolutions alone.
        skip_params_func: Gives names of parameters that stay dense.
        local_sparsity: Whether each weight loses the share, instead of all together.
        sparse_block: (m, n): blocks of the weight as a matrix (first axis, others) go
            together, by their mean magnitude; a weight that they do not tile stays
            dense.
        scope: Of a program, where its parameters are; the global one if not given.

    Attributes:
        masks: By the structured name of a weight, which elements stay.
        skipped: Weights that stay dense, and why.

    Raises:
        InvalidArgumentError: If an argument is none of the above.
        PreconditionNotMetError: If no weight can be pruned.
    """

    def __init__(
        self,
        model: Model,
        mode: Mode,
        threshold: float = 0.01,
        ratio: float = 0.55,
        prune_params_type: Literal["conv1x1_only"] | None = None,
        skip_params_func: SkipParams | None = None,
        local_sparsity: bool = False,
        sparse_block: Sequence[int] = (1, 1),
        scope: static.Scope | None = None,
    ) -> None:
        if mode not in ("ratio", "threshold", "2:4"):
            raise InvalidArgumentError(
                f"[UnstructuredPruner] mode must be ratio, threshold or 2:4, got "
                f"{mode!r}"
            )
        if not 0 <= ratio < 1 or not threshold >= 0:
            raise InvalidArgumentError(
                "[UnstructuredPruner] expected a ratio in [0, 1) and a threshold of at "
                f"least 0, got {ratio} and {threshold}"
            )
        if prune_params_type not in (None, "conv1x1_only"):
            raise InvalidArgumentError(
                "[UnstructuredPruner] prune_params_type must be conv1x1_only or None, "
                f"got {prune_params_type!r}"
            )
        if len(sparse_block) != 2 or min(sparse_block) < 1:
            raise InvalidArgumentError(
                "[UnstructuredPruner] sparse_block must be two positive sizes, got "
                f"{list(sparse_block)}"
            )
        self.model, self.mode, self.ratio, self.scope = model, mode, ratio, scope
        self.threshold, self.local_sparsity = threshold, local_sparsity
        self._block = int(sparse_block[0]), int(sparse_block[1])
        self.masks: dict[str, Mask] = {}
        self.skipped: dict[str, str] = {}
        self._is_static = False
        self._weights = self._found(prune_params_type, skip_params_func)
        if not self._weights:
            raise PreconditionNotMetError(
                "[UnstructuredPruner] expected a network with weights to prune, got "
                f"none: {self.skipped}"
            )

    def _found(
        self, prune_params_type: str | None, skip_params_func: SkipParams | None
    ) -> dict[str, Any]:
        names_of = cast("Callable[[Model], Collection[str]] | None", skip_params_func)
        skip = set(names_of(self.model)) if names_of else set()
        found: dict[str, Any] = {}
        for name, parameter in _parameters(self.model, self.scope):
            shape = tuple(parameter.shape)
            if len(shape) < 2:
                continue
            if skip & {name, parameter.name}:
                self.skipped[name] = "skip_params_func names it"
            elif prune_params_type and not _is_1x1(shape):
                self.skipped[name] = "is no 1 x 1 convolution"
            elif reason := self._unfit(shape):
                self.skipped[name] = reason
            else:
                found[name] = parameter
        return found

    def _unfit(self, shape: tuple[int, ...]) -> str:
        rows, columns = shape[0], int(np.prod(shape[1:]))
        if self.mode == "2:4" and shape[_input_axis(shape)] % 4:
            return f"its {shape[_input_axis(shape)]} inputs are no multiple of 4"
        if rows % self._block[0] or columns % self._block[1]:
            return f"blocks of {self._block} do not tile {(rows, columns)}"
        return ""

    # -- masks -------------------------------------------------------------------------
    def step(self) -> None:
        """Choose the weights again, unless masks are static, and set them to zero."""
        if not self._is_static:
            self.update_threshold()
        self.update_params()

    def update_threshold(self) -> float:
        """Choose the weights by their magnitudes now; the threshold that follows.

        Raises:
            InvalidArgumentError: If a weight is not finite; names the parameter.
        """
        arrays = {name: p.numpy() for name, p in self._weights.items()}
        for name, array in arrays.items():
            require_finite_weight(name, array, "UnstructuredPruner")
        sizes = {name: self._sizes(array) for name, array in arrays.items()}
        if self.mode == "2:4":
            self.masks = {n: two_of_four(array) for n, array in arrays.items()}
            return self.threshold
        if self.mode == "threshold":
            self.masks = {n: size >= self.threshold for n, size in sizes.items()}
            return self.threshold
        if self.local_sparsity:
            self.masks = {n: _largest([s], self.ratio)[0] for n, s in sizes.items()}
        else:
            masks = _largest(list(sizes.values()), self.ratio)
            self.masks = dict(zip(sizes, masks, strict=True))
        smallest = [
            s[self.masks[n]].min() for n, s in sizes.items() if self.masks[n].any()
        ]
        self.threshold = float(min(smallest, default=0.0))
        return self.threshold

    def _sizes(self, weight: NDArray[np.floating]) -> NDArray[np.float64]:
        """Magnitudes, of blocks the mean for each element."""
        size = np.abs(weight.astype(np.float64))
        m, n = self._block
        if (m, n) == (1, 1):
            return size
        matrix = size.reshape(size.shape[0], -1)
        means = matrix.reshape(matrix.shape[0] // m, m, -1, n).mean(axis=(1, 3))
        whole: NDArray[np.float64] = means.repeat(m, axis=0).repeat(n, axis=1)
        return whole.reshape(weight.shape)

    def set_static_masks(self) -> None:
        """Let what is zero now stay zero, and choose no others."""
        self.masks = {name: p.numpy() != 0 for name, p in self._weights.items()}
        self._is_static = True

    def update_params(self) -> None:
        """Set the weights to zero that the masks name."""
        for name, mask in self.masks.items():
            self.mask_parameters(self._weights[name], mask)

    @staticmethod
    def mask_parameters(param: Any, mask: Mask) -> None:
        """Set to zero where the mask is false."""
        with proa.no_grad():
            param.set_value(
                np.where(mask, param.numpy(), 0).astype(param.numpy().dtype)
            )

    # -- what there is -----------------------------------------------------------------
    def summarize_weights(self, model: Model, ratio: float = 0.1) -> float:
        """The magnitude below which this share of the weights is."""
        arrays = [p.numpy() for _, p in _parameters(model, self.scope)]
        sizes = [np.abs(a).ravel() for a in arrays if a.ndim > 1]
        return float(np.quantile(np.concatenate(sizes), ratio))

    @staticmethod
    def sparse_by_layer(
        model: Model, scope: static.Scope | None = None
    ) -> dict[str, float]:
        """The share of each parameter's elements that is zero, by its path."""
        return {n: _sparsity([p.numpy()]) for n, p in _parameters(model, scope)}

    @staticmethod
    def total_sparse(model: Model, scope: static.Scope | None = None) -> float:
        """The share of all parameters' elements that is zero."""
        return _sparsity(p.numpy() for _, p in _parameters(model, scope))

    @staticmethod
    def total_sparse_conv1x1(model: Model, scope: static.Scope | None = None) -> float:
        """The share of the weights of 1 x 1 convolutions that is zero."""
        arrays = [p.numpy() for _, p in _parameters(model, scope)]
        return _sparsity(array for array in arrays if _is_1x1(array.shape))


class GMPUnstructuredPruner(UnstructuredPruner):
    """Gradual magnitude pruning: the share grows along a cubic curve.

    At iteration t of T pruning iterations, s_t = s + (s_0 - s) (1 - t / T)^3 (Zhu and
    Gupta, "To prune, or not to prune", 2017), in `pruning_steps` steps. Before them
    nothing is pruned, after them the masks stay.

    Args:
        model, ratio, prune_params_type, skip_params_func, local_sparsity, sparse_block,
        scope: As for `UnstructuredPruner`; `ratio` is the last share, s.
        configs: ``stable_iterations`` before pruning, ``pruning_iterations``,
            ``tunning_iterations`` after it, ``pruning_steps``, ``initial_ratio`` s_0,
            ``resume_iteration`` to begin with; 0 where not given, but 1 step.

    Raises:
        InvalidArgumentError: If a configuration is unknown, negative, or has fewer
            pruning iterations than steps.
    """

    _KEYS = (
        "stable_iterations",
        "pruning_iterations",
        "tunning_iterations",
        "resume_iteration",
        "pruning_steps",
        "initial_ratio",
    )

    def __init__(
        self,
        model: Model,
        ratio: float = 0.55,
        prune_params_type: Literal["conv1x1_only"] | None = None,
        skip_params_func: SkipParams | None = None,
        local_sparsity: bool = False,
        sparse_block: Sequence[int] = (1, 1),
        configs: Mapping[str, float] | None = None,
        scope: static.Scope | None = None,
    ) -> None:
        super().__init__(
            model, "ratio", 0.0, ratio, prune_params_type, skip_params_func,
            local_sparsity, sparse_block, scope,
        )  # fmt: skip
        given = dict(configs or {})
        settings = {"pruning_steps": 1.0, **given}
        steps, count = settings["pruning_steps"], settings.get("pruning_iterations", 0)
        if (
            set(given) - set(self._KEYS)
            or min(settings.values()) < 0
            or not 1 <= steps <= count
            or not 0 <= settings.get("initial_ratio", 0) <= ratio
        ):
            raise InvalidArgumentError(
                f"[GMPUnstructuredPruner] configs must be among {', '.join(self._KEYS)}"
                ", not negative, with 1 <= pruning_steps <= pruning_iterations and "
                f"initial_ratio <= ratio, got {given}"
            )
        self._final, self._first = ratio, settings.get("initial_ratio", 0.0)
        self._stable = int(settings.get("stable_iterations", 0))
        self._count, self._steps = int(count), int(steps)
        self.iteration = int(settings.get("resume_iteration", 0))
        self.ratio = 0.0

    def ratio_at(self, iteration: int) -> float:
        """The share of an iteration, in steps."""
        done = min(max(iteration - self._stable, 0), self._count)
        share = (done * self._steps // self._count) / self._steps
        return self._final + (self._first - self._final) * (1 - share) ** 3

    def step(self) -> None:
        """One iteration; masks follow the schedule and hold between its steps."""
        self.iteration += 1
        if self.iteration > self._stable:
            ratio = self.ratio_at(self.iteration)
            if ratio != self.ratio or not self.masks:
                self.ratio = ratio
                self.update_threshold()
            self.update_params()


class _ScopeParameter:
    """A parameter of a static program, with the methods of a Layer's."""

    def __init__(self, name: str, shape: Sequence[int], scope: static.Scope) -> None:
        self.name, self.shape, self._scope = name, tuple(shape), scope

    def numpy(self) -> NDArray[np.floating]:
        """What the scope has."""
        return array_in(self._scope, self.name, "UnstructuredPruner")

    def set_value(self, array: NDArray[np.floating]) -> None:
        """Replace it."""
        self._scope.var(self.name).set(array)


def _parameters(model: Model, scope: static.Scope | None) -> Iterable[tuple[str, Any]]:
    """Names and parameters."""
    if isinstance(model, proa.nn.Layer):
        return model.named_parameters()
    where = static.global_scope() if scope is None else scope
    return [
        (v.name, _ScopeParameter(v.name, v.shape, where))
        for v in model.all_parameters()
    ]


def _is_1x1(shape: Sequence[int]) -> bool:
    """Whether it is that of a 1 x 1 convolution's weight."""
    return len(shape) == 4 and tuple(shape[2:]) == (1, 1)


def two_of_four(weight: NDArray[np.floating]) -> Mask:
    """True for the two of greatest magnitude of each four along the inputs."""
    axis = _input_axis(weight.shape)
    moved = np.moveaxis(np.abs(weight), axis, -1)
    fours = moved.reshape(-1, 4)
    mask = np.zeros(fours.shape, np.bool_)
    best = np.argsort(-fours, axis=1, kind="stable")[:, :2]
    np.put_along_axis(mask, best, True, axis=1)
    return np.moveaxis(mask.reshape(moved.shape), -1, axis)


def _input_axis(shape: Sequence[int]) -> int:
    """0 for a linear weight (in, out), 1 for a convolution's (out, in, ...)."""
    return 0 if len(shape) == 2 else 1


def _largest(sizes: Sequence[NDArray[np.float64]], ratio: float) -> list[Mask]:
    """All but exactly this share, rounded down, of the elements of all arrays."""
    flat = np.concatenate([size.ravel() for size in sizes])
    mask = np.ones(flat.shape, np.bool_)
    mask[np.argsort(flat, kind="stable")[: int(len(flat) * ratio + 1e-9)]] = False
    bounds = np.cumsum([size.size for size in sizes])[:-1]
    parts = np.split(mask, bounds)
    return [part.reshape(size.shape) for part, size in zip(parts, sizes, strict=True)]


def _sparsity(arrays: Any) -> float:
    zeros = count = 0
    for array in arrays:
        zeros += int((array == 0).sum())
        count += array.size
    return zeros / count if count else 0.0
