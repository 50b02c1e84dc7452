"""The models of a server: named files, and a folder of NAME/VERSION/model.proa."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from proa_serving.backends.registry import known_suffixes
from proa_serving.config import ServerConfig, check_name
from proa_serving.metrics import Metrics
from proa_serving.models.served import ServedModel
from proa_serving.protocol.errors import (
    InvalidRequestError,
    ModelLoadError,
    NotFoundError,
    ServingError,
    UnavailableError,
)
from proa_serving.protocol.messages import IndexEntry

log = logging.getLogger("proa_serving.models")
FILE_VERSION = "1"  # Of a model that was named by its file.


@dataclass
class _Entry:
    """A model by name. ``versions`` is replaced whole, never changed in place."""

    versions: Mapping[str, ServedModel] = field(default_factory=dict)
    newest: str = ""
    reason: str = "unloaded"


class ModelRepository:
    """Finds, loads and unloads models.

    ``find`` is cheap and may be called from the event loop; ``load`` and ``unload``
    block and belong on a thread.
    """

    def __init__(self, config: ServerConfig, metrics: Metrics) -> None:
        self._config, self._metrics = config, metrics
        self._files: dict[str, Path] = {}
        for source in config.models:
            if source.name in self._files:
                raise InvalidRequestError(
                    "models", f"names must differ, got {source.name!r} twice"
                )
            self._files[source.name] = source.path
        self._entries: dict[str, _Entry] = {}
        self._changing = threading.Lock()

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
            for name in self._known():
                try:
                    self.load(name)
                except ServingError as error:
                    if name in self._files:
                        raise
                    failed = error
            if failed is not None and not self.names():
                raise failed
        except ServingError:
            self.close(0.0)
            raise
        if not self._entries:
            raise NotFoundError(
                "repository",
                f"expected at least one model, got none in {self._config.repository}",
            )

    def names(self) -> list[str]:
        """The models that are loaded."""
        return [name for name, held in self._entries.items() if held.versions]

    def find(self, name: str, version: str = "") -> ServedModel:
        """The model to run; no version means the newest.

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

    def index(self, ready_only: bool = False) -> list[IndexEntry]:
        """What is there and in which state; blocks to look at the folder."""
        lines = []
        for name in sorted({*self._entries, *self._known()}):
            entry = self._entries.get(name, _Entry())
            lines += [
                IndexEntry(name, version, "READY", "") for version in entry.versions
            ]
            if not entry.versions and not ready_only:
                lines.append(IndexEntry(name, "", "UNAVAILABLE", entry.reason))
        return lines

    def load(self, name: str) -> None:
        """Load ``name`` as its files are now; what it replaces finishes first.

        Raises:
            ServingError: If it cannot be loaded; what was served goes on.
        """
        with self._changing:
            loaded: dict[str, ServedModel] = {}
            try:
                for version, path in self._sources(name).items():
                    loaded[version] = ServedModel(
                        name, version, path, self._config, self._metrics
                    )
            except ServingError as error:
                self._close_all(loaded, 0.0)
                self._record_failure(name, error)
                raise
            entry = self._entries.setdefault(name, _Entry())
            old, entry.newest = entry.versions, max(loaded, key=int)
            entry.versions = loaded
            log.info("loaded %s, versions %s", name, ", ".join(loaded))
            self._close_all(old, self._config.grace_s)

    def _record_failure(self, name: str, error: ServingError) -> None:
        """Log why ``name`` was not loaded; the index shows it where nothing serves."""
        entry = self._entries.get(name)
        if entry is not None and entry.versions:
            log.error(
                "model %s was not reloaded, versions %s keep serving: %s",
                name,
                ", ".join(entry.versions),
                error,
            )
            return
        log.error("model %s was not loaded: %s", name, error)
        # A client may request any name; only those that exist are remembered.
        if entry is not None or name in self._known():
            self._entries.setdefault(name, _Entry()).reason = str(error)

    def unload(self, name: str) -> None:
        """Stop serving ``name`` once its requests are answered."""
        with self._changing:
            entry = self._entries.get(name)
            if entry is None:
                raise NotFoundError(
                    "model", f"expected a known model, got {name!r:.80}"
                )
            old, entry.versions, entry.reason = entry.versions, {}, "unloaded"
            self._close_all(old, self._config.grace_s)
            log.info("unloaded %s", name)

    def close(self, grace: float) -> bool:
        """Stop all; True if every request was finished within ``grace`` seconds."""
        end = time.monotonic() + grace
        clean = True
        for entry in self._entries.values():
            old, entry.versions = entry.versions, {}
            entry.reason = "the server is shutting down"
            clean &= self._close_all(old, max(0.0, end - time.monotonic()))
        return clean

    @staticmethod
    def _close_all(models: Mapping[str, ServedModel], grace: float) -> bool:
        end = time.monotonic() + grace
        # A list, so that all are closed though one was not in time.
        closed = [
            model.close(max(0.0, end - time.monotonic())) for model in models.values()
        ]
        return all(closed)

    def _known(self) -> list[str]:
        names = list(self._files)
        folder = self._config.repository
        if folder is not None:
            if not folder.is_dir():
                raise NotFoundError("repository", f"expected a folder, got {folder}")
            names += [
                held.name
                for held in sorted(folder.iterdir())
                if held.is_dir()
                and not held.name.startswith(".")
                and held.name not in self._files
            ]
        return names

    def _sources(self, name: str) -> dict[str, Path]:
        if name in self._files:
            return {FILE_VERSION: self._files[name]}
        folder = self._config.repository
        if folder is None or not (folder / check_name(name)).is_dir():
            raise NotFoundError(
                "model", f"expected a model in the repository, got {name!r:.80}"
            )
        found = {}
        for held in (folder / name).iterdir():
            if held.is_dir() and held.name.isascii() and held.name.isdigit():
                file = self._file_in(held)
                if file is not None:
                    found[held.name] = file
        if not found:
            raise ModelLoadError(
                f"model {name}",
                f"expected VERSION/model.proa, VERSION a number, in {folder / name}",
            )
        ordered = sorted(found, key=int)
        chosen = ordered if self._config.all_versions else ordered[-1:]
        return {version: found[version] for version in chosen}

    @staticmethod
    def _file_in(folder: Path) -> Path | None:
        names = (folder / f"model.{suffix}" for suffix in known_suffixes())
        return next((path for path in names if path.is_file()), None)
