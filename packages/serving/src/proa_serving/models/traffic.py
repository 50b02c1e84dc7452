"""Splits requests between versions: A/B tests, canaries and shadows."""

from __future__ import annotations

import asyncio
import hashlib
import random
import time
from bisect import bisect_right
from collections.abc import Mapping
from itertools import accumulate
from typing import Any

import numpy as np

from proa_serving.models.served import Served
from proa_serving.models.settings import Traffic
from proa_serving.protocol.answers import Answer
from proa_serving.protocol.errors import InvalidRequestError, ServingError
from proa_serving.protocol.messages import InferRequest, InferResponse, Tensor

# Copies that are in progress at one time; more would compete with real requests.
_MAX_SHADOWS = 8
_POINTS = 2**53


class Split:
    """Answers requests that name no version by one that the settings choose.

    Args:
        name: The model's.
        traffic: Shares by version.
        versions: The versions that are loaded. One that is not gets no share.
    """

    def __init__(
        self, name: str, traffic: Traffic, versions: Mapping[str, Served]
    ) -> None:
        self._name, self._traffic, self._versions = name, traffic, versions
        shares = {
            version: share
            for version, share in traffic.weights.items()
            if version in versions and share > 0
        }
        if not shares:
            shares = {max(versions, key=int): 1.0}
        self._chosen = [versions[version] for version in shares]
        total = sum(shares.values())
        self._ends = [end / total for end in accumulate(shares.values())]
        self._shadow = versions.get(traffic.shadow)
        self.report = ShadowReport(traffic.shadow) if traffic.shadow else None
        self._running: set[asyncio.Task[None]] = set()

    def choose(self, request: InferRequest) -> Served:
        """The version for ``request``: by its header, its key, or chance.

        Raises:
            InvalidRequestError: If its header names a version that is not served.
        """
        traffic = self._traffic
        if traffic.header:
            named = request.hint(traffic.header)
            if named:
                held = self._versions.get(named)
                if held is None:
                    raise InvalidRequestError(
                        f"model {self._name}",
                        f"{traffic.header} must be one of {list(self._versions)}, "
                        f"got {named!r:.40}",
                    )
                return held
        key = request.hint(traffic.sticky) if traffic.sticky else ""
        at = bisect_right(
            self._ends, _point(self._name, key) if key else random.random()
        )
        return self._chosen[min(at, len(self._chosen) - 1)]

    def infer(self, request: InferRequest, protocol: str) -> Answer:
        held = self.choose(request)
        shadow = self._shadow
        if (
            shadow is None
            or shadow is held
            or random.random() >= self._traffic.share
            or request.parameters.get("sequence_id")
        ):
            return held.infer(request, protocol)
        return self._infer_twice(held, shadow, request, protocol)

    async def _infer_twice(
        self, held: Served, shadow: Served, request: InferRequest, protocol: str
    ) -> InferResponse:
        assert self.report is not None
        copied = None
        if len(self._running) < _MAX_SHADOWS:
            # What arrived is in a buffer that is used again after the answer.
            copied = [
                Tensor(each.name, each.datatype, each.array.copy())
                for each in request.inputs
            ]
        else:
            self.report.left_out += 1
        began = time.monotonic()
        answer = held.infer(request, protocol)
        response = answer if isinstance(answer, InferResponse) else await answer
        if copied is not None:
            seconds = time.monotonic() - began
            # Own arrays, as those of an answer may be views of what is reused.
            outputs = {each.name: each.array.copy() for each in response.outputs}
            task = asyncio.create_task(
                self._compare(shadow, copied, request, outputs, seconds)
            )
            self._running.add(task)
            task.add_done_callback(self._running.discard)
        return response

    async def _compare(
        self,
        shadow: Served,
        inputs: list[Tensor],
        request: InferRequest,
        outputs: Mapping[str, Any],
        seconds: float,
    ) -> None:
        assert self.report is not None
        copy = InferRequest(
            self._name,
            inputs,
            shadow.version,
            outputs=request.outputs,
            binary_output=True,
        )
        began = time.monotonic()
        try:
            answer = shadow.infer(copy, "shadow")
            response = answer if isinstance(answer, InferResponse) else await answer
        except ServingError as error:
            self.report.failed(str(error))
            return
        self.report.compare(
            outputs, response.as_dict(), seconds, time.monotonic() - began
        )


def _point(name: str, key: str) -> float:
    """0 to 1, the same for one key on every server."""
    digest = hashlib.blake2b(f"{name}\0{key}".encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "little") >> 11) / _POINTS


class ShadowReport:
    """How a shadow's answers differ from those that were given.

    For each output: answers of another shape or datatype, equal ones, the largest
    absolute difference, and how many rows have the same index of their largest element.
    """

    def __init__(self, version: str) -> None:
        self.version = version
        self.compared = self.failures = self.left_out = 0
        self.last_failure = ""
        self.seconds = [0.0, 0.0]  # of the answers that were given, and of the shadow's
        self.outputs: dict[str, dict[str, float]] = {}

    def failed(self, why: str) -> None:
        self.failures += 1
        self.last_failure = why[:500]

    def compare(
        self,
        given: Mapping[str, Any],
        shadow: Mapping[str, Any],
        seconds: float,
        shadow_seconds: float,
    ) -> None:
        """Count one pair of answers."""
        self.compared += 1
        self.seconds[0] += seconds
        self.seconds[1] += shadow_seconds
        for name, want in given.items():
            held = self.outputs.setdefault(
                name,
                {
                    "equal": 0,
                    "mismatched": 0,
                    "max_abs_difference": 0.0,
                    "rows": 0,
                    "same_argmax": 0,
                },
            )
            got = shadow.get(name)
            if got is None or got.shape != want.shape or got.dtype != want.dtype:
                held["mismatched"] += 1
                continue
            held["equal"] += bool(np.array_equal(got, want))
            if want.dtype.kind not in "fiu" or not want.size:
                continue
            difference = np.abs(want.astype(np.float64) - got.astype(np.float64))
            held["max_abs_difference"] = max(
                held["max_abs_difference"], float(np.nanmax(difference, initial=0.0))
            )
            if want.ndim > 1:
                same = want.argmax(-1) == got.argmax(-1)
                held["rows"] += same.size
                held["same_argmax"] += int(same.sum())

    def to_json(self) -> dict[str, Any]:
        count = max(1, self.compared)
        return {
            "version": self.version,
            "compared": self.compared,
            "failures": self.failures,
            "last_failure": self.last_failure,
            "left_out": self.left_out,
            "mean_seconds": self.seconds[0] / count,
            "shadow_mean_seconds": self.seconds[1] / count,
            "outputs": self.outputs,
        }
