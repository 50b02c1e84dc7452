"""Generates C++ from the operator table: ``python codegen --out DIR --isas scalar,avx2``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import emit_grads  # noqa: E402
import emit_host  # noqa: E402
import emit_structs  # noqa: E402
import emit_tables  # noqa: E402
from rows import load  # noqa: E402


def write(path: Path, text: str) -> None:
    """Write only what changed, so that nothing is compiled again in vain."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def main() -> None:
    """Parse the command line and write every file of the chosen parts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--isas", default="scalar")
    parser.add_argument("--ops", help="only these ops (comma-separated): a selected runtime")
    parser.add_argument("--lite", action="store_true", help="only the mobile runtime's ops")
    parser.add_argument("--host", action="store_true", help="also the eager engine's files")
    parser.add_argument("--kernels", type=Path, help="leave out kernels not found below here")
    options = parser.parse_args()
    every = list(load().values())
    rows = every
    if options.lite:
        rows = [row for row in rows if row.lite]
    if options.ops is not None:
        chosen = set(filter(None, options.ops.split(",")))
        unknown = chosen - {row.name for row in rows}
        if unknown:
            raise SystemExit(f"codegen: no such ops: {', '.join(sorted(unknown))}")
        rows = [row for row in rows if row.name in chosen]
    defined = None
    if options.kernels:
        defined = emit_tables.defined_functions(options.kernels.rglob("*.cc"))
    # Sources of all ops are compiled, so declarations are complete; the tables are not.
    out, headers = options.out, options.out / "include" / "proa" / "gen"
    write(headers / "attrs.h", emit_structs.attrs_header(every))
    write(headers / "op_ids.h", emit_structs.op_ids_header(rows))
    write(headers / "shapes.h", emit_tables.shapes_header(every))
    write(headers / "kernels.h", emit_tables.kernels_header(every))
    write(out / "op_table.cc", emit_tables.op_table(rows))
    isas = options.isas.split(",")
    for isa in isas:
        write(out / f"kernel_table_{isa}.cc", emit_tables.kernel_table(rows, isa, defined))
    write(out / "isa_table.cc", emit_tables.isa_table(isas))
    if options.host:
        write(headers / "ops.h", emit_host.ops_header(rows))
        write(out / "ops.cc", emit_host.ops_source(rows))
        write(out / "host_table.cc", emit_host.host_table(rows))
        write(out / "grads.cc", emit_grads.grads({row.name: row for row in rows}))


if __name__ == "__main__":
    main()
