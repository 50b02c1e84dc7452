"""`import paddle` gives Proa's own modules, by the package and by the function."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "src"
INSTALL = "import proa; proa.install_as_paddle()\n"
PROGRAM = """
import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle import ParamAttr, Tensor
from paddle.io import DataLoader, Dataset
from paddle.nn import Conv2D, Linear
from paddle.optimizer.lr import CosineAnnealingDecay
from paddle.vision.transforms import Compose, Normalize

class Numbers(Dataset):
    def __getitem__(self, i):
        return paddle.to_tensor([float(i), 1.0]), paddle.to_tensor([3.0 * i + 2.0])

    def __len__(self):
        return 8

class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.line = Linear(2, 1, weight_attr=ParamAttr(name="slope"))

    def forward(self, x):
        return self.line(x)

paddle.seed(1)
net = Net()
rate = CosineAnnealingDecay(0.02, T_max=400)
steps = paddle.optimizer.Adam(0.1, parameters=net.parameters())
for _ in range(150):
    for x, y in DataLoader(Numbers(), batch_size=8):
        loss = F.mse_loss(net(x), y)
        loss.backward()
        steps.step()
        steps.clear_grad()
assert float(loss) < 0.5, float(loss)

import proa, proa.nn.functional
assert paddle is proa and nn is proa.nn and F is proa.nn.functional
assert sys.modules["paddle.nn.functional"] is sys.modules["proa.nn.functional"]
assert Linear is proa.nn.Linear and issubclass(Net, proa.nn.Layer)
assert isinstance(x, Tensor) and Tensor is proa.Tensor
assert proa.nn.__spec__.name == "proa.nn" and proa.__spec__.name == "proa"
assert proa.nn.__name__ == "proa.nn"
assert paddle.vision.models.resnet18 is proa.vision.models.resnet18  # no import
"""


def run(program: str, with_package: bool) -> subprocess.CompletedProcess[str]:
    """The program in an interpreter of its own."""
    begin = f"import sys\nsys.path.insert(0, {str(PACKAGE)!r})\n"
    begin = begin if with_package else f"import sys\n{INSTALL}"
    code = begin + textwrap.dedent(program)
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("with_package", [True, False])
def test_a_program_that_imports_paddle_runs(with_package: bool) -> None:
    done = run(PROGRAM, with_package)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("with_package", [True, False])
def test_what_is_not_there_is_said(with_package: bool) -> None:
    program = """
        import importlib
        for name in ("paddle.fluid", "paddle.fluid.layers", "paddle.nn.missing"):
            try:
                importlib.import_module(name)
            except ModuleNotFoundError as error:
                print(error.name, error)
        import paddle
        assert not hasattr(paddle, "fluid")
        """
    done = run(program, with_package)
    assert done.returncode == 0, done.stderr
    first, second, third = done.stdout.splitlines()
    assert "`proa migrate` rewrites programs of it" in first
    assert second.startswith("paddle.fluid ") and third.startswith("paddle.nn.missing ")
    assert "Proa has no proa.nn.missing" in third


def test_every_submodule_is_the_same_object() -> None:
    program = """
        import pkgutil, importlib
        import paddle, proa
        names = []
        for found in pkgutil.walk_packages(proa.__path__, "proa."):
            parts = found.name.split(".")
            private = any(part.startswith("_") for part in parts)
            extra = {"onnx", "migrate"} & set(parts)  # these need further packages
            if not private and len(parts) <= 3 and not extra:
                names.append(found.name)
        for name in names:
            other = importlib.import_module("paddle" + name.removeprefix("proa"))
            assert other is sys.modules[name], name
        assert len(names) > 100
        """
    done = run(program, with_package=True)
    assert done.returncode == 0, done.stderr


def test_another_paddle_that_is_imported_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "paddle.py").write_text("real = True\n")
    program = f"""
        sys.path.insert(0, {str(tmp_path)!r})
        import paddle, proa
        from proa.errors import AlreadyExistsError
        try:
            proa.install_as_paddle()
        except AlreadyExistsError as error:
            print(error)
        assert paddle.real and sys.modules["paddle"] is paddle
        """
    done = subprocess.run(
        [sys.executable, "-c", "import sys\n" + textwrap.dedent(program)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "paddle.py" in done.stdout


def test_import_proa_alone_installs_no_alias() -> None:
    program = """
        import importlib.util, sys
        import proa
        assert "paddle" not in sys.modules and "proa.alias" not in sys.modules
        assert not any("alias" in type(f).__module__ for f in sys.meta_path)
        """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], check=False,
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
