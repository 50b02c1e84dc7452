"""Generates files from the operator table.

``python codegen --out DIR --isas scalar,avx2`` writes the C++ tables that runtimes
need, ``--host`` adds those of the eager engine, ``--python DIR`` writes the package
`proa.ops` and the stubs of `proa._core.ops` and of Tensor's methods below DIR, the
folder of `proa`; ``--docs DIR`` writes a reference page for each family.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import emit_docs
import emit_grads
import emit_host
import emit_public
import emit_structs
import emit_stubs
import emit_tables
from rows import load

if TYPE_CHECKING:
    from proa.schema.row import Row


def write(path: Path, text: str) -> None:
    """Write only what changed, so that nothing is compiled again in vain."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def portable(rows: list[Row], options: argparse.Namespace) -> None:
    """What every runtime links."""
    out, isas, kernels = options.out, options.isas.split(","), options.kernels
    headers = out / "include" / "proa" / "gen"
    defined = None
    if kernels:
        defined = emit_tables.defined_functions(kernels.rglob("*.cc"))
    # Sources are compiled whole, whatever the selection: headers know every row.
    every = list(load().values())
    for name, text in emit_structs.attrs_headers(every).items():
        write(headers / name, text)
    write(headers / "shapes.h", emit_tables.shapes_header(every))
    write(headers / "kernels.h", emit_tables.kernels_header(every))
    write(headers / "op_ids.h", emit_structs.op_ids_header(rows))
    write(out / "op_table.cc", emit_tables.op_table(rows, options.dtypes))
    for isa in isas:
        table = emit_tables.kernel_table(rows, isa, defined)
        write(out / f"kernel_table_{isa}.cc", table)
    write(out / "isa_table.cc", emit_tables.isa_table(isas))
    write(out / "kernel_folders.cmake", emit_tables.kernel_folders(every))


def host(rows: list[Row], out: Path) -> None:
    """What the eager engine links besides."""
    write(out / "include" / "proa" / "gen" / "ops.h", emit_host.ops_header(rows))
    write(out / "ops.cc", emit_host.ops_source(rows))
    write(out / "host_table.cc", emit_host.host_table(rows))
    write(out / "grads.cc", emit_grads.grads({row.name: row for row in rows}))


def python(rows: list[Row], out: Path) -> None:
    """What the Python package holds."""
    write(out / "_core" / "ops.pyi", emit_stubs.stubs(rows))
    write(out / "_core" / "methods.pyi", emit_stubs.method_stubs(rows))
    for name, text in emit_public.package(rows).items():
        write(out / "ops" / name, text)


def selected(options: argparse.Namespace) -> list[Row]:
    """The rows that the command line selects."""
    rows = [row for row in load().values() if row.lite or not options.lite]
    if options.ops is None:
        return rows
    chosen = set(filter(None, options.ops.split(",")))
    unknown = chosen - {row.name for row in rows}
    if unknown:
        raise SystemExit(f"codegen: no such ops: {', '.join(sorted(unknown))}")
    return [row for row in rows if row.name in chosen]


def main() -> None:
    """Parse the command line and write every file of the chosen parts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="folder of the C++ files")
    parser.add_argument("--isas", default="scalar", help="comma-separated")
    parser.add_argument("--ops", help="only these ops, comma-separated")
    parser.add_argument(
        "--dtypes",
        type=partial(int, base=0),
        default=emit_tables.EVERY_DTYPE,
        help="those that kernels compute in: bit i for dtype number i",
    )
    parser.add_argument("--lite", action="store_true", help="only the mobile ops")
    parser.add_argument("--host", action="store_true", help="also for the eager engine")
    parser.add_argument("--kernels", type=Path, help="omit kernels not found here")
    parser.add_argument("--python", type=Path, help="folder of the package proa")
    parser.add_argument("--docs", type=Path, help="folder for the reference pages")
    options = parser.parse_args()
    rows = selected(options)
    if options.out:
        portable(rows, options)
    if options.out and options.host:
        host(rows, options.out)
    if options.python:
        python(rows, options.python)
    if options.docs:
        for name, text in emit_docs.pages(rows).items():
            write(options.docs / name, text)


if __name__ == "__main__":
    main()
