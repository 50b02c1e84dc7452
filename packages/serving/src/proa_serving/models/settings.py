"""The settings of one model: one typed object, whichever file they came from.

They are read from ``config.toml``, ``config.json`` or ``config.pbtxt`` in the model's
folder (see :mod:`proa_serving.models.settings_file`). What a file does not say is as
the server's own settings say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from proa_serving.models.fields import Fields
from proa_serving.protocol.messages import TensorSpec
from proa_serving.schedule.buckets import Bucket
from proa_serving.schedule.queue import Limits

CONTROLS = ("start", "end", "ready", "id")


@dataclass(frozen=True)
class VersionPolicy:
    """Which of the versions in a folder are served.

    Args:
        latest: As many of the newest; 0 for all.
        only: Exactly these, if any.
    """

    latest: int = 1
    only: tuple[int, ...] = ()

    def choose(self, found: Sequence[str]) -> list[str]:
        """The versions to serve of those ``found``, oldest first."""
        ordered = sorted(found, key=int)
        if self.only:
            return [version for version in ordered if int(version) in self.only]
        return ordered[-self.latest :] if self.latest else ordered


@dataclass(frozen=True)
class Warmup:
    """A run before the model serves: ``rows`` of zeros, or of random numbers.

    Args:
        rows: The size of the batch dim, where there is one.
        shapes: Shapes by input, without the batch dim; of the model where missing.
        random: Numbers from 0 to 1 (booleans and integers: 0 or 1) rather than zeros.
        count: Runs.
    """

    rows: int = 1
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    random: bool = False
    count: int = 1


@dataclass(frozen=True)
class State:
    """An output that is the same sequence's next input; zeros at its start."""

    input: str
    output: str


@dataclass(frozen=True)
class Control:
    """An input that the server fills in, one element for each row.

    Args:
        input: The model's input.
        kind: "start" and "end", 1 at the first and last request of a sequence and
            0 otherwise; "ready", 1; "id", the sequence's number.
    """

    input: str
    kind: str


@dataclass(frozen=True)
class SequenceSettings:
    """How requests of one sequence share state.

    Args:
        states: Outputs that are kept for the next request.
        controls: Inputs that the server fills in.
        idle_us: Microseconds without a request after which a sequence is forgotten.
        max: Sequences at one time.
    """

    states: tuple[State, ...] = ()
    controls: tuple[Control, ...] = ()
    idle_us: int = 60_000_000
    max: int = 1024


@dataclass(frozen=True)
class Step:
    """A model of an ensemble.

    Args:
        model: Its name.
        version: Its version; as for any request where empty.
        inputs: Tensors of the ensemble by the model's inputs.
        outputs: Tensors of the ensemble by the model's outputs.
        when: A tensor; the step is skipped unless an element of it is not 0.
        unless: A tensor; the step is skipped if an element of it is not 0.
    """

    model: str
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    version: str = ""
    when: str = ""
    unless: str = ""


@dataclass(frozen=True)
class Traffic:
    """Which version answers requests that name none.

    Args:
        weights: Shares by version.
        header: An HTTP header, or a parameter of the request, that names the version.
        sticky: The same for a key; requests of one key go to one version.
        shadow: A version that gets copies of requests; its answers are compared.
        share: The share of requests that are copied.
    """

    weights: Mapping[str, float]
    header: str = ""
    sticky: str = ""
    shadow: str = ""
    share: float = 1.0


@dataclass(frozen=True)
class ModelSettings:
    """What can be chosen about one model.

    Args:
        limits: Limits of its queue and batches.
        versions: Which are served.
        instances: Workers; 0 for as many as the cores allow.
        threads: Threads that each uses for its mathematics; the same.
        file: The model file in a version's folder; the one that is there if empty.
        backend: The suffix whose backend loads it; the file's own if empty.
        inputs: What the model must take, if given.
        outputs: What it must give, if given.
        warmup: Runs before it serves; None for one run of zeros, if its shapes are
            known.
        buckets: Sizes that inputs are padded to, so that they share batches.
        cache: Whether equal requests are answered from memory.
        sequence: How it keeps state, or None.
        steps: The models of an ensemble, which has no file.
        traffic: How versions share requests, or None.
        parameters: For the backend.
    """

    limits: Limits = field(default_factory=Limits)
    versions: VersionPolicy = VersionPolicy()
    instances: int = 1
    threads: int = 1
    file: str = ""
    backend: str = ""
    inputs: tuple[TensorSpec, ...] = ()
    outputs: tuple[TensorSpec, ...] = ()
    warmup: tuple[Warmup, ...] | None = None
    buckets: tuple[Bucket, ...] = ()
    cache: bool = False
    sequence: SequenceSettings | None = None
    steps: tuple[Step, ...] = ()
    traffic: Traffic | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)


def read_settings(
    held: Mapping[str, Any], default: ModelSettings, where: str
) -> ModelSettings:
    """``default``, and what ``held`` says otherwise.

    Raises:
        ModelLoadError: If a setting is not known, or not what it must be.
    """
    fields = Fields(held, where)
    limits = default.limits
    found = replace(
        default,
        limits=Limits(
            max_batch=fields.number("max_batch", limits.max_batch, 1),
            max_delay_us=fields.number("max_delay_us", limits.max_delay_us),
            queue=fields.number("queue", limits.queue, 1),
            preferred=fields.numbers("preferred") or limits.preferred,
            priorities=fields.number("priorities", limits.priorities),
            priority=fields.number("priority", limits.priority),
            wait_us=fields.number("wait_us", limits.wait_us),
        ),
        instances=fields.cores("instances", default.instances),
        threads=fields.cores("threads", default.threads),
        file=fields.text("file"),
        backend=fields.text("backend"),
        inputs=fields.specs("inputs"),
        outputs=fields.specs("outputs"),
        warmup=_warmup(fields),
        buckets=tuple(_bucket(held) for held in fields.tables("buckets")),
        cache=fields.flag("cache", default.cache),
        sequence=_sequence(fields.table("sequence")),
        steps=tuple(_step(held) for held in fields.tables("steps")),
        traffic=_traffic(fields.table("traffic")),
        parameters=fields.texts("parameters"),
    )
    found = replace(found, versions=_versions(fields, found))
    fields.finish()
    _check(found, fields)
    return found


def _check(found: ModelSettings, fields: Fields) -> None:
    limits = found.limits
    if limits.priority > limits.priorities:
        raise fields.error(
            f"priority must be at most priorities, {limits.priorities}, "
            f"got {limits.priority}"
        )
    if any(rows > limits.max_batch for rows in limits.preferred):
        raise fields.error(
            f"preferred must be at most max_batch, {limits.max_batch}, "
            f"got {list(limits.preferred)}"
        )
    if "/" in found.file or found.file.startswith("."):
        raise fields.error(f"file must be a plain name, got {found.file!r:.80}")
    if found.steps and not (found.inputs and found.outputs):
        raise fields.error("must say the inputs and outputs of its steps together")
    if found.cache and found.sequence is not None:
        raise fields.error("cache must be off where requests form sequences")
    if found.traffic is not None and found.versions.only:
        absent = {*found.traffic.weights, found.traffic.shadow} - {""}
        absent -= {str(version) for version in found.versions.only}
        if absent:
            raise fields.error(f"versions must hold those of traffic, not {absent}")


def _versions(fields: Fields, found: ModelSettings) -> VersionPolicy:
    value = fields.take("versions")
    if value is None:
        if found.traffic is None:
            return found.versions
        named = {*found.traffic.weights, found.traffic.shadow} - {""}
        return VersionPolicy(only=tuple(sorted(map(int, named))))
    if value == "all":
        return VersionPolicy(latest=0)
    if isinstance(value, list):
        return VersionPolicy(
            only=Fields({"versions": value}, "config").numbers("versions")
        )
    if isinstance(value, Mapping):
        held = Fields(value, "versions")
        policy = VersionPolicy(latest=held.number("latest", 1, 1))
        held.finish()
        return policy
    raise fields.error(
        f'versions must be "all", {{latest = N}} or a list, got {value!r:.60}'
    )


def _warmup(fields: Fields) -> tuple[Warmup, ...] | None:
    if type(value := fields.take("warmup")) is bool or value is None:
        return () if value is False else None
    found = []
    for held in Fields({"warmup": value}, "config").tables("warmup"):
        shapes = held.table("shapes") or Fields({}, "config")
        by_input = {name: shapes.numbers(name) for name in shapes}
        found.append(
            Warmup(
                rows=held.number("rows", 1, 1),
                shapes=by_input,
                random=held.flag("random", False),
                count=held.number("count", 1, 1),
            )
        )
        held.finish()
    return tuple(found)


def _bucket(held: Fields) -> Bucket:
    found = Bucket(
        input=held.text("input"),
        axis=held.number("axis", 1, 1),
        sizes=tuple(sorted(held.numbers("sizes"))),
        value=held.real("value", 0.0, float("-inf"), float("inf")),
        length=held.text("length"),
        outputs=tuple(sorted(held.take("outputs", {}).items())),
    )
    held.finish()
    if not found.input or not found.sizes:
        raise held.error("must have an input and sizes")
    if any(type(axis) is not int or axis < 1 for _, axis in found.outputs):
        raise held.error("outputs must be axes of 1 or more by output")
    return found


def _sequence(held: Fields | None) -> SequenceSettings | None:
    if held is None:
        return None
    states, controls = [], []
    for item in held.tables("states"):
        states.append(State(item.text("input"), item.text("output")))
        item.finish()
    for item in held.tables("controls"):
        controls.append(Control(item.text("input"), item.text("kind")))
        item.finish()
        if controls[-1].kind not in CONTROLS:
            raise item.error(f"kind must be one of {', '.join(CONTROLS)}")
    found = SequenceSettings(
        tuple(states),
        tuple(controls),
        held.number("idle_us", SequenceSettings.idle_us, 1),
        held.number("max", SequenceSettings.max, 1),
    )
    held.finish()
    return found


def _step(held: Fields) -> Step:
    found = Step(
        model=held.text("model"),
        version=held.text("version"),
        inputs=held.texts("inputs"),
        outputs=held.texts("outputs"),
        when=held.text("when"),
        unless=held.text("unless"),
    )
    held.finish()
    if not found.model or not found.outputs:
        raise held.error("must have a model and outputs")
    return found


def _traffic(held: Fields | None) -> Traffic | None:
    if held is None:
        return None
    weights = held.table("weights")
    if weights is None:
        raise held.error("must have weights by version")
    shares = {
        version: weights.real(version, 0.0, 0.0, float("inf")) for version in weights
    }
    found = Traffic(
        shares,
        header=held.text("header").lower(),
        sticky=held.text("sticky").lower(),
        shadow=held.text("shadow"),
        share=held.real("share", 1.0, 0.0, 1.0),
    )
    held.finish()
    named = [*shares, *([found.shadow] if found.shadow else [])]
    if any(not (name.isascii() and name.isdigit()) for name in named):
        raise held.error(f"versions must be numbers, got {named}")
    if not 0 < sum(shares.values()) < float("inf"):
        raise held.error(f"weights must have a sum above 0, got {shares}")
    return found
