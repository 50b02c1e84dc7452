"""proa.utils: unique names, deprecation, versions, cached weights, dlpack."""

from __future__ import annotations

import hashlib
import platform
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proa
from proa import nn, utils
from proa.errors import (
    InvalidArgumentError,
    PreconditionNotMetError,
    UnavailableError,
    VersionError,
)


def test_names_are_counted_by_key() -> None:
    with utils.unique_name.guard():
        results = [utils.unique_name.generate(k) for k in ("fc", "fc", "conv")]
        assert results == ["fc_0", "fc_1", "conv_0"]
        with utils.unique_name.guard("A"):
            assert utils.unique_name.generate("fc") == "Afc_0"
        assert utils.unique_name.generate("fc") == "fc_2"


def test_unique_name_guard_restarts_layer_names() -> None:
    names = []
    for _ in range(2):
        with utils.unique_name.guard():
            names.append([p.name for p in nn.Linear(2, 3).parameters()])
    assert names[0] == names[1]


def test_unique_name_switch_is_reversible() -> None:
    before = utils.unique_name.switch()
    try:
        assert utils.unique_name.generate("x") == "x_0"
        own = utils.unique_name.switch(before)
        utils.unique_name.switch(own)
        assert utils.unique_name.generate("x") == "x_1"
    finally:
        utils.unique_name.switch(before)


def test_deprecated_functions_warn() -> None:
    @utils.deprecated(update_to="proa.new", since="2.0", reason="it is slow")
    def old(x: int) -> int:
        """Doubles x."""
        return 2 * x

    with pytest.warns(DeprecationWarning, match=r"old is deprecated since 2.0; use"):
        assert old(2) == 4
    assert "Doubles x." in str(old.__doc__)
    assert old.__name__ == "old"

    @utils.deprecated(level=2)
    def gone() -> None:
        pass

    with pytest.raises(RuntimeError, match="gone is deprecated"):
        gone()


@pytest.mark.feature("L345")
@pytest.mark.parametrize("is_static", [False, True])
def test_the_check_of_the_installation_runs(is_static: bool, capsys: Any) -> None:
    try:
        if is_static:
            proa.enable_static()
        with pytest.warns(UserWarning, match=r"\[run_check\] no GPU"):
            utils.run_check()
        assert proa.in_dynamic_mode() != is_static
    finally:
        proa.disable_static()
    printed = capsys.readouterr().out
    assert f"NumPy {np.__version__}" in printed
    for part in ("one training step", "one recorded program", "one static program"):
        assert part in printed


@pytest.mark.feature("L345")
@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ("proa.optimizer.SGD.step", "a training step must subtract"),
        ("proa.static.Executor.run", "two steps of a static program must lower"),
    ],
)
@pytest.mark.filterwarnings("ignore:.run_check. no GPU")
def test_the_check_finds_a_step_that_does_nothing(
    broken: str, message: str, monkeypatch: Any
) -> None:
    monkeypatch.setattr(broken, lambda *_, **__: [np.float32(1)])
    with pytest.raises(PreconditionNotMetError, match=message):
        utils.run_check()
    assert proa.in_dynamic_mode()


def test_the_version_is_shown_with_what_it_runs_on(capsys: Any) -> None:
    proa.version.show()
    facts = dict(line.split(": ", 1) for line in capsys.readouterr().out.splitlines())
    assert facts["full_version"] == proa.__version__
    assert (facts["cuda"], facts["cudnn"]) == ("False", "False")
    assert facts["isa"] in facts["built for"].split()
    assert facts["gpu"] == "none that this build can use"
    assert facts["machine"].startswith(platform.machine())


def test_versions_are_required() -> None:
    utils.require_version("2.0")
    utils.require_version("2.1.0", "2.1.3")
    with pytest.raises(VersionError, match=r"at least 3\.0"):
        utils.require_version("3.0")
    with pytest.raises(VersionError, match=r"at most 2\.0"):
        utils.require_version("1.8", "2.0")
    with pytest.raises(InvalidArgumentError, match="must have the form"):
        utils.require_version("two")
    with pytest.raises(InvalidArgumentError, match="max_version must be at least"):
        utils.require_version("2.1", "2.0")


def test_modules_are_tried() -> None:
    assert utils.try_import("math").pi > 3
    with pytest.raises(ImportError, match="no_such_module_ever is not installed"):
        utils.try_import("no_such_module_ever")
    with pytest.raises(ImportError, match="own words"):
        utils.try_import("no_such_module_ever", "own words")


def test_weights_are_read_only_from_the_cache(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("PROA_HOME", str(tmp_path))
    url = "https://example.org/models/net.pdparams"
    take = utils.download.get_weights_path_from_url
    with pytest.raises(UnavailableError, match=r"no such file: .*net\.pdparams"):
        take(url)
    file = tmp_path / "weights" / "net.pdparams"
    file.parent.mkdir()
    file.write_bytes(b"weights")
    assert take(url) == str(file)
    assert take(url, hashlib.md5(b"weights").hexdigest()) == str(file)
    with pytest.raises(InvalidArgumentError, match="MD5 sum"):
        take(url, "0" * 32)
    assert take(file.as_uri()) == str(file)


def test_dlpack_shares_memory() -> None:
    x = proa.to_tensor([1.0, 2.0])
    y = utils.dlpack.from_dlpack(utils.dlpack.to_dlpack(x))
    y[0] = 5.0
    np.testing.assert_array_equal(x.numpy(), [5.0, 2.0])
