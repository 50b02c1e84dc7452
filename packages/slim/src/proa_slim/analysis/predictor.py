"""`TableLatencyPredictor`: times of model files as sums of their operators' times."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path

from proa import static
from proa.errors import InvalidArgumentError, NotFoundError
from proa.ir import file
from proa.ir.passes import optimize
from proa.ir.program import Program
from proa_slim.analysis.latency import single_operators
from proa_slim.analysis.times import TimesFile, bench
from proa_slim.loading import LoadedNetwork, load, of_network

__all__ = ["TableLatencyPredictor"]

_WHERE = "TableLatencyPredictor"


class TableLatencyPredictor:
    """Milliseconds of model files from a table of operators' times.

        predictor = TableLatencyPredictor("operators.json")
        predictor.predict("net.proa")

    Each operator of the optimized graph is a row, ``linear(float32[1, 64], ...)``. What
    is not in the table is measured once, alone, by ``proa-infer bench``, and the file
    is replaced after each measurement. A sum leaves out what operators share, and has
    the few microseconds of a run for each of them.

    Args:
        table_file: A JSON file, which need not exist; None keeps the table in memory.
        threads: Number of threads of a run.
        runs: Number of runs, of which the median counts.

    Raises:
        InvalidArgumentError: If the file is no table, or of another processor or number
            of threads.
    """

    def __init__(
        self,
        table_file: str | PathLike[str] | None = None,
        threads: int = 1,
        runs: int = 50,
    ) -> None:
        self._file = TimesFile(_WHERE, table_file, threads)
        self.threads, self.runs = threads, runs

    @property
    def times(self) -> Mapping[str, float]:
        """Milliseconds by operator."""
        return self._file.times

    def predict(
        self,
        model_file: str | PathLike[str],
        param_file: str | PathLike[str] | None = None,
        data_type: str = "fp32",
        threads: int | None = None,
        input_shape: Sequence[int] | None = None,
    ) -> float:
        """The sum of the operators' times.

        Args:
            model_file: ``NAME.proa``, ``NAME.onnx``, ``NAME.pdmodel`` or a folder.
            param_file: The parameters of a Paddle model, if not named like it.
            data_type: Has no meaning here: operators have the types of the file.
            threads: That of the table, if given.
            input_shape: Of a model with one input, if sizes are symbolic; those are 1
                if it is not given.

        Raises:
            NotFoundError: If there is no such file.
            InvalidArgumentError: If threads is another number than the table's, or
                there are several inputs.
            UnavailableError: If proa-inference is not installed.
        """
        if threads not in (None, self.threads):
            raise InvalidArgumentError(
                f"[{_WHERE}] expected threads={self.threads}, of which the table is, "
                f"got {threads}"
            )
        program = _program(model_file, param_file)
        if input_shape is not None:
            program = _shaped(program, input_shape)
        optimize(program, 3)
        return sum(self._time(alone) for alone in single_operators(program))

    def op_predictor(
        self, op_type: str, param_key: str, data_type: str = "fp32"
    ) -> float:
        """Milliseconds of one row of the table.

        Args:
            op_type: The operator.
            param_key: What is in brackets in its row.
            data_type: Has no meaning here; param_key has the types.

        Raises:
            NotFoundError: If there is no such row.
        """
        key = f"{op_type}({param_key})"
        if key not in self.times:
            raise NotFoundError(
                f"[{_WHERE}] expected an operator of the table, got {key}"
            )
        return self.times[key]

    def _time(self, alone: Program) -> float:
        key = _key(alone)
        if key not in self.times:
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "operator.proa")
                file.write(alone, path)
                self._file.note(key, bench(path, threads=self.threads, runs=self.runs))
        return self.times[key]


def _program(
    model_file: str | PathLike[str], param_file: str | PathLike[str] | None
) -> Program:
    if param_file is None:
        return load(model_file, _WHERE)
    path = Path(model_file)
    program: Program = static.load_inference_model(
        str(path.parent), model_filename=path.name,
        params_filename=os.path.relpath(param_file, path.parent),
    )[0]  # fmt: skip
    return program


def _shaped(program: Program, shape: Sequence[int]) -> Program:
    network = LoadedNetwork(program)
    specs = network.specs()
    if len(specs) != 1:
        raise InvalidArgumentError(
            f"[{_WHERE}] expected a model with one input for input_shape, got "
            f"{len(specs)}"
        )
    given = static.InputSpec(list(shape), specs[0].dtype, specs[0].name)
    return of_network(network, [given])


def _key(alone: Program) -> str:
    """The operator with the types of its inputs instead of their names."""
    call = str(alone).splitlines()[-2].partition(" = ")[2]
    for value in (*alone.constants(), *alone.main.inputs):
        of_type = f"{value.dtype}{list(value.shape)}"
        call = re.sub(rf"%{re.escape(value.name)}\b", of_type, call)
    return call
