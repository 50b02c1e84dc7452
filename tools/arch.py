"""Check the architecture: who may import and include whom, file names and lengths.

    python tools/arch.py [--no-imports] [--library PATH ...]

Prints one line for each breach and exits with 1 if there is any. The layers are those
of docs/architecture.md; Python's are contracts in the root pyproject.toml,
read by import-linter, C++'s are the table ALLOWED below.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent

LINES = {".py": 500, **dict.fromkeys((".cc", ".h", ".hpp", ".c", ".inc"), 600)}
FUNCTION_LINES = 60
MARKDOWN_COLUMNS = 120  # of sentences; ruff and clang-format see to the lines of code
VAGUE_NAMES = {"util", "utils", "misc", "common", "helper", "helpers", "stuff"}
# Directories whose files may be long (tables of cases) or are not ours.
UNLIMITED = ("tests", "tests-integration")

# Pages that a program writes, or to which entries are added.
GENERATED_PAGES = ("docs/features.md", "docs/migration-names.md", "CHANGELOG.md")
# Blocks of Markdown with lines of their own length: code, and figures that are written.
UNWRAPPED = re.compile(r"^ *```.*?^ *```|^<!-- figures.*?^<!-- end of", re.M | re.S)

# A C++ component is the directory after csrc/portable, csrc/host or csrc; `gen` and
# `gen-train` are the generated headers below and above the tape, `gen-all` those that
# change with every new row: the many kernel files do not depend on them.
PORTABLE = ("base", "simd", "kernels", "shapes", "model", "exec")
GENERATED = {
    "ops.h": "gen-train",
    "attrs.h": "gen-all",
    "kernels.h": "gen-all",
    "op_ids.h": "gen-all",
}
_KERNELS = {"base", "simd", "kernels", "gen"}
_EXEC = {*PORTABLE, "gen", "gen-all"}
_HOST = {*_EXEC, "runtime"}
_TRAIN = {*_HOST, "train", "gen-train"}
ALLOWED: dict[str, set[str]] = {
    "base": {"base", "gen"},
    "simd": {"base", "simd"},
    "kernels": _KERNELS,
    "shapes": {"base", "shapes", "gen"},
    "model": {*_KERNELS, "shapes", "model"},
    "exec": _EXEC,
    "runtime": _HOST,
    "train": _TRAIN,
    "bind": {*_TRAIN, "bind"},
    "lite": _EXEC,
    "inference": _HOST,
}
# What portable code may take from outside: nothing that allocates, throws, locks or
# opens files (PORTABLE.md).
PORTABLE_HEADERS = {
    *("cstddef", "cstdint", "cstring", "cmath", "climits", "cfloat", "limits"),
    *("stddef.h", "stdint.h", "string.h", "math.h", "limits.h", "float.h"),
    "type_traits",
    *("emmintrin.h", "immintrin.h", "cpuid.h"),
    *("arm_neon.h", "arm_fp16.h", "arm_bf16.h"),
    "sys/auxv.h",  # the CPU's features, as the operating system reports them on ARM
}
# What portable code may not contain: (pattern, the rule it breaks). See PORTABLE.md.
PORTABLE_BANS = [
    (r"\bnew\b|(?<!= )\bdelete\b|\b(?:[cm]alloc|realloc|free)\s*\(", "no heap"),
    (r"\b(?:aligned_alloc|posix_memalign|mmap|sbrk|alloca)\s*\(", "no heap"),
    (r"\b(?:throw|try|catch)\b", "no exceptions"),
    (r"\b(?:dynamic_cast|typeid)\b", "no RTTI"),
    (r"\bvirtual\b", "no virtual functions (they need the C++ runtime)"),
    (r"\bthread_local\b|\bpthread_\w+", "no threads"),
    (r"\bf(?:open|read|write|close|printf)\s*\(|\bs?n?printf\s*\(", "no files"),
    (r"\b(?:getenv|system|exit|abort)\s*\(", "no calls of the operating system"),
    (r"\bstd::(?!is_\w+|\w+_[tv]\b)\w+", "of std:: type traits alone"),
]
# What names an instruction set: the compiler's macros, intrinsics, types of vectors and
# inline assembly. Only the files below may; everything else tests their constants.
ISA_CODE = re.compile(
    r"\b__(?:AVX\w*|SSE\w*|FMA__|F16C__|BMI\w*|ARM_\w+|aarch64__|arm__|x86_64__|i386__)"
    r"|\b_mm\d*_\w+|\b__m(?:mask)?\d+\w*|\bv\w+_[fsu](?:8|16|32|64)\b|\b__asm__\b"
)
ISA_FILES = re.compile(
    r".*/csrc/portable/(?:base/cpu\.cc|simd/vec\w*\.h|.*\.\w+\.(?:cc|h))"
)
# Code that uses public names alone of core and of the other packages.
OUTSIDE_CORE = re.compile(r"packages/(?!core/|alias/)\w+/src/|benchmarks/|examples/")
# Families of kernels that have a file of rows, and one of records, for each kind.
FAMILY_ROWS = {"elementwise": ("activation", "binary", "unary")}
# A function of which each instruction set would have a copy under one symbol.
UNINLINED = re.compile(r"\s*(?:static\s+)?(?:inline|constexpr)\b[^=;]*\(")
# Comments, strings and characters, which no ban is about.
UNCODED = re.compile(
    r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])+'", re.S
)
# The line before a declaration begins: blank, a comment or directive, or one that ends
# a statement, block or label.
_ENDED = re.compile(r"^\s*$|^\s*(?://|#|/?\*)|[;{}:]\s*$|//")
# Blocks that are no functions.
_NO_FUNCTION = re.compile(
    r"^(?:template <.*> )?(?:namespace|struct|class|union|enum|extern|if|for|while"
    r"|switch|else|do|return)\b|= [\[{]"
)
INCLUDE = re.compile(r'^\s*#\s*include\s*(?:<([^>]+)>|"([^"]+)")')

# Undefined symbols that mean the C++ runtime library or exceptions are needed.
CXX_RUNTIME = re.compile(
    r"^(_Zn[wa]|_Zd[la]|_ZSt|_ZNSt|_ZNKSt|_ZTVN10__cxxabiv1|__cxa_(?!finalize|atexit)"
    r"|__gxx_personality|_Unwind_|__dynamic_cast)"
)
CXX_LIBRARIES = ("libstdc++", "libc++", "libgomp", "libomp")


class Breach(NamedTuple):
    """One place that breaks a rule."""

    path: str
    line: int
    rule: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule}"


def tracked(root: Path) -> list[str]:
    """The files of the tree, as git sees them."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    answer = subprocess.run(
        command, cwd=root, check=True, capture_output=True, text=True
    )
    return sorted({f for f in answer.stdout.splitlines() if (root / f).is_file()})


def names_and_lengths(root: Path, files: list[str]) -> Iterator[Breach]:
    """Files have telling names and are short enough to read in one sitting."""
    for name in files:
        path = Path(name)
        if path.suffix not in LINES:
            continue
        if path.stem in VAGUE_NAMES:
            yield Breach(name, 1, f"a file name says what is inside, got {path.name}")
        text = (root / name).read_text()
        count, limit = text.count("\n"), LINES[path.suffix]
        if count > limit and not any(part in UNLIMITED for part in path.parts):
            yield Breach(name, limit, f"at most {limit} lines, got {count}")
        if path.suffix == ".py":
            yield from long_functions(name, text)
        else:
            yield from long_cpp_functions(name, text)


def wide_text(root: Path, files: list[str]) -> Iterator[Breach]:
    """Sentences in Markdown end at a column; tables, code and generated blocks may not.

    Pages in Chinese, whose characters are twice as wide, and logs are left alone.
    """
    for name in files:
        if not name.endswith(".md") or name.endswith(("-zh.md", *GENERATED_PAGES)):
            continue
        text = UNWRAPPED.sub(
            lambda found: "\n" * found[0].count("\n"), (root / name).read_text()
        )
        for number, line in enumerate(text.splitlines(), 1):
            if len(line) > MARKDOWN_COLUMNS and not line.startswith(("|", "#")):
                rule = f"at most {MARKDOWN_COLUMNS} columns, got {len(line)}"
                yield Breach(name, number, rule)


def leftovers(files: list[str]) -> Iterator[Breach]:
    """Documents are pages and docs/figures; what examples write stays elsewhere."""
    for name in files:
        inside = name.startswith("docs/") and not name.startswith("docs/figures/")
        if inside and not name.endswith(".md"):
            yield Breach(name, 1, "docs/ holds pages (.md) and docs/figures alone")


def long_functions(name: str, text: str) -> Iterator[Breach]:
    """A Python function fits on one screen (its docstring not counted)."""
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        first = node.body[0]
        count = (node.end_lineno or 0) - node.lineno + 1
        if ast.get_docstring(node, clean=False) is not None:
            count -= (first.end_lineno or 0) - first.lineno + 1
        if count > FUNCTION_LINES:
            rule = f"a function has at most {FUNCTION_LINES} lines"
            yield Breach(name, node.lineno, f"{rule}, {node.name} has {count}")


def long_cpp_functions(name: str, text: str) -> Iterator[Breach]:
    """A C++ function fits on one screen, found by the indentation of clang-format."""
    lines = text.splitlines()
    i = 0
    while i < len(lines):
        first = i
        if lines[i].endswith("{") and "//" not in lines[i]:
            while first > 0 and not _ENDED.search(lines[first - 1]):
                first -= 1
            head = " ".join(line.strip() for line in lines[first : i + 1])
            if "(" in head and not _NO_FUNCTION.search(head):
                indent = lines[first][: -len(lines[first].lstrip())]
                i += 1
                while i < len(lines) and not lines[i].startswith(indent + "}"):
                    i += 1
                count = i - first + 1
                if count > FUNCTION_LINES:
                    rule = f"a function has at most {FUNCTION_LINES} lines"
                    yield Breach(name, first + 1, f"{rule}, got {count}: {head[:60]}")
        i += 1


def component_of(name: str) -> str | None:
    """The C++ component a source file belongs to, or None if no rule is about it."""
    parts = Path(name).parts
    if parts[:1] != ("packages",) or "tests" in parts or "bench" in parts:
        return None
    if parts[1] != "core":
        return parts[1] if parts[1] in ALLOWED and "bindings" not in parts else None
    if parts[2:3] != ("csrc",):
        return None
    inner = parts[3:-1]
    if inner[:1] in (("portable",), ("host",)):
        inner = inner[1:]
    return inner[0] if inner and inner[0] in ALLOWED else None


def included_component(header: str) -> str | None:
    """The component of `proa/<component>/…`, or None if the header is not core's."""
    parts = header.split("/")
    if parts[0] != "proa" or len(parts) < 3:
        return None
    if parts[1] == "gen":
        return GENERATED.get(parts[2], "gen")
    return parts[1]


def includes(root: Path, files: list[str]) -> Iterator[Breach]:
    """C++ includes point down; portable code includes no runtime library of C++."""
    for name in files:
        if Path(name).suffix not in (".cc", ".h", ".c", ".inc"):
            continue
        component = component_of(name)
        if component is None:
            continue
        for number, line in enumerate((root / name).read_text().splitlines(), 1):
            found = INCLUDE.match(line)
            if found is None:
                continue
            rule = broken_include(component, found[1] or "", found[2] or "")
            if rule:
                yield Breach(name, number, rule)


def broken_include(component: str, system: str, own: str) -> str | None:
    """The rule that an include of this component breaks, or None."""
    if system and component in PORTABLE and system not in PORTABLE_HEADERS:
        return f"portable code may not include <{system}> (PORTABLE.md)"
    target = included_component(own)
    if target is None or target in ALLOWED[component]:
        return None
    allowed = ", ".join(sorted(ALLOWED[component]))
    return f"{component} includes only {allowed}, got {target} ({own})"


def portable_code(root: Path, files: list[str]) -> Iterator[Breach]:
    """Portable C++ keeps to PORTABLE.md: no heap, exceptions, threads, containers …"""
    for name in files:
        component = component_of(name)
        if Path(name).suffix not in (".cc", ".h") or component not in PORTABLE:
            continue
        text = (root / name).read_text()
        code = UNCODED.sub(lambda found: "\n" * found[0].count("\n"), text)
        for number, line in enumerate(code.splitlines(), 1):
            if INCLUDE.match(line):
                continue
            for pattern, rule in PORTABLE_BANS:
                if found := re.search(pattern, line):
                    yield Breach(name, number, f"{rule} (PORTABLE.md), got {found[0]}")
            if not ISA_FILES.fullmatch(name) and (found := ISA_CODE.search(line)):
                rule = "only simd/vec*.h and <name>.<isa>.cc name an instruction set"
                yield Breach(name, number, f"{rule} (PORTABLE.md), got {found[0]}")
            if Path(name).match("portable/base/*.h") and UNINLINED.match(line):
                rule = "functions of headers of base/ are PROA_INLINE (PORTABLE.md)"
                yield Breach(name, number, f"{rule}, got {line.strip()}")
        if component in ("simd", "kernels") and "namespace proa::PROA_ISA" not in code:
            rule = (
                "what is compiled per ISA is in namespace proa::PROA_ISA (PORTABLE.md)"
            )
            yield Breach(name, 1, rule)


def private_names(root: Path, files: list[str]) -> Iterator[Breach]:
    """Packages built on core, and the benchmarks, read no private name of another."""
    own: dict[str, list[str]] = {}
    for name in files:
        found = OUTSIDE_CORE.match(name)
        if found and name.endswith(".py"):
            own.setdefault(found[0], []).append(name)
    for names in own.values():
        trees = {name: ast.parse((root / name).read_text()) for name in names}
        defined = {n for tree in trees.values() for n in _private_definitions(tree)}
        for name, tree in trees.items():
            for line, private in _private_reads(tree, defined):
                rule = "a private name of another package is not read (proa.runtime)"
                yield Breach(name, line, f"{rule}, got {private}")


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__") and name != "_"


def _private_definitions(tree: ast.AST) -> Iterator[str]:
    """What a module defines itself: functions, classes, variables and attributes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


def _private_reads(tree: ast.AST, defined: set[str]) -> Iterator[tuple[int, str]]:
    """Private names of ours that a module reads and its package does not define."""
    foreign = (
        set()
    )  # modules of the standard library and of others, by their names here
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            named = [(a.asname or a.name.split(".")[0], a.name) for a in node.names]
            foreign |= {n for n, module in named if not module.startswith("proa")}
            modules = [module for _, module in named]
        elif isinstance(node, ast.ImportFrom):
            modules = [f"{node.module or ''}.{a.name}" for a in node.names]
        else:
            continue
        for module in modules:
            parts = module.split(".")
            private = [p for p in parts[1:] if _is_private(p) and p not in defined]
            if parts[0].startswith("proa") and private:
                yield node.lineno, module
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or not _is_private(node.attr):
            continue
        base = node.value
        known = isinstance(base, ast.Name) and base.id in {*foreign, "self", "cls"}
        if not known and node.attr not in defined:
            yield node.lineno, ast.unparse(node)


def kernel_families(files: list[str]) -> Iterator[Breach]:
    """What belongs to a folder of kernels is found by the folder's name."""
    core = "packages/core/"
    folder = re.compile(rf"{core}csrc/portable/(kernels|simd)/(\w+)/")
    present = set(files)
    for kind, family in sorted({f.groups() for n in files if (f := folder.match(n))}):
        if kind == "simd":
            needed = [f"csrc/tests/{family}_test.cc", f"csrc/bench/{family}_bench.cc"]
        else:  # rows and the records of their tests; the benchmark is a function
            rows = FAMILY_ROWS.get(family, (family,))
            needed = [f"src/proa/schema/ops/{name}.py" for name in rows]
            needed += [f"tests/ops/samples/{name}.py" for name in rows]
        for name in needed:
            if core + name not in present:
                rule = f"the kernels of {family} have {name}, which is not there"
                yield Breach(f"{core}csrc/portable/{kind}/{family}", 1, rule)


def versions(root: Path, files: list[str]) -> Iterator[Breach]:
    """A `__version__` written in a package is that of its pyproject.toml."""
    for name in files:
        found = re.fullmatch(r"packages/(\w+)/pyproject\.toml", name)
        if found is None:
            continue
        package = "proa" if found[1] == "core" else f"proa_{found[1]}"
        init = root / "packages" / found[1] / "src" / package / "__init__.py"
        stated = re.search(r'^version = "(.+)"', (root / name).read_text(), re.M)
        if not init.exists() or stated is None:
            continue
        here = re.search(r'^__version__ = "(.+)"', init.read_text(), re.M)
        if here is not None and here[1] != stated[1]:
            rule = f'__version__ must be "{stated[1]}" as in {name}, got {here[1]}'
            yield Breach(init.relative_to(root).as_posix(), 1, rule)


def symbols(library: Path) -> Iterator[Breach]:
    """A library built from portable code alone runs without the C++ runtime."""
    answer = subprocess.run(
        ["readelf", "-W", "-d", "--dyn-syms", str(library)],
        check=True,
        capture_output=True,
        text=True,
    )
    for line in answer.stdout.splitlines():
        words = line.split()
        if "(NEEDED)" in line and any(f"[{name}" in line for name in CXX_LIBRARIES):
            yield Breach(str(library), 0, f"must not link {words[-1]}")
        # "  3: 0000 0 FUNC GLOBAL DEFAULT UND _Znwm@GLIBCXX_3.4 (2)"
        undefined = words[words.index("UND") + 1 :] if "UND" in words else []
        if undefined and CXX_RUNTIME.match(undefined[0]):
            yield Breach(str(library), 0, f"must not need the symbol {undefined[0]}")


def import_contracts(root: Path) -> bool:
    """Run import-linter over copies of the source trees; True if all contracts hold."""
    packages = {
        "proa" if p.parent.name == "core" else f"proa_{p.parent.name}": p
        for p in sorted(root.glob("packages/*/src"))
        if p.parent.name != "alias"  # a name of proa, without imports of its own
    }
    missing = [n for n, src in packages.items() if not (src / n).is_dir()]
    if missing or len(packages) < 5:
        print(f"[arch] import contracts wait for all five packages: {list(packages)}")
        return True
    with tempfile.TemporaryDirectory() as folder:
        for name, src in packages.items():
            ignore = shutil.ignore_patterns("__pycache__", "*.so", "_core", "lib")
            shutil.copytree(src / name, Path(folder) / name, ignore=ignore)
        # The compiled module imports nothing of ours: empty files replace it.
        compiled = Path(folder) / "proa" / "_core"
        compiled.mkdir()
        for name in ("__init__.py", "ops.py"):
            (compiled / name).touch()
        # `proa.ops` is generated, and absent where nothing has been built in place.
        generator = [sys.executable, str(root / "packages" / "core" / "codegen")]
        subprocess.run([*generator, "--python", f"{folder}/proa"], check=True)
        shutil.copy(root / "pyproject.toml", folder)
        linter = shutil.which("lint-imports", path=f"{Path(sys.executable).parent}")
        done = subprocess.run(
            [linter or "lint-imports", "--no-cache"],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": folder},
        )
    return done.returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--no-imports", action="store_true", help="skip import-linter")
    parser.add_argument("--library", type=Path, nargs="*", default=[])
    options = parser.parse_args()
    files = tracked(ROOT)
    breaches = [
        *names_and_lengths(ROOT, files),
        *wide_text(ROOT, files),
        *leftovers(files),
        *includes(ROOT, files),
        *portable_code(ROOT, files),
        *private_names(ROOT, files),
        *kernel_families(files),
        *versions(ROOT, files),
        *(breach for library in options.library for breach in symbols(library)),
    ]
    for breach in breaches:
        print(breach)
    contracts = options.no_imports or import_contracts(ROOT)
    print(f"[arch] {len(files)} files, {len(breaches)} breaches")
    return 0 if contracts and not breaches else 1


if __name__ == "__main__":
    raise SystemExit(main())
