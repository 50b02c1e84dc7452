"""What to load and how it runs, before a predictor is made."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

from proa.errors import InvalidArgumentError, InvalidTypeError, NotFoundError
from proa_inference.arguments import has_methods, integer
from proa_inference.arguments import path as path_of
from proa_inference.bfloat16 import Bfloat16
from proa_inference.delegate import Delegate, LiteDelegate, OnnxRuntimeDelegate
from proa_inference.devices import Devices
from proa_inference.encryption import Key
from proa_inference.passes import PassBuilder
from proa_inference.source import Source, located
from proa_inference.tuning import Tuning
from proa_inference.types import PrecisionType

#: Plans for so many sets of input shapes are kept by default.
DEFAULT_PLANS = 8


class Config(Bfloat16, Devices, Tuning):
    """What a predictor loads and how it runs.

    Args:
        model: A ``.proa`` file; an ``.onnx`` file, a ``.pdmodel`` file or folder of
            PaddlePaddle (imported, which needs the extra ``proa[onnx]`` or
            ``proa[paddle]``); the prefix of such a path; or a Config, which is copied.
            May be given later by `set_model`.
        params: The parameters' file of a Paddle model, unless it is next to it.
    """

    Precision = PrecisionType
    Float32 = PrecisionType.Float32
    Int8 = PrecisionType.Int8
    Half = PrecisionType.Half
    Bfloat16 = PrecisionType.Bfloat16

    def __init__(
        self,
        model: str | PathLike[str] | Config | None = None,
        params: str | PathLike[str] | None = None,
    ) -> None:
        self._source = Source()
        self._passes = PassBuilder()
        self._threads, self._plans, self._plan_bytes = 0, DEFAULT_PLANS, 0
        self._optimize = self._accelerate = True
        self._memory_optim = self._profile = self._save_optimized = False
        self._quiet = self._feed_fetch = False
        self._specify_names = True
        self._cache_dir = ""
        self._delegates: list[Delegate] = []
        if isinstance(model, Config):
            self.__dict__.update(model.__dict__)
            self._passes = model._passes.copy()
            self._delegates = list(model._delegates)
        elif model is not None:
            self.set_model(model, params)

    # -- the model
    # ------------------------------------------------------------------------

    def set_model(
        self, model: str | PathLike[str], params: str | PathLike[str] | None = None
    ) -> None:
        """Load this file or folder; arguments as of the class.

        Raises:
            NotFoundError: If there is no such file.
        """
        self._source = replace(self._source, program=located(model), params=None)
        if params is not None:
            self.set_params_file(params)

    def set_prog_file(self, path: str | PathLike[str]) -> None:
        """Load this file; the parameters' file stays.

        Raises:
            NotFoundError: If there is no such file.
        """
        self._source = replace(self._source, program=located(path))

    def set_params_file(self, path: str | PathLike[str]) -> None:
        """The parameters' file of a Paddle model.

        Raises:
            NotFoundError: If there is no such file.
        """
        params = Path(path_of("Config.set_params_file", "path", path))
        if not params.is_file():
            raise NotFoundError(f"[Config] params must be a file, got {str(params)!r}")
        program = self._source.program
        is_proa = isinstance(program, Path) and program.suffix == ".proa"
        self._source = replace(self._source, params=None if is_proa else params)

    def set_model_buffer(self, content: bytes, *parts: Any) -> None:
        """Load the bytes of a model file, which may be encrypted or ONNX.

        Args:
            content: The bytes.
            parts: The size of the content, the bytes of a Paddle model's parameters
                and their size, as programs for Paddle give them. Sizes may be left out.

        Raises:
            InvalidArgumentError: If a size is not that of its bytes.
            InvalidTypeError: If it is given anything else.
        """
        where = "Config.set_model_buffer"
        for part in (content, *parts):
            if not isinstance(part, (bytes, bytearray, memoryview, int)):
                raise InvalidTypeError(
                    f"[{where}] expected bytes and their sizes, got {part!r:.80}"
                )
        texts = [content, *(part for part in parts if not isinstance(part, int))]
        for text, size in zip(texts, [p for p in parts if isinstance(p, int)]):  # noqa: B905
            if size != len(text):
                raise InvalidArgumentError(
                    f"[{where}] expected the size of the bytes, {len(text)}, got {size}"
                )
        params = bytes(texts[1]) if len(texts) > 1 and texts[1] else None
        self._source = replace(self._source, program=bytes(content), params=params)

    def set_cipher_key(self, key: Key | Callable[[], Key]) -> None:
        """The key of an encrypted model: 32 bytes, or a function that returns them.

        The function is called when the model is read; the model is decrypted in memory.

        Raises:
            InvalidTypeError: If it is neither bytes nor a function.
        """
        if not isinstance(key, (bytes, bytearray, memoryview)):
            has_methods("Config.set_cipher_key", "key", key)
        self._source = replace(self._source, key=key)

    def prog_file(self) -> str:
        """Path of the model; empty if it is a buffer or not given."""
        return self._source.path()

    def params_file(self) -> str:
        """Path of a Paddle model's parameters, if one was given."""
        return str(self._source.params) if isinstance(self._source.params, Path) else ""

    def model_dir(self) -> str:
        """Path of a model that is a folder, else empty."""
        path = self._source.path()
        return path if os.path.isdir(path) else ""

    def model_from_memory(self) -> bool:
        """True if the model was given by `set_model_buffer`."""
        return self._source.in_memory

    def content(self) -> bytes | memoryview:
        """The bytes of the model as a ``.proa`` file, in memory.

        Raises:
            InvalidArgumentError: If no model was given, or it is damaged.
            PreconditionNotMetError: If it is encrypted and there is no key.
        """
        return self._source.content()

    def reads_by_itself(self) -> bool:
        """Whether the engine can read the model's file without Python."""
        return self._source.is_plain_file()

    def model_is_encrypted(self) -> bool:
        """Whether the model is encrypted: it is plain in memory alone."""
        return self._source.is_encrypted()

    # -- how it runs
    # ----------------------------------------------------------------------

    def set_cpu_math_library_num_threads(self, threads: int) -> None:
        """1: the caller's thread; n: a pool of n; 0: the pool the process shares.

        Raises:
            InvalidArgumentError: If negative.
        """
        self._threads = integer("Config", "threads", threads, 0)

    def cpu_math_library_num_threads(self) -> int:
        """What `set_cpu_math_library_num_threads` said, 0 at first."""
        return self._threads

    def set_plan_cache(self, count: int, max_bytes: int = 0) -> None:
        """How many plans, one for each set of input shapes, are kept.

        Args:
            count: The least recently used is replaced by the next. At least 1.
            max_bytes: Bytes of their tables; 0 for as many as they take.

        Raises:
            InvalidArgumentError: If the count is less than 1 or the bytes negative.
        """
        where = "Config.set_plan_cache"
        count = integer(where, "count", count)
        max_bytes = integer(where, "max_bytes", max_bytes)
        if count < 1 or max_bytes < 0:
            raise InvalidArgumentError(
                f"[{where}] expected count >= 1 and max_bytes >= 0, got {count} and "
                f"{max_bytes}"
            )
        self._plans, self._plan_bytes = count, max_bytes

    def set_mkldnn_cache_capacity(self, capacity: int = 0) -> None:
        """As `set_plan_cache`; 0 for as many as by default."""
        self.set_plan_cache(capacity or DEFAULT_PLANS, self._plan_bytes)

    def plan_cache(self) -> tuple[int, int]:
        """What `set_plan_cache` said."""
        return self._plans, self._plan_bytes

    def enable_mkldnn(self) -> None:
        """Kernels for this CPU are always used; `mkldnn_enabled` says so again."""
        self._accelerate = True

    def disable_mkldnn(self) -> None:
        """`mkldnn_enabled` says no; the kernels stay."""
        self._accelerate = False

    def mkldnn_enabled(self) -> bool:
        """What `enable_mkldnn` and `disable_mkldnn` said, True at first."""
        return self._accelerate

    def set_mkldnn_op(self, ops: Sequence[str] | set[str]) -> None:
        """Has no effect: each operator has one kernel for this CPU."""

    def enable_mkldnn_int8(
        self, mkldnn_int8_enabled_op_types: Sequence[str] | set[str] = ()
    ) -> None:
        """Let the products of a quantized Paddle model round what they read by the
        ranges that its operators state (``out_threshold``), where nothing else does.

        A .proa file computes in int8 as it was written, without this: the load of a
        model that is not Paddle's raises an UnimplementedError.

        Args:
            mkldnn_int8_enabled_op_types: Has no effect: int8 kernels are always used.
        """
        self._source = replace(self._source, rounds=True)

    def mkldnn_int8_enabled(self) -> bool:
        """True after `enable_mkldnn_int8`."""
        return self._source.rounds

    def disable_mkldnn_fc_passes(self) -> None:
        """Take the passes out that fuse what follows a matrix product."""
        for name in ("fuse_bias", "fuse_epilogue"):
            if name in self._passes.all_passes():
                self._passes.delete_pass(name)

    def enable_memory_optim(self, x: bool = True) -> None:
        """Arrays always share the memory of one arena; `memory_optim_enabled` says
        what was requested.
        """
        self._memory_optim = x

    def memory_optim_enabled(self) -> bool:
        """What `enable_memory_optim` said, False at first."""
        return self._memory_optim

    # -- graph passes
    # ---------------------------------------------------------------------

    def switch_ir_optim(self, x: int = True) -> None:
        """Run the passes of `pass_builder` at load (the default), or none."""
        self._optimize = bool(x)

    def ir_optim(self) -> bool:
        """True if the passes run at load."""
        return self._optimize

    def switch_ir_debug(self, x: int = True) -> None:
        """Write the graph as text before the passes and after each, into
        `set_optim_cache_dir` or the working folder: ``0_recorded.txt``, …. The load of
        an encrypted model then raises an InvalidArgumentError.
        """
        if x:
            self._passes.enable_debug()
        else:
            self._passes.disable_debug()

    def pass_builder(self) -> PassBuilder:
        """The passes, to be looked at and changed."""
        return self._passes

    def delete_pass(self, name: str) -> None:
        """Shorthand of ``pass_builder().delete_pass(name)``."""
        self._passes.delete_pass(name)

    def set_optim_cache_dir(self, path: str | PathLike[str]) -> None:
        """The folder for what `switch_ir_debug` and `enable_save_optim_model` write; it
        is made if it is not there.
        """
        self._cache_dir = path_of("Config.set_optim_cache_dir", "path", path)

    def optim_cache_dir(self) -> str:
        """What `set_optim_cache_dir` said."""
        return self._cache_dir

    def enable_save_optim_model(self, save_optimized_model: bool = True) -> None:
        """Write the model after its passes into `set_optim_cache_dir`, or else next to
        the model.

        Later loads of the same ``.proa`` file, unchanged, with the same passes,
        precision, tuning, version of Proa and CPU read that instead, and run and
        measure nothing, unless they have delegates. `proa_inference.saved.saved_path`
        gives the file, which may be deleted at any time. The load of an encrypted model
        raises an InvalidArgumentError, since what is saved would be plain.
        """
        self._save_optimized = save_optimized_model

    def saves_optim_model(self) -> bool:
        """What `enable_save_optim_model` said, False at first."""
        return self._save_optimized

    # -- parts for other engines
    # ----------------------------------------------------------

    def add_delegate(self, delegate: Delegate) -> None:
        """Let another engine run the parts of the graph that it takes.

        Raises:
            InvalidTypeError: If it has not the methods of a `Delegate`.
        """
        where = "Config.add_delegate"
        has_methods(where, "delegate", delegate, "takes", "compile")
        self._delegates.append(delegate)

    def delegates(self) -> list[Delegate]:
        """The delegates, in order."""
        return [
            d.on(self._threads) if isinstance(d, OnnxRuntimeDelegate) else d
            for d in self._delegates
        ]

    def enable_lite_engine(
        self,
        precision_mode: PrecisionType = PrecisionType.Float32,
        zero_copy: bool = False,
        passes_filter: Sequence[str] = (),
        ops_filter: Sequence[str] = (),
    ) -> None:
        """Let `proa_lite` run the parts of the graph that it has operators for.

        Args:
            precision_mode, zero_copy, passes_filter: Have no effect.
            ops_filter: Operators that stay with this engine.
        """
        self.add_delegate(LiteDelegate(ops_filter))

    def lite_engine_enabled(self) -> bool:
        """True after `enable_lite_engine`."""
        return any(isinstance(d, LiteDelegate) for d in self._delegates)

    def enable_onnxruntime(self) -> None:
        """Let onnxruntime, where it is installed, run what ONNX can express."""
        self.add_delegate(OnnxRuntimeDelegate())

    def disable_onnxruntime(self) -> None:
        """Undo `enable_onnxruntime`."""
        remaining = [
            d for d in self._delegates if not isinstance(d, OnnxRuntimeDelegate)
        ]
        self._delegates = remaining

    def onnxruntime_enabled(self) -> bool:
        """True after `enable_onnxruntime`."""
        return any(isinstance(d, OnnxRuntimeDelegate) for d in self._delegates)

    def enable_ort_optimization(self) -> None:
        """onnxruntime always optimizes its parts."""

    # -- messages
    # -------------------------------------------------------------------------

    def enable_profile(self) -> None:
        """Time each operator of each run, and print a table to standard error when the
        predictor ends.
        """
        self._profile = True

    def profile_enabled(self) -> bool:
        """True after `enable_profile`."""
        return self._profile

    def disable_glog_info(self) -> None:
        """Log nothing: by default the logger ``proa_inference`` says at level INFO what
        was loaded and what the passes did.
        """
        self._quiet = True

    def glog_info_disabled(self) -> bool:
        """True after `disable_glog_info`."""
        return self._quiet

    def switch_use_feed_fetch_ops(self, x: int = True) -> None:
        """Has no effect: inputs and outputs are handles."""
        self._feed_fetch = bool(x)

    def use_feed_fetch_ops_enabled(self) -> bool:
        """What `switch_use_feed_fetch_ops` said, False at first."""
        return self._feed_fetch

    def switch_specify_input_names(self, x: bool = True) -> None:
        """Has no effect: inputs always have names."""
        self._specify_names = x

    def specify_input_name(self) -> bool:
        """What `switch_specify_input_names` said, True at first."""
        return self._specify_names

    def enable_new_executor(self, x: bool = True) -> None:
        """Has no effect: there is one executor."""

    def summary(self) -> str:
        """The settings, one a line."""
        given = self._source.program
        model = f"{len(given)} bytes in memory" if isinstance(given, bytes) else given
        lines = {
            "model": model or "none",
            "params": self.params_file() or "none",
            "threads": self._threads or "shared pool",
            "passes": ", ".join(self._passes.all_passes()) if self._optimize else "off",
            "bfloat16": self._bf16,
            "plans": self._plans,
            "delegates": ", ".join(d.name for d in self._delegates) or "none",
            "profile": self._profile,
        }
        return "\n".join(f"{key:9} {value}" for key, value in lines.items())
