"""The programs in C and C++ of docs/inference.md compile and run."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import proa
import proa_inference
from proa import nn
from proa.static import InputSpec

PAGE = Path(__file__).parents[2] / "docs" / "inference.md"
FOLDER = Path(proa_inference.__file__).parent
PROGRAM = """
#include <stdio.h>
{includes}
int main(void) {{
  {given}
  {body}
  {shown}
  return 0;
}}
"""
LINKED = [
    f"-I{FOLDER / 'include'}",
    f"-L{FOLDER / 'lib'}",
    f"-Wl,-rpath,{FOLDER / 'lib'}",
    "-lproa_inference",
]


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(), re.M | re.S)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, np.ndarray]:
    """The model of the page, and its first result for rows of ones."""
    proa.seed(2)
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    net.eval()
    path = tmp_path_factory.mktemp("page") / "net.proa"
    spec = [InputSpec([None, 4], "float32", "x")]
    proa.jit.save(net, path, spec, output_names=["y"])
    return path, net(proa.ones([3, 4])).numpy()


@pytest.mark.parametrize(
    ("language", "compiler", "given", "shown"),
    [
        (
            "c",
            ["cc", "-std=c99"],
            "float pixels[12]; for (int i = 0; i < 12; ++i) pixels[i] = 1.0f;",
            "",
        ),
        (
            "cpp",
            ["c++", "-std=c++14"],
            "std::vector<float> values(12, 1.0f);",
            'for (float v : y) printf("%.9g\\n", v);',
        ),
    ],
)
def test_the_programs_of_the_page_run(
    language: str,
    compiler: list[str],
    given: str,
    shown: str,
    model: tuple[Path, np.ndarray],
    tmp_path: Path,
) -> None:
    if shutil.which(compiler[0]) is None:
        pytest.skip(f"needs {compiler[0]}")
    path, want = model
    first, *others = blocks(language)
    lines = first.splitlines()
    includes = [line for line in lines if line.startswith("#include")]
    if language == "c":
        includes = ["#include <proa_inference.h>"]
        show = 'for (int i = 0; i < 6; ++i) printf("%.9g\\n", ((float*)out.data)[i]);'
        # What a run gave is the predictor's, so that it is printed before its end.
        lines = [
            f"{show}\n  {line}" if "proa_predictor_free" in line else line
            for line in lines
        ]
    body = "\n  ".join(line for line in lines if not line.startswith("#include"))
    text = PROGRAM.format(
        includes="\n".join(includes), given=given, body=body, shown=shown
    )
    for i, other in enumerate(others):  # further ones follow from the first
        text = text.replace("  return 0;", f"  {{\n{other}  }}\n  return 0;")
        assert i < 2
    source = tmp_path / f"page.{language}"
    source.write_text(text)
    program = tmp_path / "page"
    command = [*compiler, "-Wall", "-Werror", str(source), *LINKED, "-o", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    done = subprocess.run(
        [program], cwd=path.parent, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    printed = np.array(done.stdout.split(), np.float32)
    np.testing.assert_allclose(printed, want.ravel(), rtol=1e-5, atol=1e-6)
