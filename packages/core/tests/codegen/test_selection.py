"""Tables of runtimes that hold less than everything."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

CORE = Path(__file__).resolve().parents[2]


def generate(folder: Path, *options: str) -> None:
    command = [sys.executable, CORE / "codegen", "--out", folder, *options]
    subprocess.run(list(map(str, command)), check=True)


def dtype_masks(folder: Path) -> dict[str, int]:
    text = (folder / "op_table.cc").read_text()
    rows = re.findall(r'\{"(\w+)".*?(0x[0-9a-f]+),', text)
    return {name: int(mask, 16) for name, mask in rows}


def test_a_build_of_fewer_dtypes_admits_no_others_where_it_computes(tmp_path: Path):
    float32_and_int8 = 1 << 8 | 1 << 2
    generate(tmp_path, "--ops", "relu,linear,concat", "--dtypes", hex(float32_and_int8))
    masks = dtype_masks(tmp_path)
    assert masks["linear"] == 1 << 8
    assert masks["relu"] == float32_and_int8
    assert masks["concat"] == 0xFFF  # it only moves elements


def test_the_dot_product_table_leaves_the_rest_to_plain_neon(tmp_path: Path):
    ops = "relu,linear,linear_int8,conv2d_int8"
    generate(tmp_path, "--ops", ops, "--isas", "neon,neondot")
    held = {
        isa: re.findall(r"^    \{(\w+),", path.read_text(), re.M)
        for isa in ("neon", "neondot")
        for path in [tmp_path / f"kernel_table_{isa}.cc"]
    }
    assert sorted(held["neon"]) == sorted(ops.split(","))
    assert sorted(held["neondot"]) == ["conv2d_int8", "linear_int8"]
