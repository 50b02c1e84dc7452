"""The package installs by itself next to `proa` alone."""

import re
import subprocess
import sys
from importlib.metadata import files, requires

import pytest

PROGRAM = """
import sys
import numpy as np
import proa
assert "proa_slim" not in sys.modules
import proa_slim
net = proa.nn.Sequential(proa.nn.Linear(4, 8), proa.nn.ReLU(), proa.nn.Linear(8, 2))
spec = [proa.static.InputSpec([None, 4], "float32", "x")]
data = np.random.default_rng(0).standard_normal((32, 4)).astype("float32")
proa_slim.quant_post_static(net, spec, [data])(data)
proa_slim.prune_channels(net, spec, 0.5)
print(*sorted({name.split(".")[0] for name in sys.modules}))
"""


@pytest.mark.feature("L506")
def test_it_installs_apart_from_the_framework_and_needs_it_alone():
    needed = [line for line in requires("proa-slim") or [] if "extra ==" not in line]
    names = {re.split(r"[^\w-]", line)[0] for line in needed}
    assert names == {"numpy", "proa"}
    framework = {path.parts[0] for path in files("proa") or []}
    own = {path.parts[0] for path in files("proa-slim") or []}
    assert "proa_slim" in own
    assert not {name for name in framework & own if not name.startswith("..")}


@pytest.mark.feature("L506")
def test_compression_imports_no_sibling():
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    imported = {name for name in run.stdout.split() if name.startswith("proa")}
    assert imported == {"proa", "proa_slim"}
