"""What is in the repository's folder: models, versions, files and their changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from proa_serving.backends.registry import known_suffixes
from proa_serving.config import ServerConfig, check_name
from proa_serving.models.settings import ModelSettings, VersionPolicy
from proa_serving.models.settings_file import find_settings, load_settings
from proa_serving.protocol.errors import (
    InvalidRequestError,
    ModelLoadError,
    NotFoundError,
)

FILE_VERSION = "1"  # that of a model that was named by its file
# Names, sizes, times of change and inode numbers of files.
Mark = tuple[tuple[str, int, int, int], ...]


def mark_of(*paths: Path) -> Mark:
    """Differs where a file changed, in these or below them."""
    files: list[Path] = []
    for path in paths:
        files += sorted(path.rglob("*")) if path.is_dir() else [path]
    found = []
    for file in files:
        try:
            held = file.stat()
        except OSError:  # It was removed just now; that is a change too.
            continue
        found.append((str(file), held.st_size, held.st_mtime_ns, held.st_ino))
    return tuple(found)


@dataclass(frozen=True)
class Source:
    """What a model is loaded from: its settings, and a file for each version.

    The path of an ensemble's version is None.
    """

    settings: ModelSettings
    versions: Mapping[str, Path | None]
    marks: Mapping[str, Mark] = field(default_factory=dict)


class ModelFolder:
    """Models named by their file, and those of a folder NAME/VERSION/model.SUFFIX.

    ``files`` are those that were named: by their file, or by a folder of their own.
    """

    def __init__(self, config: ServerConfig) -> None:
        self._config = config
        self.files: dict[str, Path] = {}
        for source in config.models:
            if source.name in self.files:
                raise InvalidRequestError(
                    "models", f"names must differ, got {source.name!r} twice"
                )
            self.files[source.name] = source.path
        self._default = ModelSettings(
            limits=config.limits,
            versions=VersionPolicy(latest=0 if config.all_versions else 1),
            instances=config.instances,
            threads=config.threads,
        )

    def names(self) -> list[str]:
        """The models there are.

        Raises:
            NotFoundError: If there is no such folder.
        """
        names = list(self.files)
        folder = self._config.repository
        if folder is not None:
            if not folder.is_dir():
                raise NotFoundError("repository", f"expected a folder, got {folder}")
            names += [
                held.name
                for held in sorted(folder.iterdir())
                if held.is_dir()
                and not held.name.startswith(".")
                and held.name not in self.files
            ]
        return names

    def mark(self, name: str) -> Mark:
        """Differs where any file of the model changed."""
        if name in self.files:
            return mark_of(self.files[name])
        folder = self._config.repository
        return () if folder is None else mark_of(folder / name)

    def source(self, name: str) -> Source:
        """What to load for ``name``, as its files are now.

        Raises:
            NotFoundError: If there is no such model.
            ModelLoadError: If its settings or its versions cannot be used.
        """
        named = self.files.get(name)
        if named is not None and not named.is_dir():
            mark = {FILE_VERSION: mark_of(named)}
            return Source(self._default, {FILE_VERSION: named}, mark)
        root = self._config.repository
        if named is not None:
            folder = named
        elif root is None or not (root / check_name(name)).is_dir():
            raise NotFoundError(
                "model", f"expected a model in the repository, got {name!r:.80}"
            )
        else:
            folder = root / name
        file = find_settings(folder)
        settings = self._default
        if file is not None:
            settings = load_settings(file, name, settings)
        versions = self._versions(folder, settings)
        if named is not None and not versions:
            alone = _only_file(folder, settings)
            if alone is not None:
                mark = {FILE_VERSION: mark_of(folder)}
                return Source(settings, {FILE_VERSION: alone}, mark)
        if not versions:
            wanted = f", one of {settings.versions.only}," * bool(
                settings.versions.only
            )
            raise ModelLoadError(
                f"model {name}",
                f"expected VERSION/{settings.file or 'model.proa'}, VERSION a "
                f"number,{wanted} in {folder}",
            )
        marks = {version: mark_of(folder / version) for version in versions}
        return Source(settings, versions, marks)

    def _versions(
        self, folder: Path, settings: ModelSettings
    ) -> dict[str, Path | None]:
        found: dict[str, Path | None] = {}
        for held in folder.iterdir():
            if held.is_dir() and held.name.isascii() and held.name.isdigit():
                file = None
                if not settings.steps:
                    file = _file_in(held, settings)
                    if file is None:
                        continue
                found[held.name] = file
        if settings.steps and not found:
            return {FILE_VERSION: None}
        return {
            version: found[version] for version in settings.versions.choose([*found])
        }


def _only_file(folder: Path, settings: ModelSettings) -> Path | None:
    """The model file of a folder that has one, whatever it is called."""
    if settings.file:
        return _file_in(folder, settings)
    suffixes = {f".{suffix}" for suffix in known_suffixes()}
    found = [held for held in folder.iterdir() if held.suffix in suffixes]
    return found[0] if len(found) == 1 and found[0].is_file() else None


def _file_in(folder: Path, settings: ModelSettings) -> Path | None:
    if settings.file:
        path = folder / settings.file
        return path if path.is_file() else None
    names = (folder / f"model.{suffix}" for suffix in known_suffixes())
    return next((path for path in names if path.is_file()), None)
