"""Translates Triton's model configuration, ``config.pbtxt``, to settings of our own.

The fields are those of NVIDIA's ``model_config.proto``. Fields which cannot change an
answer and mean nothing here are ignored with a warning; any other that is not
understood is an error, as serving without it could answer wrongly.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from proa_serving.models.pbtxt import Fields, parse_pbtxt
from proa_serving.protocol.errors import ModelLoadError
from proa_serving.protocol.messages import TensorSpec

if TYPE_CHECKING:
    from proa_serving.models.served import Served

log = logging.getLogger("proa_serving.models")
_IGNORED = frozenset(
    {
        *("optimization", "cc_model_filenames", "metric_tags", "runtime"),
        *("model_operations", "model_repository_agents", "model_metrics"),
    }
)
# Backends of Triton, and what loads their files here; others go by the file.
_BACKENDS = {"onnxruntime_onnx": "onnx", "onnxruntime": "onnx", "python": "py"}
_CONTROLS = {
    "CONTROL_SEQUENCE_START": "start",
    "CONTROL_SEQUENCE_END": "end",
    "CONTROL_SEQUENCE_READY": "ready",
    "CONTROL_SEQUENCE_CORRID": "id",
}


class _Message:
    """A parsed message whose fields are taken one by one."""

    def __init__(self, held: Fields, where: str, ignored: frozenset[str]) -> None:
        self._held, self._where, self._ignored = dict(held), where, ignored

    def error(self, message: str) -> ModelLoadError:
        return ModelLoadError(self._where, message)

    def has(self, name: str) -> bool:
        return name in self._held

    def values(self, name: str, *kinds: type) -> list[Any]:
        values = self._held.pop(name, [])
        for value in values:
            if kinds and type(value) not in kinds:
                raise self.error(
                    f"{name} must be {kinds[0].__name__}, got {value!r:.60}"
                )
        return values

    def value(self, name: str, kind: type, default: Any) -> Any:
        values = self.values(name, kind)
        return values[-1] if values else default

    def number(self, name: str, default: int = 0) -> int:
        return int(self.value(name, int, default))

    def text(self, name: str, default: str = "") -> str:
        return str(self.value(name, str, default))

    def flag(self, name: str) -> bool:
        return bool(self.value(name, bool, False))

    def messages(self, name: str) -> list[_Message]:
        where = f"{self._where}, {name}"
        return [
            _Message(held, where, self._ignored) for held in self.values(name, dict)
        ]

    def message(self, name: str) -> _Message | None:
        found = self.messages(name)
        return found[-1] if found else None

    def drop(self, *names: str) -> None:
        """Forget fields that mean nothing here, with a warning."""
        for name in names:
            if name in self._held:
                del self._held[name]
                log.warning("%s: %s is ignored", self._where, name)

    def finish(self) -> None:
        self.drop(*self._ignored & self._held.keys())
        if self._held:
            raise self.error(f"has fields that are not supported: {list(self._held)}")

    def texts(self, name: str) -> dict[str, str]:
        """A map of strings."""
        found = {}
        for entry in self.messages(name):
            found[entry.text("key")] = entry.text("value")
            entry.finish()
        return found


def settings_from_pbtxt(text: str, name: str, where: str) -> dict[str, Any]:
    """The settings of model ``name``, as ``config.toml`` would hold them.

    Raises:
        ModelLoadError: If the text is malformed, or says what is not supported.
    """
    held = _Message(parse_pbtxt(text, where), where, _IGNORED)
    said = held.text("name", name)
    if said != name:
        raise held.error(f"name must be that of its folder, {name}, got {said!r:.80}")
    rows = held.number("max_batch_size")
    if rows < 0:
        raise held.error(f"max_batch_size must be 0 or more, got {rows}")
    found: dict[str, Any] = {
        "inputs": [_spec(spec, rows) for spec in held.messages("input")],
        "outputs": [_spec(spec, rows) for spec in held.messages("output")],
        "parameters": {},
    }
    platform = held.text("platform")
    backend = held.text("backend") or platform
    if backend in _BACKENDS:
        found["backend"] = _BACKENDS[backend]
    elif backend not in ("", "ensemble"):
        found["parameters"]["triton_backend"] = backend
    for entry in held.messages("parameters"):
        key, value = entry.text("key"), entry.message("value")
        entry.finish()
        found["parameters"][key] = "" if value is None else value.text("string_value")
    if held.has("default_model_filename"):
        found["file"] = held.text("default_model_filename")
    found |= _versions(held.message("version_policy"))
    found |= _instances(held)
    found |= _batching(held.message("dynamic_batching"), rows)
    found |= _sequence(held.message("sequence_batching"), rows)
    found |= _ensemble(held.message("ensemble_scheduling"))
    found |= _warmup(held)
    cache = held.message("response_cache")
    if cache is not None:
        found["cache"] = cache.flag("enable")
        cache.finish()
    policy = held.message("model_transaction_policy")
    if policy is not None and policy.flag("decoupled"):
        raise held.error("decoupled models are not supported")
    held.finish()
    return found


def _spec(held: _Message, rows: int) -> dict[str, Any]:
    kind = held.text("data_type")
    held.drop("format", "label_filename", "is_shape_tensor")
    for name in ("optional", "allow_ragged_batch", "is_non_linear_format_io"):
        if held.flag(name):
            raise held.error(f"{name} is not supported")
    found = {
        "name": held.text("name"),
        "datatype": {"TYPE_STRING": "BYTES"}.get(kind, kind.removeprefix("TYPE_")),
        "shape": [*([-1] if rows else []), *held.values("dims", int)],
    }
    held.finish()
    return found


def _versions(held: _Message | None) -> dict[str, Any]:
    if held is None:
        return {}
    latest, every, only = map(held.message, ("latest", "all", "specific"))
    held.finish()
    if latest is not None:
        return {"versions": {"latest": latest.number("num_versions", 1)}}
    if only is not None:
        return {"versions": only.values("versions", int)}
    return {"versions": "all"} if every is not None else {}


def _instances(held: _Message) -> dict[str, Any]:
    count = 0
    for group in held.messages("instance_group"):
        kind = group.text("kind", "KIND_AUTO")
        if kind not in ("KIND_AUTO", "KIND_CPU", "KIND_MODEL"):
            raise group.error(f"kind must be KIND_CPU or KIND_AUTO, got {kind}")
        count += group.number("count", 1)
        group.drop("name", "gpus", "profile", "rate_limiter", "host_policy", "passive")
        group.finish()
    return {"instances": count} if count else {}


def _batching(held: _Message | None, rows: int) -> dict[str, Any]:
    if held is None:  # Triton then runs each request by itself.
        return {"max_batch": 1}
    found: dict[str, Any] = {
        "max_batch": max(1, rows),
        "max_delay_us": held.number("max_queue_delay_microseconds"),
        "preferred": held.values("preferred_batch_size", int),
        "priorities": held.number("priority_levels"),
        "priority": held.number("default_priority_level"),
    }
    held.drop("preserve_ordering", "priority_queue_policy")
    policy = held.message("default_queue_policy")
    if policy is not None:
        if policy.text("timeout_action", "REJECT") != "REJECT":
            raise policy.error("timeout_action must be REJECT")
        found["wait_us"] = policy.number("default_timeout_microseconds")
        if size := policy.number("max_queue_size"):
            found["queue"] = size
        policy.drop("allow_timeout_override")
        policy.finish()
    held.finish()
    return found


def _sequence(held: _Message | None, rows: int) -> dict[str, Any]:
    if held is None:
        return {}
    controls = []
    for item in held.messages("control_input"):
        name = item.text("name")
        for control in item.messages("control"):
            kind = control.text("kind")
            for values in ("int32_false_true", "fp32_false_true", "bool_false_true"):
                if control.values(values) not in (
                    [],
                    [0, 1],
                    [0.0, 1.0],
                    [False, True],
                ):
                    raise control.error(f"{values} must be 0 and 1")
            control.values("data_type")
            control.finish()
            if kind not in _CONTROLS:
                raise control.error(f"kind must be one of {', '.join(_CONTROLS)}")
            controls.append({"input": name, "kind": _CONTROLS[kind]})
        item.finish()
    states = []
    for item in held.messages("state"):
        states.append(
            {"input": item.text("input_name"), "output": item.text("output_name")}
        )
        item.values("data_type")
        item.values("dims")
        for start in item.messages("initial_state"):
            if not start.flag("zero_data"):
                raise start.error("initial_state must be zero_data")
        item.finish()
    idle = held.number("max_sequence_idle_microseconds", 1_000_000)
    limit = 1024
    for name in ("direct", "oldest"):
        strategy = held.message(name)
        if strategy is not None:
            limit = strategy.number("max_candidate_sequences", limit)
            strategy.drop(
                *("preferred_batch_size", "max_queue_delay_microseconds"),
                *("minimum_slot_utilization", "preserve_ordering"),
            )
            strategy.finish()
    held.finish()
    return {
        "max_batch": max(1, rows),
        "sequence": {
            "states": states,
            "controls": controls,
            "idle_us": idle,
            "max": max(1, limit),
        },
    }


def _ensemble(held: _Message | None) -> dict[str, Any]:
    if held is None:
        return {}
    steps = []
    for step in held.messages("step"):
        version = step.number("model_version", -1)
        steps.append(
            {
                "model": step.text("model_name"),
                "version": "" if version < 0 else str(version),
                "inputs": step.texts("input_map"),
                "outputs": step.texts("output_map"),
            }
        )
        step.drop("model_namespace")
        step.finish()
    held.finish()
    return {"steps": steps}


def _warmup(held: _Message) -> dict[str, Any]:
    found = []
    for sample in held.messages("model_warmup"):
        shapes: dict[str, list[int]] = {}
        random = False
        for entry in sample.messages("inputs"):
            value = entry.message("value")
            if value is None:
                raise entry.error("must have a value")
            shapes[entry.text("key")] = value.values("dims", int)
            random |= value.flag("random_data")
            value.flag("zero_data")
            value.values("data_type")
            if value.has("input_data_file"):
                raise value.error("input_data_file is not supported")
            value.finish()
            entry.finish()
        found.append(
            {
                "rows": max(1, sample.number("batch_size", 1)),
                "shapes": shapes,
                "random": random,
                "count": max(1, sample.number("count", 1)),
            }
        )
        sample.text("name")
        sample.finish()
    return {"warmup": found} if found else {}


def config_for_triton(model: Served) -> dict[str, Any]:
    """The configuration of a loaded model as Triton's clients read it.

    ``max_batch_size`` is 0, and shapes include the batch dim, unless dim 0 of every
    input and output is free.
    """
    specs = [*model.inputs, *model.outputs]
    rows = model.settings.limits.max_batch
    batch = rows > 1 and all(spec.shape[:1] == (-1,) for spec in specs)
    return {
        "name": model.name,
        "platform": model.platform,
        "backend": model.platform,
        "max_batch_size": rows if batch else 0,
        "input": [_for_triton(spec, batch) for spec in model.inputs],
        "output": [_for_triton(spec, batch) for spec in model.outputs],
    }


def _for_triton(spec: TensorSpec, batch: bool) -> dict[str, Any]:
    kind = "TYPE_STRING" if spec.datatype == "BYTES" else f"TYPE_{spec.datatype}"
    return {
        "name": spec.name,
        "data_type": kind,
        "dims": list(spec.shape[1:] if batch else spec.shape),
    }
