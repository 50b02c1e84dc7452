"""The models of a server: found, loaded, replaced and unloaded while it runs."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from proa_serving.backends.base import BackendOptions
from proa_serving.config import ServerConfig
from proa_serving.metrics import Metrics
from proa_serving.models.cache import ResponseCache
from proa_serving.models.ensemble import Ensemble
from proa_serving.models.folder import Mark, ModelFolder, Source
from proa_serving.models.served import Context, Served, ServedModel
from proa_serving.models.settings import ModelSettings, VersionPolicy
from proa_serving.models.traffic import ShadowReport, Split
from proa_serving.protocol.answers import Answers
from proa_serving.protocol.errors import (
    ForbiddenError,
    NotFoundError,
    ServingError,
    UnavailableError,
)
from proa_serving.protocol.messages import IndexEntry, InferRequest

log = logging.getLogger("proa_serving.models")


@dataclass
class _Entry:
    """A model by name. Its mappings are replaced whole, never changed in place."""

    versions: Mapping[str, Served] = field(default_factory=dict)
    newest: str = ""
    reason: str = "unloaded"
    front: Answers | None = None  # answers requests that name no version
    marks: Mapping[str, Mark] = field(default_factory=dict)  # of what is loaded
    failed: Mapping[str, str] = field(default_factory=dict)  # why, by version
    unloaded: bool = False  # by a client


class ModelRepository:
    """Finds, loads and unloads models.

    ``find`` is cheap and may be called from the event loop; ``load``, ``unload`` and
    ``refresh`` block and belong on a thread.
    """

    def __init__(self, config: ServerConfig, metrics: Metrics) -> None:
        self._config, self._metrics = config, metrics
        self._folder = ModelFolder(config)
        self._entries: dict[str, _Entry] = {}
        self._seen: dict[str, Mark] = {}  # of the model's files when last looked at
        self._changing = threading.Lock()
        self._closed = False
        self.changes = 0  # of what answers requests
        cache = ResponseCache(config.cache_bytes)
        metrics.cache_bytes = lambda: cache.used
        self._context = Context(config, metrics, cache, self.answers)

    def load_all(self) -> None:
        """Load every model there is.

        A model of the repository that cannot be loaded is logged, and listed by
        ``index`` with the reason; the others are served.

        Raises:
            ServingError: If a model that was named by its file cannot be loaded, or
                no model can; what was loaded is closed again.
        """
        failed: ServingError | None = None
        try:
            for name in self._folder.names():
                try:
                    self.load(name)
                except ServingError as error:
                    if name in self._folder.files:
                        raise
                    failed = error
            if failed is not None and not self.names():
                raise failed
        except ServingError:
            self.close(0.0)
            raise
        if not (self._entries or self._may_come_later()):
            raise NotFoundError(
                "repository",
                f"expected at least one model, got none in {self._config.repository}; "
                "a server that polls, or takes commands, may start without",
            )

    def is_loading(self) -> bool:
        """Whether a thread loads or unloads a model."""
        return self._changing.locked()

    def _may_come_later(self) -> bool:
        config = self._config
        takes_commands = config.model_control or config.admin_port is not None
        return config.repository is not None and (takes_commands or config.poll_s > 0)

    def is_ready(self) -> bool:
        """Whether a model is loaded, or none is there yet and may come later."""
        return bool(self.names() or (not self._entries and self._may_come_later()))

    def names(self) -> list[str]:
        """The models that are loaded."""
        return [name for name, held in self._entries.items() if held.versions]

    def answers(self, request: InferRequest) -> Answers:
        """What answers ``request``: the version it names, or as its model is set up.

        Raises:
            NotFoundError: If it is not known.
            UnavailableError: If it is known but not loaded.
        """
        if not request.version:
            entry = self._entries.get(request.model)
            if entry is not None and entry.front is not None:
                return entry.front
        return self.find(request.model, request.version)

    def find(self, name: str, version: str = "") -> Served:
        """The model; no version means the newest.

        Raises:
            NotFoundError: If it is not known.
            UnavailableError: If it is known but not loaded.
        """
        entry = self._entries.get(name)
        if entry is None:
            raise NotFoundError(
                "model", f"expected a model that is served, got {name!r:.80}"
            )
        versions = entry.versions
        if not versions:
            raise UnavailableError(f"model {name}", f"is not ready: {entry.reason}")
        model = versions.get(version or entry.newest)
        if model is None:
            raise NotFoundError(
                f"model {name}",
                f"version must be one of {list(versions)}, got {version!r:.40}",
            )
        return model

    def versions(self, name: str) -> tuple[str, ...]:
        """The versions of ``name`` that are loaded."""
        return tuple(self._entries[name].versions)

    def shadow_report(self, name: str) -> ShadowReport:
        """How the shadow of ``name`` differs.

        Raises:
            NotFoundError: If it has none.
        """
        self.find(name)
        front = self._entries[name].front
        if not isinstance(front, Split) or front.report is None:
            raise NotFoundError(f"model {name}", "has no shadow")
        return front.report

    def index(self, ready_only: bool = False) -> list[IndexEntry]:
        """What is there and in which state; blocks to look at the folder.

        A version that serves has a reason where its files changed and cannot be loaded.
        """
        lines = []
        for name in sorted({*self._entries, *self._folder.names()}):
            entry = self._entries.get(name, _Entry())
            lines += [
                IndexEntry(name, version, "READY", entry.failed.get(version, ""))
                for version in entry.versions
            ]
            if ready_only:
                continue
            lines += [
                IndexEntry(name, version, "UNAVAILABLE", why)
                for version, why in entry.failed.items()
                if version not in entry.versions
            ]
            if not entry.versions and not entry.failed:
                lines.append(IndexEntry(name, "", "UNAVAILABLE", entry.reason))
        return lines

    def load(self, name: str) -> None:
        """Load ``name`` as its files are now; what it replaces finishes first.

        Versions whose files and settings did not change stay as they are. Requests
        reach the new ones once all are loaded and warmed up.

        Raises:
            ServingError: If a version cannot be loaded; what was served in its place
                continues.
        """
        with self._changing:
            self._load(name)

    def _load(self, name: str) -> None:
        if self._closed:
            raise UnavailableError("server", "is shutting down")
        self._seen[name] = self._folder.mark(name)
        try:
            source = self._folder.source(name)
        except ServingError as error:
            self._record_failure(name, str(error))
            if name in self._entries:
                entry = self._entries[name]
                entry.failed = dict.fromkeys(entry.versions, str(error))
            raise
        entry = self._entries.get(name, _Entry())
        loaded: dict[str, Served] = {}
        marks: dict[str, Mark] = {}
        failed: dict[str, str] = {}
        problem: ServingError | None = None
        for version, path in source.versions.items():
            mark = source.marks.get(version, ())
            try:
                held = entry.versions.get(version)
                if held is None or not self._same(entry, held, source, version):
                    held = self._serve(name, version, path, source.settings)
                loaded[version], marks[version] = held, mark
            except ServingError as error:
                problem, failed[version] = error, str(error)
        if failed:  # What was served in their place stays.
            loaded = {**entry.versions, **loaded}
            marks = {**entry.marks, **marks}
        if loaded:
            self._replace(name, loaded, marks, failed, source.settings)
        if problem is not None:
            reasons = [f"version {version}: {why}" for version, why in failed.items()]
            self._record_failure(name, "; ".join(reasons))
            raise problem

    @staticmethod
    def _same(entry: _Entry, held: Served, source: Source, version: str) -> bool:
        """Whether what is loaded is what would be loaded again."""
        return entry.marks.get(version) == source.marks.get(version) and _essence(
            held.settings
        ) == _essence(source.settings)

    def _serve(
        self, name: str, version: str, path: Path | None, settings: ModelSettings
    ) -> Served:
        if path is None:
            return Ensemble(name, version, settings, self._context)
        if not path.is_file():
            raise NotFoundError(f"model {name}", f"expected a file, got {path}")
        if (settings.backend or path.suffix.removeprefix(".")) == "py":
            return self._serve_python(name, version, path, settings)
        return ServedModel(name, version, path, settings, self._context)

    def _serve_python(
        self, name: str, version: str, path: Path, settings: ModelSettings
    ) -> Served:
        """A model or a pipeline, which running the file tells."""
        from proa_serving.backends.python import PythonBackend
        from proa_serving.models.pipeline import Pipeline

        if not self._config.python_models:
            raise ForbiddenError(
                f"model {name}",
                f"the server must be started with --python-models to run {path.name}",
            )
        model = PythonBackend().load(path, BackendOptions(1, settings.parameters))
        if model.is_pipeline:
            return Pipeline(name, version, model, settings, self._context)
        return ServedModel(name, version, path, settings, self._context, model)

    def _replace(
        self,
        name: str,
        loaded: Mapping[str, Served],
        marks: Mapping[str, Mark],
        failed: Mapping[str, str],
        settings: ModelSettings,
    ) -> None:
        entry = self._entries.setdefault(name, _Entry())
        old = entry.versions
        ordered = {version: loaded[version] for version in sorted(loaded, key=int)}
        newest = next(reversed(ordered))
        front: Answers = ordered[newest]
        if settings.traffic is not None:
            front = Split(name, settings.traffic, ordered)
        entry.marks, entry.failed, entry.unloaded = marks, failed, False
        entry.versions, entry.newest, entry.front = ordered, newest, front
        self.changes += 1
        gone = {
            version: held
            for version, held in old.items()
            if ordered.get(version) is not held
        }
        fresh = [
            version for version in ordered if old.get(version) is not ordered[version]
        ]
        if fresh:
            log.info("loaded %s, versions %s", name, ", ".join(fresh))
        self._close_all(gone, self._config.grace_s)
        for version in gone.keys() - ordered.keys():
            self._metrics.retire(name, version)

    def _record_failure(self, name: str, reason: str) -> None:
        """Log why ``name`` was not loaded; the index shows it where nothing serves."""
        entry = self._entries.get(name)
        if entry is not None and entry.versions:
            log.error(
                "model %s was not reloaded, versions %s keep serving: %s",
                name,
                ", ".join(entry.versions),
                reason,
            )
            return
        log.error("model %s was not loaded: %s", name, reason)
        # A client may request any name; only those that exist are remembered.
        if entry is not None or name in self._folder.names():
            self._entries.setdefault(name, _Entry()).reason = reason
        else:
            self._seen.pop(name, None)

    def unload(self, name: str) -> None:
        """Stop serving ``name`` once its requests are answered."""
        with self._changing:
            if name not in self._entries:
                raise NotFoundError(
                    "model", f"expected a known model, got {name!r:.80}"
                )
            self._unload(name, "unloaded")
            self._entries[name].unloaded = True

    def _unload(self, name: str, reason: str) -> None:
        entry = self._entries[name]
        old, entry.reason = entry.versions, reason
        entry.front, entry.versions, entry.failed = None, {}, {}
        self.changes += 1
        self._close_all(old, self._config.grace_s)
        for version in old:
            self._metrics.retire(name, version)
        log.info("unloaded %s", name)

    def refresh(self) -> None:
        """Load what changed, and unload what was removed, since it was looked at last.

        What a client unloaded stays so until its files change. Errors are logged.
        """
        try:
            names = self._folder.names()
        except ServingError as error:
            log.error("the repository cannot be read: %s", error)
            return
        for name in names:
            with self._changing:
                if self._folder.mark(name) == self._seen.get(name):
                    continue
                try:
                    self._load(name)
                except ServingError:
                    continue  # It is in the log.
        for name in list(self._entries):
            if name not in names and self._entries[name].versions:
                with self._changing:
                    self._unload(name, "its folder was removed")

    def close(self, grace: float) -> bool:
        """Stop all; True if every request was finished within ``grace`` seconds.

        A model that is being loaded is not waited for; no other is loaded after it.
        """
        self._closed = True
        end = time.monotonic() + grace
        clean = True
        for entry in self._entries.values():
            old, entry.versions, entry.front = entry.versions, {}, None
            self.changes += 1
            entry.reason = "the server is shutting down"
            clean &= self._close_all(old, max(0.0, end - time.monotonic()))
        return clean

    @staticmethod
    def _close_all(models: Mapping[str, Served], grace: float) -> bool:
        end = time.monotonic() + grace
        # A list, so that all are closed though one was not in time.
        closed = [
            model.close(max(0.0, end - time.monotonic())) for model in models.values()
        ]
        return all(closed)


def _essence(settings: ModelSettings) -> ModelSettings:
    """The settings that a loaded version depends on."""
    return replace(settings, traffic=None, versions=VersionPolicy())
