"""Calls of the public API with random arguments, run as a child process.

``python random_calls.py FIRST COUNT [TARGET]`` runs COUNT cases from case FIRST on and
prints a line of JSON for each one that fails; the case that runs when the process ends
is the last line that begins with ``at``. A case is a pure function of its number.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import inspect
import io
import json
import os
import random
import re
import resource
import sys
import tempfile
import traceback
import types
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import proa
from proa import errors

SECONDS = 20  # for one call, which also covers a machine that is busy
MEMORY = 2 << 30  # as much is filled within that time
MODULES = (
    "proa", "proa.nn", "proa.nn.functional", "proa.nn.initializer", "proa.nn.utils",
    "proa.linalg", "proa.fft", "proa.signal", "proa.sparse", "proa.distribution",
    "proa.vision.ops", "proa.vision.transforms", "proa.optimizer", "proa.optimizer.lr",
    "proa.metric", "proa.io", "proa.text", "proa.static.nn", "proa.geometric",
    "proa.incubate", "proa.amp", "proa.autograd", "proa.regularizer",
)  # fmt: skip
#: What changes the process or the machine, talks to a network or reads user files.
LEFT_OUT = {
    "proa.disable_signal_handler", "proa.disable_static", "proa.enable_static",
    "proa.set_default_dtype", "proa.set_device", "proa.set_grad_enabled",
    "proa.set_flags", "proa.set_printoptions", "proa.set_cuda_rng_state",
    "proa.load", "proa.save", "proa.seed", "proa.Model", "proa.DataParallel",
    "proa.enable_dygraph", "proa.disable_dygraph", "proa.monkey_patch_math_varbase",
    "proa.monkey_patch_variable", "proa.set_rng_state", "proa.summary", "proa.flops",
    "proa.text.Conll05st", "proa.text.Imdb", "proa.text.Imikolov", "proa.text.WMT14",
    "proa.text.Movielens", "proa.text.UCIHousing", "proa.text.WMT16",
    "proa.set_num_threads", "proa.io.DataLoader",
    "proa.static.nn.py_func", "proa.autograd.PyLayer",
}  # fmt: skip
OPERATORS = (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "eq", "ne",
    "lt", "le", "gt", "ge", "and", "or", "xor", "neg", "abs", "invert", "radd", "rsub",
    "rmul", "rtruediv", "rpow", "rmatmul", "len", "float", "int", "bool", "index",
    "contains", "getitem", "iter", "round",
)  # fmt: skip
#: Methods of Tensor that act on the process, or wait.
NO_METHODS = {"backward", "register_hook", "cuda", "data_ptr", "tofile"}
DTYPES = (
    "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16",
    "float32", "float64", "complex64", "complex128",
)  # fmt: skip
WORDS = (
    "", "words", "mean", "sum", "none", "max", "SAME", "VALID", "same", "valid",
    "zeros",
    "reflect", "replicate", "circular", "constant", "nearest", "bilinear", "bicubic",
    "linear", "trilinear", "area", "NCHW", "NHWC", "NCL", "NLC", "NCDHW", "NDHWC",
    "backward", "ortho", "forward", "fro", "nuc", "reduced", "complete", "r", "relu",
    "tanh", "sigmoid", "leaky_relu", "add", "border", "upscale_in_train",
    "downscale_in_infer", "float32", "int64", "ij,jk->ik", "ii->i", "i", "é",
)  # fmt: skip
HUGE = (100, -100, 2**31 - 1, 2**31, -(2**31), 2**33, 2**62, 2**63 - 1, -(2**63), 2**64)


# -- arguments ------------------------------------------------------------------------
class Arguments:
    """Draws the arguments of one case."""

    def __init__(self, r: random.Random) -> None:
        self.r = r
        rank = r.choice([0, 1, 1, 2, 2, 2, 3, 3, 4, 4, 4, 5, 6])
        self.shape = [r.choice([1, 2, 2, 3, 4, 4, 6]) for _ in range(rank)]
        self.dtype = r.choice(["float32"] * 12 + list(DTYPES))

    def array(self, shape: list[int], dtype: str) -> np.ndarray[Any, Any]:
        rng = np.random.default_rng(self.r.getrandbits(32))
        a = np.asarray(rng.normal(size=shape) * self.r.choice([0.5, 1, 3]))
        if dtype == "bool" or "int" in dtype:
            a = np.asarray(rng.integers(0, self.r.choice([2, 3, 9]), shape))
        if self.r.random() < 0.06 and a.size and a.dtype.kind == "f":
            a.reshape(-1)[0] = self.r.choice([np.nan, np.inf, -np.inf, 1e30])
        return a.astype("float32" if dtype == "bfloat16" else dtype)

    def a_shape(self) -> list[int]:
        """The shape of the case, or one near it, or any."""
        r, shape = self.r, list(self.shape)
        kind = r.random()
        if kind < 0.55:
            return shape
        if kind < 0.7 and shape:
            shape[r.randrange(len(shape))] = r.choice([0, 1, 2, 3, 5])
            return shape
        if kind < 0.8:
            return shape[::-1] if r.random() < 0.5 else shape[:-1]
        return [r.choice([0, 1, 2, 3, 4]) for _ in range(r.randint(0, 6))]

    def tensor(self) -> proa.Tensor:
        r = self.r
        dtype = self.dtype if r.random() < 0.8 else r.choice(DTYPES)
        x = proa.to_tensor(self.array(self.a_shape(), dtype))
        if dtype == "bfloat16":
            x = x.astype("bfloat16")
        if r.random() < 0.1 and x.ndim > 1:
            x = x.transpose(list(range(x.ndim))[::-1])
        if r.random() < 0.2 and (x.dtype.is_floating):
            x.stop_gradient = False
        return x

    def integer(self) -> int:
        r = self.r
        if r.random() < 0.85:
            return r.choice([0, 1, 1, 2, 2, 3, 4, -1, -1, -2])
        return r.choice((5, 7, -3, -5, *HUGE))

    def number(self) -> float:
        return self.r.choice(
            [0.0, 1.0, 0.5, 0.1, -1.0, 2.5, 1e-5, float("nan"), float("inf"), -1e30]
        )

    def integers(self) -> list[int]:
        n = self.r.choice([len(self.shape), 1, 2, 2, 3, 4, 0, 2 * len(self.shape), 9])
        return [self.integer() for _ in range(n)]

    def parameter(self) -> proa.Tensor:
        return proa.create_parameter([2, 3], "float32")

    def layer(self) -> proa.nn.Layer:
        return self.r.choice(
            [proa.nn.Linear(3, 3), proa.nn.ReLU(), proa.nn.LSTMCell(3, 3)]
        )

    def anything(self) -> Any:
        """A value of any kind, mostly one that does not belong."""
        r = self.r
        kinds: list[Callable[[], Any]] = [
            lambda: None,
            self.tensor,
            self.tensor,
            self.integer,
            self.number,
            self.integers,
            lambda: tuple(self.integers()),
            lambda: r.choice(WORDS),
            lambda: r.random() < 0.5,
            lambda: self.array(
                self.a_shape(), self.dtype if self.dtype != "bfloat16" else "int8"
            ),
            lambda: [self.tensor() for _ in range(r.randint(0, 3))],
            lambda: [self.tensor(), self.integer(), r.choice(WORDS)],
            lambda: {"a": self.tensor()},
            lambda: object(),
            lambda: b"bytes",
            lambda: 1 + 2j,
            lambda: [[1, 2], [3]],
            lambda: [1.5, None],
            lambda: r.choice(HUGE),
            lambda: np.float32(1.5),
            lambda: np.int64(2),
            lambda: proa.float32,
            lambda: slice(0, 2),
            lambda: lambda *a, **k: a[0] if a else None,
            lambda: {1, 2},
            lambda: [[]],
            self.layer,
        ]
        return r.choice(kinds)()

    def plausible(self, p: inspect.Parameter) -> Any:
        """A value of the kind of the annotation or the default."""
        r, hint, name = self.r, str(p.annotation), p.name
        if p.default is not p.empty and r.random() < 0.4:
            return p.default
        if name == "parameters" or name == "params":
            return [self.parameter()]
        if "Layer" in hint:
            return self.layer() if "Sequence" not in hint else [self.layer()]
        if (
            "Tensor" in hint
            and ("Sequence" in hint or "list" in hint)
            and ("int" not in hint)
        ):
            return [self.tensor() for _ in range(r.randint(1, 3))]
        if "layers" in name and "int" in hint:
            return r.randint(-1, 2)
        kinds: list[Callable[[], Any]] = []
        if "Tensor" in hint or hint in ("<class 'inspect._empty'>", "Any", "Image"):
            kinds += [self.tensor] * 3
        if "dtype" in name or "DType" in hint:
            kinds.append(lambda: r.choice(DTYPES))
        if "int" in hint or "Ints" in hint or "Axis" in hint or "Size" in hint:
            kinds.append(self.integer)
        if "Ints" in hint or "Axis" in hint or "Size" in hint or "Sequence[int" in hint:
            kinds += [self.integers, self.integers]
        if "float" in hint and "Tensor" not in hint:
            kinds.append(self.number)
        if "bool" in hint:
            kinds.append(lambda: r.random() < 0.5)
        if "str" in hint:
            kinds.append(lambda: r.choice(WORDS))
        if "Callable" in hint:
            kinds.append(lambda: lambda *a, **k: a[0] if a else None)
        if p.default not in (p.empty, None):
            kinds.append(lambda: p.default)
        return r.choice(kinds)() if kinds else self.anything()

    def for_call(
        self, function: Callable[..., Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        """Arguments of a call: plausible ones, a few of them spoiled."""
        r = self.r
        spoil = r.choice([0, 0, 0.15, 0.3, 1])
        try:
            parameters = list(inspect.signature(function).parameters.values())
        except (TypeError, ValueError):
            return [self.anything() for _ in range(r.randint(0, 4))], {}
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for p in parameters:
            if p.kind is p.VAR_KEYWORD or p.name == "name":
                continue
            if p.kind is p.VAR_POSITIONAL:
                args += [self.anything() for _ in range(r.randint(0, 3))]
                continue
            if p.default is not p.empty and r.random() < 0.55:
                if p.kind is not p.KEYWORD_ONLY:
                    kwargs[p.name] = p.default
                continue
            if p.default is p.empty and r.random() < 0.003:
                continue
            # As many layers as are named are made, in any time.
            wrong = r.random() < spoil and "layers" not in p.name
            value = self.anything() if wrong else self.plausible(p)
            if p.default is p.empty and not kwargs and p.kind is not p.KEYWORD_ONLY:
                args.append(value)
            else:
                kwargs[p.name] = value
        if r.random() < 0.01:
            kwargs["unknown"] = 1
        return args, kwargs


# -- targets --------------------------------------------------------------------------
def targets() -> dict[str, Any]:
    """What is called, by name: functions, classes, and methods of Tensor."""
    found: dict[str, Any] = {}
    for module_name in MODULES:
        try:
            module = importlib.import_module(module_name)
        except ModuleNotFoundError:
            continue
        for name in module.__all__:
            value, full = getattr(module, name), f"{module_name}.{name}"
            if full in LEFT_OUT or not callable(value):
                continue
            if isinstance(value, (types.ModuleType, proa.dtype)):
                continue
            if isinstance(value, type) and issubclass(value, proa.Tensor):
                continue
            found[full] = value
    for name in dir(proa.Tensor):
        plain = not name.startswith("_") and name not in NO_METHODS
        if plain or (name.strip("_") in OPERATORS and name.startswith("__")):
            method = getattr(proa.Tensor, name)
            if callable(method):
                found[f"Tensor.{name}"] = method
    return found


#: What is called on an object that could be made, by the class that it is of.
USES: dict[type, tuple[str, ...]] = {
    proa.nn.Layer: ("__call__",),
    proa.optimizer.Optimizer: ("step", "clear_grad", "set_lr", "get_lr", "minimize"),
    proa.optimizer.lr.LRScheduler: ("step", "step", "get_lr", "set_state_dict"),
    proa.metric.Metric: ("compute", "update", "accumulate", "reset", "name"),
    proa.distribution.Distribution: (
        "sample", "log_prob", "entropy", "probs", "kl_divergence"
    ),
    proa.io.Sampler: ("__iter__", "__len__"),
    proa.io.BatchSampler: ("__iter__", "__len__"),
    proa.io.Dataset: ("__getitem__", "__len__", "__iter__"),
    proa.vision.transforms.BaseTransform: ("__call__",),
    proa.vision.transforms.Compose: ("__call__",),
    proa.nn.initializer.Initializer: ("__call__",),
}  # fmt: skip


def use(output: Any, arguments: Arguments) -> str:
    """Call the methods of an object that a call has made."""
    for kind, names in USES.items():
        if isinstance(output, kind):
            for name in names:
                method = getattr(output, name, None)
                if method is None:
                    continue
                target = output.forward if isinstance(output, proa.nn.Layer) else method
                args, kwargs = arguments.for_call(target)
                if isinstance(output, proa.nn.initializer.Initializer):
                    args, kwargs = [arguments.parameter()], {}
                result = method(*args, **kwargs)
                if inspect.isgenerator(result) or hasattr(result, "__next__"):
                    for _, _ in zip(range(5), result, strict=False):
                        pass
    return ""


def call(name: str, function: Any, r: random.Random) -> None:
    """One case: a call, a backward pass if it has one, uses of an object it makes."""
    arguments = Arguments(r)
    if name.startswith("Tensor."):
        args, kwargs = arguments.for_call(function)
        if args and not isinstance(args[0], proa.Tensor):
            args[0] = arguments.tensor()
        elif not args:
            args = [arguments.tensor()]
    else:
        args, kwargs = arguments.for_call(function)
    result = function(*args, **kwargs)
    if isinstance(function, type):
        use(result, arguments)
    elif r.random() < 0.5:
        for out in result if isinstance(result, (tuple, list)) else [result]:
            if isinstance(out, proa.Tensor) and not out.stop_gradient:
                out.backward(proa.ones(out.shape, out.dtype))
                break


# -- verdicts -------------------------------------------------------------------------
#: Python's own errors that a call may raise on purpose, where the text names the API.
ORDINARY = (
    ValueError, TypeError, IndexError, NotImplementedError, MemoryError, StopIteration,
)  # fmt: skip
#: Texts that come from the inside of Python or NumPy.
INSIDE = re.compile(
    r"list index out of range|tuple index out|could not be broadcast|division by zero"
    r"|object has no attribute|object is not (iterable|subscriptable|callable)"
    r"|unsupported operand|index out of range$|shape mismatch|not enough values"
    r"|too many values|invalid literal|not supported between|cannot be interpreted"
    r"|must be real number|\d+ is out of bounds for axis|cannot reshape array"
)

#: Texts of ValueErrors that say an object is of the wrong kind.
CONVERSION = re.compile(
    r"invalid literal|could not convert|setting an array element|truth value of an"
    r"|values? to unpack|math domain error"
)


def is_of_kinds(cause: BaseException | None) -> bool:
    """Whether Python or NumPy could not take an object for what it must be.

    Faults of values - ranks, sizes, indices - must be found by a check that names them.
    """
    if isinstance(cause, ValueError):
        return CONVERSION.search(str(cause)) is not None
    return isinstance(cause, (TypeError, AttributeError))


def is_of_the_caller(error: BaseException) -> bool:
    """Whether a function that was an argument raised the error."""
    frames = [f.f_code.co_filename for f, _ in traceback.walk_tb(error.__traceback__)]
    return __file__ in frames[4:]


def verdict(name: str, error: BaseException) -> str:
    """What is wrong with the exception, nothing if it is as errors should be."""
    text = str(error)
    if is_of_the_caller(error):
        return ""
    if isinstance(error, errors.Error):
        if isinstance(error, errors.FatalError):
            return "FatalError"
        if not re.match(r"\[[\w.]+[^\]]*\] ", text):
            return "names no API"
        if "expected the documented arguments" in text and not is_of_kinds(
            error.__cause__
        ):
            return f"unexplained {type(error.__cause__).__name__}"
        return "a text from inside" if INSIDE.search(text) else ""
    if name == "Tensor.__int__" and isinstance(error, OverflowError):
        return ""  # as int(float("inf")) raises it
    if type(error) not in ORDINARY:
        return f"type {type(error).__name__}"
    if re.match(r"[\w.<>]+\(\) (got|takes|missing)|expected \d argument", text):
        return ""  # Python names the function whose signature does not fit
    parts = [part for part in name.split(".") if part != "proa"]
    if parts[-1] in text or type(error) is StopIteration:
        return ""
    return f"{type(error).__name__} names no API"


def innermost(error: BaseException) -> str:
    """The last line of the library that the error passed through."""
    error = error.__cause__ or error
    here = os.path.dirname(proa.__file__)
    frames = traceback.extract_tb(error.__traceback__)
    for frame in reversed(frames):
        if frame.filename.startswith(here):
            return f"{os.path.relpath(frame.filename, here)}:{frame.lineno}"
    return "outside"


def run(first: int, count: int, only: str | None = None) -> None:
    """The cases from `first` on."""
    found = targets()
    names = [n for n in found if only is None or n == only]
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    quiet = io.StringIO()
    for number in range(first, first + count):
        name = names[number % len(names)]
        print(f"at {number} {name}", flush=True)
        proa.seed(number)
        faulthandler.dump_traceback_later(SECONDS, exit=True)
        try:
            with contextlib.redirect_stdout(quiet):
                call(name, found[name], random.Random(f"{name} {number}"))
        except Exception as error:
            wrong = verdict(name, error)
            if wrong:
                report = {
                    "case": number,
                    "target": name,
                    "wrong": wrong,
                    "text": f"{type(error).__name__}: {error}"[:400],
                    "cause": repr(error.__cause__)[:200],
                    "line": innermost(error),
                }
                print("failed", json.dumps(report), flush=True)
        proa.set_default_dtype("float32")
    faulthandler.cancel_dump_traceback_later()
    print("done", len(names), flush=True)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    os.chdir(tempfile.mkdtemp())
    run(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:4])
