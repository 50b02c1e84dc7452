"""What the wheel requires of a machine: size, dependencies and versions of Python."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import zipfile
from importlib import metadata

import pytest
from packaging.specifiers import SpecifierSet

try:
    WHEEL = metadata.distribution("proa")
except metadata.PackageNotFoundError:  # a source tree on the path
    pytest.skip("proa is not installed", allow_module_level=True)

#: What Paddle's packages once needed and no longer do.
GIVEN_UP = ("nltk", "cv2", "scipy", "rarfile", "prettytable", "pathlib2", "matplotlib",
            "graphviz", "objgraph")  # fmt: skip


def needed() -> list[str]:
    """Names of the distributions that pip installs with proa, extras left out."""
    lines = [line for line in WHEEL.requires or () if "extra ==" not in line]
    return [re.split(r"[^\w-]", line)[0] for line in lines]


@pytest.mark.feature("L334", how="figure")
@pytest.mark.feature("L340", how="figure")
def test_numpy_is_the_one_dependency() -> None:
    assert needed() == ["numpy"]


@pytest.mark.feature("L340", how="figure")
def test_no_package_that_was_given_up_is_imported() -> None:
    """Each is made impossible to import, then a network is trained and evaluated."""
    program = f"""
import sys
sys.modules.update(dict.fromkeys({GIVEN_UP}))
import numpy as np
import proa, proa.text, proa.vision.models, proa.vision.transforms, proa.static
class Pairs(proa.io.Dataset):
    def __getitem__(self, i):
        return np.full([4], i, "float32"), np.array([i % 2])
    def __len__(self):
        return 8
model = proa.Model(proa.nn.Linear(4, 2))
model.prepare(proa.optimizer.Adam(0.01, parameters=model.parameters()),
              proa.nn.CrossEntropyLoss(), proa.metric.Accuracy())
model.fit(Pairs(), batch_size=4, epochs=2, verbose=0)
print(sorted(model.evaluate(Pairs(), verbose=0)))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["['acc',", "'loss']"]


@pytest.mark.feature("L333", how="mechanism")
def test_the_package_is_smaller_than_the_small_one_of_paddle() -> None:
    """37 MB was the wheel for Linux without AVX, slim and data sets; 10 is our budget.

    The kernels of every instruction set are in it. Packed here as a wheel is.
    """
    files = [f for f in WHEEL.files or () if "__pycache__" not in f.parts]
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in files:
            archive.write(str(file.locate()), str(file))
    names = {str(f) for f in files}
    assert any(n.endswith("libproa_runtime.so") for n in names)
    assert not any(n.startswith("proa_slim") for n in names)
    assert packed.tell() < 10_000_000


@pytest.mark.feature("L337")
def test_old_pythons_are_refused_by_pip() -> None:
    accepted = SpecifierSet(WHEEL.metadata["Requires-Python"])
    assert not {"2.7", "3.5", "3.9"} & set(accepted.filter(["2.7", "3.5", "3.9"]))
    assert ".".join(map(str, sys.version_info[:3])) in accepted
    listed = set(WHEEL.metadata.get_all("Classifier") or ())
    for minor in range(10, 15):
        assert f"3.{minor}" in accepted
        assert f"Programming Language :: Python :: 3.{minor}" in listed
