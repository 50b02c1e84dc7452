"""What to load and how to run it, before a predictor is made."""

from __future__ import annotations

from os import PathLike, fspath
from pathlib import Path

from proa.base import files
from proa.errors import InvalidArgumentError, NotFoundError
from proa.ir import passes

#: The pass whose result a file does not keep; it runs after all others.
CHAINS = "chain_elementwise"


class PassBuilder:
    """The list of graph passes that a predictor runs at load, in order."""

    def __init__(self) -> None:
        # What changes weights is for quantization. Chains keep every bit.
        self._names = [p.name for p in passes.PASSES.values() if p.level <= 2]
        self._names.append(CHAINS)

    def all_passes(self) -> list[str]:
        """The names, in the order they run."""
        return list(self._names)

    def delete_pass(self, name: str) -> None:
        """Take a pass out.

        Raises:
            NotFoundError: If it is not in the list.
        """
        if name not in self._names:
            raise NotFoundError(
                f"[PassBuilder] name must be one of {', '.join(self._names)}, "
                f"got {name!r}"
            )
        self._names.remove(name)

    def append_pass(self, name: str) -> None:
        """Add a pass at the end.

        Raises:
            NotFoundError: If there is no such pass.
        """
        self.insert_pass(len(self._names), name)

    def insert_pass(self, index: int, name: str) -> None:
        """Add a pass before position `index`.

        Raises:
            NotFoundError: If there is no such pass.
        """
        if name not in passes.PASSES:
            raise NotFoundError(
                f"[PassBuilder] name must be one of "
                f"{', '.join(passes.PASSES)}, got {name!r}"
            )
        self._names.insert(index, name)

    def turn_off(self) -> None:
        """Take every pass out."""
        self._names.clear()


class Config:
    """What a predictor loads and how it runs.

    Args:
        model: Path of a ``.proa`` file; may be given later by `set_model`.
    """

    def __init__(self, model: str | PathLike[str] | None = None) -> None:
        self._path: Path | None = None
        self._buffer: bytes | None = None
        self._threads = 0
        self._optimize = True
        self._passes = PassBuilder()
        if model is not None:
            self.set_model(model)

    # -- the model
    # ------------------------------------------------------------------------

    def set_model(self, model: str | PathLike[str]) -> None:
        """Load this file.

        Raises:
            NotFoundError: If there is no such file.
        """
        path = Path(fspath(model))
        if not path.is_file():
            raise NotFoundError(f"[Config] model must be a file, got {str(path)!r}")
        self._path, self._buffer = path, None

    def set_model_buffer(self, content: bytes) -> None:
        """Load the bytes of a model file."""
        self._path, self._buffer = None, bytes(content)

    def prog_file(self) -> str:
        """Path of the model; empty if it is a buffer or not given."""
        return str(self._path or "")

    def model_from_memory(self) -> bool:
        """True if the model was given by `set_model_buffer`."""
        return self._buffer is not None

    def content(self) -> bytes | memoryview:
        """The model's bytes: those given, or what the file holds now, in memory.

        Raises:
            InvalidArgumentError: If no model was given.
        """
        if self._buffer is not None:
            return self._buffer
        if self._path is None:
            raise InvalidArgumentError(
                "[Config] expected a model from Config(path), set_model or "
                "set_model_buffer, got none"
            )
        return files.read(self._path, where="Config")

    # -- how it runs
    # ----------------------------------------------------------------------

    def set_cpu_math_library_num_threads(self, threads: int) -> None:
        """1: the caller's thread; n: a pool of n; 0: the pool the process shares.

        Raises:
            InvalidArgumentError: If negative.
        """
        if threads < 0:
            raise InvalidArgumentError(f"[Config] threads must be >= 0, got {threads}")
        self._threads = threads

    def cpu_math_library_num_threads(self) -> int:
        """What `set_cpu_math_library_num_threads` said, 0 at first."""
        return self._threads

    def switch_ir_optim(self, on: bool = True) -> None:
        """Run the passes of `pass_builder` at load (the default), or none."""
        self._optimize = on

    def ir_optim(self) -> bool:
        """True if the passes run at load."""
        return self._optimize

    def pass_builder(self) -> PassBuilder:
        """The passes, to be looked at and changed."""
        return self._passes

    def delete_pass(self, name: str) -> None:
        """Shorthand of ``pass_builder().delete_pass(name)``."""
        self._passes.delete_pass(name)

    def disable_gpu(self) -> None:
        """The predictor runs on the CPU; this changes nothing."""

    def use_gpu(self) -> bool:
        """False: the predictor runs on the CPU."""
        return False

    def summary(self) -> str:
        """The settings, one a line."""
        where = (
            f"{len(self._buffer)} bytes in memory"
            if self._buffer is not None
            else self.prog_file()
        )
        lines = {
            "model": where or "none",
            "threads": self._threads or "shared pool",
            "passes": ", ".join(self._passes.all_passes()) if self._optimize else "off",
        }
        return "\n".join(f"{key:8} {value}" for key, value in lines.items())
