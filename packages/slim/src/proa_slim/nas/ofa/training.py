"""`OFA`, `RunConfig`, `DistillConfig`: once-for-all training with PaddleSlim's loop."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

import proa
from proa import nn
from proa.errors import InvalidArgumentError, PreconditionNotMetError
from proa_slim.analysis.recorded import specs_of
from proa_slim.nas.ofa.convert_super import Options, channels, options_of
from proa_slim.nas.ofa.distillation import Distillation, DistillConfig
from proa_slim.prune.network import PrunableNetwork
from proa_slim.search.once_for_all import OFA as Elastic

#: What a smaller network is: by the path of a layer its ``expand_ratio`` (or
#: ``channel``) and ``kernel_size``, and perhaps ``depth``.
Config = dict[str, Any]
#: PaddleSlim's tasks, and the options that they vary.
TASKS = {
    "kernel_size": ("kernel_size",),
    "depth": ("depth",),
    "width": ("expand_ratio", "channel"),
    "expand_ratio": ("expand_ratio",),
    "channel": ("channel",),
}


class RunConfig(NamedTuple):
    """How networks are sampled in training.

    Attributes:
        train_batch_size, total_images: Tell the epoch, where `OFA.set_epoch` does not.
        n_epochs: For each task of the elastic order, the last epoch of each phase.
        init_learning_rate: Has no meaning, in PaddleSlim neither.
        elastic_depth: Values of the argument ``depth`` of the network's forward.
        dynamic_batch_size: For each task, networks that are trained with each batch.
        skip_layers: Paths of layers that stay whole.
        same_search_space: Has no meaning: which layers lose channels together is found
            from the network.
        ofa_layers: Options of layers, by their paths, instead of those of `Convert`.
    """

    train_batch_size: int | None = None
    n_epochs: Sequence[Sequence[int]] | None = None
    init_learning_rate: Any = None
    total_images: int | None = None
    elastic_depth: Sequence[int] | None = None
    dynamic_batch_size: Sequence[int] | None = None
    skip_layers: Sequence[str] | None = None
    same_search_space: Any = None
    ofa_layers: Mapping[str, Mapping[str, Sequence[Any]]] | None = None


class OFA(nn.Layer):
    """Trains a network so that smaller ones can be cut out of it.

        model = Convert(supernet(expand_ratio=[0.25, 0.5, 1.0])).convert(network)
        ofa_model = OFA(model, distill_config=DistillConfig(teacher_model=teacher))
        for x, y in batches:
            logits, of_teacher = ofa_model(x)
            loss(logits, y).backward()
            optimizer.step()                     # of ofa_model.parameters()
            optimizer.clear_grad()
        small = ofa_model.export(config)

    Each call runs one smaller network, at random or by `set_net_config`. Channels that
    stay are those of the greatest L1 norm before training.

    Args:
        model: What `Convert` returned.
        run_config: How networks are sampled.
        distill_config: If given, calls return the teacher's result too.
        elastic_order: Among ``kernel_size``, ``depth`` and ``width``: what varies
            first, and what in addition. Those that there are, if not given.
        train_full: Whether each call runs the whole network.

    Raises:
        InvalidArgumentError: If an argument is none of these.
    """

    def __init__(
        self,
        model: nn.Layer,
        run_config: RunConfig | None = None,
        distill_config: DistillConfig | None = None,
        elastic_order: Sequence[str] | None = None,
        train_full: bool = False,
    ) -> None:
        super().__init__()
        self.model = model
        self.run_config = RunConfig() if run_config is None else run_config
        self.distill_config, self.train_full = distill_config, train_full
        self._options = _chosen(options_of(model), self.run_config)
        self._depths = sorted(set(self.run_config.elastic_depth or ()))
        present = {
            "kernel_size": self._options.kernels,
            "depth": self._depths,
            "width": self._options.widths,
        }
        order = [name for name, found in present.items() if found]
        self.elastic_order = list(elastic_order or order)
        if not set(self.elastic_order) <= set(present):
            raise InvalidArgumentError(
                f"[OFA] expected elastic_order among {', '.join(present)}, got "
                f"{self.elastic_order}"
            )
        for name in ("n_epochs", "dynamic_batch_size"):
            given = getattr(self.run_config, name)
            if given is not None and len(given) != len(self.elastic_order):
                raise InvalidArgumentError(
                    f"[OFA] expected an entry of {name} for each of "
                    f"{', '.join(self.elastic_order)}, got {given}"
                )
        self.net_config: Config | None = None
        self.current_config: Config | None = None
        self.epoch: int | None = None
        self.iter = self._calls = 0
        self._task: list[str] | None = None
        self._phase: int | None = None
        self._rng = np.random.default_rng(0)
        self._elastic: Elastic | None = None
        self._distillation = (
            None if distill_config is None else Distillation(model, distill_config)
        )
        self.token_map: dict[str, dict[str, dict[int, Any]]] = {}
        self.search_cands: list[list[int]] = []

    @property
    def netAs_param(self) -> list[Any]:
        """Parameters of the layers between student and teacher."""
        return [] if self._distillation is None else self._distillation.parameters

    # -- what a call runs --------------------------------------------------------------
    def set_epoch(self, epoch: int) -> None:
        """Set the epoch, which says what varies."""
        self.epoch = epoch

    def set_task(self, task: str | Sequence[str], phase: int | None = None) -> None:
        """Let only some options vary, whatever the epoch is.

        Args:
            task: Among ``kernel_size``, ``depth``, ``width``, ``expand_ratio`` and
                ``channel``.
            phase: If given, the last of them has as many options as this, and two.

        Raises:
            InvalidArgumentError: If a task is none of them.
        """
        tasks = [task] if isinstance(task, str) else list(task)
        for name in tasks:
            if name not in TASKS:
                raise InvalidArgumentError(
                    f"[OFA] expected a task among {', '.join(TASKS)}, got {name!r}"
                )
        self._task, self._phase = tasks, phase

    def set_net_config(self, net_config: Config | None) -> None:
        """Let calls run the network of a config; None: random ones again."""
        self.net_config = net_config

    @property
    def get_current_config(self) -> Config | None:
        """The config of the network that ran last."""
        return self.current_config

    def _elapsed(self) -> int:
        """The epoch."""
        if self.epoch is not None:
            return self.epoch
        total, batch = self.run_config.total_images, self.run_config.train_batch_size
        if not total or not batch:
            raise PreconditionNotMetError(
                "[OFA] expected set_epoch, set_task, or total_images and "
                "train_batch_size in the RunConfig, to tell what varies; got none"
            )
        return self.iter // max(total // batch, 1)

    def _progress(self) -> tuple[list[str], int | None, int]:
        """Tasks, the phase of the last one, and its place in the order."""
        if self._task is not None:
            return self._task, self._phase, 0
        bounds = self.run_config.n_epochs
        if bounds is None:
            if len(self.elastic_order) > 1:
                raise PreconditionNotMetError(
                    "[OFA] expected n_epochs in the RunConfig, or set_task, to tell "
                    f"when {' and '.join(self.elastic_order)} vary; got neither"
                )
            return self.elastic_order, None, 0
        epoch = self._elapsed()
        for place, phases in enumerate(bounds):
            for phase, last in enumerate(phases):
                if epoch <= last:
                    return self.elastic_order[: place + 1], phase, place
        return self.elastic_order, len(bounds[-1]) - 1, len(bounds) - 1

    def _sampled(self) -> Config:
        space = self._space()
        if self.train_full:
            return self._config(lambda kind, options: options[0], space)
        tasks, phase, _ = self._progress()
        varies = [kind for task in tasks for kind in TASKS[task]]
        last = TASKS[tasks[-1]]

        def choose(kind: str, options: Sequence[Any]) -> Any:
            if kind not in varies:
                return options[0]
            count = len(options)
            if phase is not None and kind in last:
                count = min(count, phase + 2)
            return options[int(self._rng.integers(count))]

        return self._config(choose, space)

    def _config(
        self, choose: Callable[[str, Sequence[Any]], Any], space: Config
    ) -> Config:
        """A config of the space; options are from the greatest to the smallest."""
        return {
            key: choose("depth", found)
            if key == "depth"
            else {kind: choose(kind, options) for kind, options in found.items()}
            for key, found in space.items()
        }

    def forward(self, *inputs: Any, **keywords: Any) -> Any:
        """The result of a smaller network, and the teacher's if there is one."""
        if self._elastic is None:
            self._build(specs_of(_open(inputs)))
        counts = self.run_config.dynamic_batch_size
        self._calls += 1
        if self.net_config is None:
            place = 0 if self.train_full else self._progress()[2]
            if self._calls >= (counts[place] if counts else 1):
                self._calls, self.iter = 0, self.iter + 1
        config = self._sampled() if self.net_config is None else self.net_config
        tokens = self._tokens(config)
        self.current_config = config
        if "depth" in config:
            keywords = {**keywords, "depth": config["depth"]}
        assert self._elastic is not None
        if self._distillation is None:
            with self._elastic.subnet(tokens) as network:
                return network(*inputs, **keywords)
        of_teacher = self._distillation.teach(*inputs, **keywords)
        masks_of = functools.partial(self._elastic.remaining, tokens)
        listening = self._distillation.listening(masks_of)
        with listening, self._elastic.subnet(tokens) as network:
            return network(*inputs, **keywords), of_teacher

    def calc_distill_loss(self) -> Any:
        """The loss between the layers that were mapped, of the last call.

        Raises:
            PreconditionNotMetError: If there is no teacher, or no mapped layer ran.
        """
        if self._distillation is None:
            raise PreconditionNotMetError(
                "[calc_distill_loss] expected an OFA with a DistillConfig, got none"
            )
        return self._distillation.loss()

    # -- the space ---------------------------------------------------------------------
    def _build(self, specs: Sequence[Any]) -> None:
        options, groups = self._options, dict[str, Sequence[str]]()
        if options.widths:
            graph = PrunableNetwork(self.model, specs).graph
            groups = {group.name: group.layers for group in graph.groups}
        fixed = set(self.run_config.skip_layers or ())
        widths = {}
        for layers in groups.values():
            chosen = next((path for path in layers if path in options.widths), None)
            if chosen is not None and not fixed & set(layers):
                widths[chosen] = options.widths[chosen]
        self._elastic = Elastic(self.model, specs, widths, options.kernels)
        self._group_of = {
            path: name for name, layers in groups.items() for path in layers
        }

    def _space(self) -> Config:
        """Options by layers, the whole network's first."""
        assert self._elastic is not None
        found: Config = {}
        layers = dict(self.model.named_sublayers())
        for name, options in self._elastic.space.choices.items():
            kind, _, place = name.partition(" ")
            if kind == "kernel":
                found.setdefault(place, {})["kernel_size"] = options
            elif self._options.by_number:
                path = place.rpartition(".")[0]
                own = channels(layers[path])
                numbers = tuple(round(own * share) for share in options)
                found.setdefault(path, {})["channel"] = numbers
            else:
                found.setdefault(place.rpartition(".")[0], {})["expand_ratio"] = options
        if self._depths:
            found["depth"] = tuple(reversed(self._depths))
        return found

    def _tokens(self, config: Config) -> list[int]:
        """The tokens of a config; what it leaves out is whole.

        Raises:
            InvalidArgumentError: If it has what no network has; it names the layer.
        """
        assert self._elastic is not None
        space, found = self._space(), self._elastic.largest
        places = self._elastic.space.names()
        for path, chosen in config.items():
            if path == "depth":
                continue
            for kind, value in chosen.items():
                group = self._group_of.get(path, path)
                own = path if kind == "kernel_size" else group.rpartition(".")[0]
                options = space.get(own, {}).get(kind)
                if options is None or value not in options:
                    if options is None and value == 1:
                        continue  # a layer whose channels cannot change
                    raise InvalidArgumentError(
                        f"[OFA] expected {kind} of {path!r} among "
                        f"{list(options or ())}, got {value}"
                    )
                name = f"kernel {path}" if kind == "kernel_size" else f"width {group}"
                found[places.index(name)] = options.index(value)
        return found

    def tokenize(self) -> None:
        """Number the options of the task in `token_map` and `search_cands`.

        Raises:
            PreconditionNotMetError: If there was no call, or no task was set.
        """
        if self._elastic is None or self._task is None:
            raise PreconditionNotMetError(
                "[tokenize] expected a call with data and set_task before, got none"
            )
        kinds = TASKS[self._task[-1]]
        chosen = {
            path: options
            for path, found in self._space().items()
            if path != "depth"
            for kind, options in found.items()
            if kind in kinds
        }
        every = sorted({option for options in chosen.values() for option in options})
        table = {
            path: {every.index(option): option for option in sorted(options)}
            for path, options in chosen.items()
        }
        self.token_map = {self._task[-1]: table}
        self.search_cands = [list(numbers) for numbers in table.values()]

    def decode_token(self, token: Sequence[int]) -> Config:
        """The config of a number for each layer of `token_map`; calls then run it."""
        if not self.token_map or self._task is None:
            raise PreconditionNotMetError(
                "[decode_token] expected tokenize before, got no call of it"
            )
        kinds = TASKS[self._task[-1]]
        config: Config = {}
        for number, (path, options) in zip(
            token, self.token_map[self._task[-1]].items(), strict=True
        ):
            (kind,) = (kind for kind in kinds if kind in self._space()[path])
            config[path] = {kind: options[int(number)]}
        self.net_config = config
        return config

    def search(
        self,
        eval_func: Callable[[nn.Layer], float],
        condition: Callable[[nn.Layer], bool] | None = None,
        steps: int = 64,
        calibration: Sequence[Any] = (),
    ) -> Config:
        """The config of the best of the smaller networks that are tried.

        Args:
            eval_func: Takes a network of its own; the greater the better.
            condition: Takes such a network: whether it may be tried.
            steps: How many are tried.
            calibration: Inputs with which batch norms get statistics of their own.

        Raises:
            PreconditionNotMetError: If there was no call with data.
        """
        elastic = self._called("search")
        record = elastic.search(
            eval_func,
            steps,
            None if condition is None else lambda t: condition(elastic.export(t)),
            calibration,
        )
        space, config = self._space(), Config()
        for name, token in zip(elastic.space.names(), record.tokens, strict=True):
            kind, _, place = name.partition(" ")
            path = place if kind == "kernel" else place.rpartition(".")[0]
            options = space[path]
            own = "kernel_size" if kind == "kernel" else next(
                k for k in options if k != "kernel_size"
            )  # fmt: skip
            config.setdefault(path, {})[own] = options[own][token]
        return config

    def _called(self, where: str) -> Elastic:
        if self._elastic is None:
            raise PreconditionNotMetError(
                f"[{where}] expected a call of the OFA with data before, got none"
            )
        return self._elastic

    def export(
        self,
        config: Config,
        input_shapes: Sequence[Any] | None = None,
        input_dtypes: str | Sequence[str] = "float32",
        origin_model: nn.Layer | None = None,
        load_weights_from_supernet: bool = True,
        calibration: Sequence[Any] = (),
    ) -> nn.Layer:
        """A network of its own with the weights of one of the smaller ones.

        Args:
            config: Which, as `get_current_config` has it.
            input_shapes: Shapes of inputs, needed if there was no call with data.
            input_dtypes: Their dtypes.
            origin_model, load_weights_from_supernet: Have no meaning: what is exported
                is neither the supernet nor a network that was given.
            calibration: Inputs with which batch norms get statistics of their own.

        Raises:
            InvalidArgumentError: If the config has what no network has.
            PreconditionNotMetError: If there was no call and no shapes are given.
        """
        if self._elastic is None and input_shapes is not None:
            self._build(specs_of(input_shapes, input_dtypes))
        elastic = self._called("export")
        result = elastic.export(self._tokens(config), calibration)
        result.__dict__.pop("_ofa_options", None)
        return result


def _open(inputs: Sequence[Any]) -> list[Any]:
    """Specs of inputs whose batches may have any size."""
    return [
        proa.static.InputSpec(
            [None, *x.shape[1:]], str(x.dtype).rpartition(".")[2], f"x{i}"
        )
        for i, x in enumerate(inputs)
    ]


def _chosen(options: Options, config: RunConfig) -> Options:
    """The options without layers that stay whole."""
    widths, kernels = dict(options.widths), dict(options.kernels)
    for path, given in (config.ofa_layers or {}).items():
        for kind, values in given.items():
            table: dict[str, Any] = kernels if kind == "kernel_size" else widths
            if path not in table:
                raise InvalidArgumentError(
                    f"[RunConfig] expected ofa_layers among {', '.join(table)}, got "
                    f"{path!r}"
                )
            table[path] = tuple(v for v in values if v in table[path])
    for path in config.skip_layers or ():
        widths.pop(path, None)
        kernels.pop(path, None)
    return Options(widths, kernels, options.by_number)
