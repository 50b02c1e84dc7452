"""The checks in tools/ find what they are for, in trees made for the purpose."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from .loaded import TOOLS, tool

arch, size, wheels = map(tool, ("arch", "size", "wheels"))
api_coverage = tool("api_coverage")
CSRC = "packages/core/csrc"


def write(root: Path, name: str, text: str) -> list[str]:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)
    return [name]


@pytest.mark.parametrize(
    ("file", "include", "fault"),
    [
        (f"{CSRC}/portable/kernels/norm/x.cc", '"proa/model/file.h"', "got model"),
        (f"{CSRC}/portable/kernels/norm/x.cc", '"proa/runtime/pool.h"', "got runtime"),
        (f"{CSRC}/portable/kernels/norm/x.cc", '"proa/gen/attrs.h"', "got gen-all"),
        (f"{CSRC}/portable/base/x.h", '"proa/simd/vec.h"', "got simd"),
        (f"{CSRC}/portable/exec/x.cc", '"proa/gen/ops.h"', "got gen-train"),
        (f"{CSRC}/portable/exec/x.cc", "<vector>", "may not include <vector>"),
        (f"{CSRC}/host/runtime/x.cc", '"proa/train/tape.h"', "got train"),
        (f"{CSRC}/host/train/x.cc", '"proa/bind/module.h"', "got bind"),
        ("packages/lite/csrc/runtime/x.cc", '"proa/runtime/pool.h"', "got runtime"),
        ("packages/inference/csrc/engine/x.cc", '"proa/train/tensor.h"', "got train"),
    ],
)
def test_an_include_that_points_up_is_found(tmp_path, file, include, fault):
    files = write(tmp_path, file, f"// A file.\n#include {include}\n")
    (breach,) = arch.includes(tmp_path, files)
    assert fault in breach.rule
    assert breach.line == 2


@pytest.mark.parametrize(
    ("file", "include"),
    [
        (f"{CSRC}/portable/kernels/norm/x.cc", '"proa/simd/vec.h"'),
        (f"{CSRC}/portable/kernels/norm/x.cc", '"proa/gen/attrs/norm.h"'),
        (f"{CSRC}/portable/exec/x.cc", '"proa/gen/attrs.h"'),
        (f"{CSRC}/portable/kernels/norm/x.cc", "<cmath>"),
        (f"{CSRC}/host/runtime/x.cc", "<thread>"),
        (f"{CSRC}/bind/x.cc", '"proa/train/tensor.h"'),
        (f"{CSRC}/tests/x.cc", '"proa/train/tensor.h"'),
        ("packages/lite/csrc/runtime/x.cc", '"proa/exec/plan.h"'),
    ],
)
def test_an_include_that_points_down_is_fine(tmp_path, file, include):
    assert not list(
        arch.includes(tmp_path, write(tmp_path, file, f"#include {include}\n"))
    )


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("int* p = new int[n];", "no heap"),
        ("delete[] p;", "no heap"),
        ("void* p = malloc(n);", "no heap"),
        ("throw 1;", "no exceptions"),
        ("try { run(); } catch (...) {}", "no exceptions"),
        ("auto* x = dynamic_cast<X*>(y);", "no RTTI"),
        ("const char* name = typeid(x).name();", "no RTTI"),
        ("virtual void run();", "no virtual functions"),
        ("thread_local int depth = 0;", "no threads"),
        ("pthread_mutex_lock(&m);", "no threads"),
        ('FILE* f = fopen("x", "r");', "no files"),
        ('const char* home = getenv("HOME");', "no calls of the operating system"),
        ("std::vector<int> list;", "of std:: type traits alone"),
        ("std::string name;", "of std:: type traits alone"),
        ("std::mutex m;", "of std:: type traits alone"),
    ],
)
def test_portable_code_that_needs_a_runtime_library_is_found(tmp_path, line, fault):
    text = f"namespace proa {{\n{line}\n}}\n"
    files = write(tmp_path, f"{CSRC}/portable/exec/x.cc", text)
    breaches = list(arch.portable_code(tmp_path, files))
    assert breaches
    assert all(b.line == 2 and fault in b.rule for b in breaches)
    host = write(tmp_path, f"{CSRC}/host/runtime/x.cc", text)
    assert not list(arch.portable_code(tmp_path, host))


def test_words_in_comments_strings_and_deleted_functions_are_no_code(tmp_path):
    text = """// A new block: delete nothing, throw nothing, std::vector is not used.
/* malloc(8)
   and free(8) */
struct X {
  X(const X&) = delete;
  const char* why = "try again, \\"throw\\" new";
  char quote = '"';
};
static_assert(std::is_same_v<int, std::remove_reference_t<int&>>);
"""
    files = write(tmp_path, f"{CSRC}/portable/base/x.h", text)
    assert not list(arch.portable_code(tmp_path, files))


@pytest.mark.parametrize("part", ["simd/x.h", "kernels/norm/x.cc"])
def test_code_compiled_per_instruction_set_needs_its_namespace(tmp_path, part):
    name = f"{CSRC}/portable/{part}"
    (breach,) = arch.portable_code(tmp_path, write(tmp_path, name, "namespace proa {}"))
    assert "namespace proa::PROA_ISA" in breach.rule
    right = write(tmp_path, name, "namespace proa::PROA_ISA {}")
    assert not list(arch.portable_code(tmp_path, right))


@pytest.mark.parametrize(
    "line",
    [
        "#if defined(__AVX512F__)",
        "#elif defined(__ARM_NEON) && !defined(__aarch64__)",
        "const __m512i x = y;",
        "x = _mm256_add_ps(x, y);",
        "x = vaddq_f32(x, y);",
        '__asm__("" : "+r"(p));',
    ],
)
def test_an_instruction_set_is_named_in_few_files_alone(tmp_path, line):
    text = f"namespace proa::PROA_ISA {{\n{line}\n}}\n"
    folder = f"{CSRC}/portable"
    for name in ("simd/gemm/x.cc", "simd/x.h", "kernels/norm/x.cc", "base/x.cc"):
        (breach,) = arch.portable_code(
            tmp_path, write(tmp_path, f"{folder}/{name}", text)
        )
        assert breach.line == 2
        assert "name an instruction set" in breach.rule
    for name in ("simd/vec_x.h", "kernels/norm/x.avx2.cc", "base/cpu.cc"):
        files = write(tmp_path, f"{folder}/{name}", text)
        assert not list(arch.portable_code(tmp_path, files))


@pytest.mark.parametrize("line", ["inline int f() {", "constexpr bool g(int x) {"])
def test_functions_in_headers_of_every_instruction_set_are_always_inlined(
    tmp_path, line
):
    name = f"{CSRC}/portable/base/x.h"
    (breach,) = arch.portable_code(tmp_path, write(tmp_path, name, line))
    assert "PROA_INLINE" in breach.rule
    right = f"PROA_INLINE {line}\nconstexpr int kFour = f(4);\nstruct S {{\n"
    assert not list(arch.portable_code(tmp_path, write(tmp_path, name, right)))


@pytest.mark.parametrize(
    "head",
    [
        "int f(int x) {",
        "template <class T>\nvoid f(T x,\n       T y) {",
        "struct S {\n  void f() const {",
    ],
)
def test_long_cpp_functions_are_found(head: str):
    indent = "  " if head.startswith("struct") else ""
    lines = 58 - head.count("\n") + (1 if indent else 0)
    end = f"\n{indent}}}\n" + ("};\n" if indent else "")
    body = f"\n{indent}  x += 1;"
    fits = f"namespace a {{\n\n{head}{body * lines}{end}\n}}\n"
    assert not list(arch.long_cpp_functions("a.cc", fits))
    found = list(arch.long_cpp_functions("a.cc", fits.replace(body, body * 2, 1)))
    assert [breach.line for breach in found] == [4 if indent else 3]
    assert "got 61" in found[0].rule


def test_vague_names_and_long_files_are_found_outside_tests(tmp_path):
    files = [
        *write(tmp_path, "packages/core/csrc/portable/base/common.h", ""),
        *write(tmp_path, "tools/long.py", "x = 1\n" * 501),
        *write(tmp_path, "tools/fits.py", "x = 1\n" * 500),
        *write(tmp_path, "packages/core/tests/long.py", "x = 1\n" * 900),
    ]
    found = list(arch.names_and_lengths(tmp_path, files))
    assert [(b.path, b.rule.split(",")[0]) for b in found] == [
        (files[0], "a file name says what is inside"),
        (files[1], "at most 500 lines"),
    ]


def test_a_wide_line_of_text_is_found(tmp_path):
    wide = "word " * 30 + "\n"
    text = f"{wide}| {wide}# {wide}```\n{wide}```\n"
    figures = f"<!-- figures: a -->\n{wide}<!-- end of figures -->\nword\n{wide}"
    files = [
        *write(tmp_path, "docs/a.md", text + figures),
        *write(tmp_path, "docs/a-zh.md", wide),
        *write(tmp_path, "CHANGELOG.md", wide),
        *write(tmp_path, "a.py", wide),
    ]
    found = [(b.path, b.line) for b in arch.wide_text(tmp_path, files)]
    assert found == [("docs/a.md", 1), ("docs/a.md", 11)]


def test_what_examples_left_among_the_documents_is_found():
    files = ["docs/tour.md", "docs/ops/all.md", "docs/net.proa", "tests/net.proa"]
    assert [b.path for b in arch.leftovers(files)] == ["docs/net.proa"]


def test_a_long_function_is_found_its_docstring_not_counted(tmp_path):
    doc = '    """' + "words\n" * 100 + '    """\n'
    body = "    x = 1\n" * 59
    short = f"def short():\n{doc}{body}"
    long = f"def long():\n{doc}{body}    x = 2\n"
    found = list(arch.long_functions("a.py", short + long))
    assert [b.rule for b in found] == ["a function has at most 60 lines, long has 61"]


def test_a_version_stated_twice_must_agree(tmp_path):
    files = write(tmp_path, "packages/lite/pyproject.toml", 'version = "0.2.0"\n')
    init = "packages/lite/src/proa_lite/__init__.py"
    write(tmp_path, init, '__version__ = "0.1.0"\n')
    (breach,) = arch.versions(tmp_path, files)
    assert "0.2.0" in breach.rule
    assert "got 0.1.0" in breach.rule


def test_a_circle_of_imports_is_found_even_in_a_function(tmp_path, capfd):
    root = TOOLS.parent
    built = shutil.ignore_patterns("*.so", "__pycache__", "lib", "proa.egg-info")
    for source in [*root.glob("packages/*/src"), root / "packages/core/codegen"]:
        shutil.copytree(source, tmp_path / source.relative_to(root), ignore=built)
    shutil.copy(root / "pyproject.toml", tmp_path)
    assert arch.import_contracts(tmp_path)
    arguments = tmp_path / "packages/core/src/proa/tensor/arguments.py"
    with arguments.open("a") as file:
        file.write("def late():\n    from proa.tensor.creation import to_tensor\n")
    assert not arch.import_contracts(tmp_path)
    assert "No cycles are allowed in proa.tensor" in capfd.readouterr().out


@pytest.mark.skipif(not shutil.which("c++"), reason="needs a C++ compiler")
def test_a_library_that_needs_the_cxx_runtime_is_found(tmp_path):
    def built(name: str, text: str, *flags: str) -> Path:
        source, library = tmp_path / f"{name}.cc", tmp_path / f"{name}.so"
        source.write_text(text)
        command = ["c++", "-shared", "-fPIC", str(source), "-o", str(library)]
        subprocess.run([*command, *flags], check=True)
        return library

    plain = built("plain", "int twice(int x) { return 2 * x; }", "-nostdlib")
    needy = built("needy", "int* make() { return new int; }")
    assert not list(arch.symbols(plain))
    rules = " ".join(b.rule for b in arch.symbols(needy))
    assert "libstdc++" in rules
    assert "_Znwm" in rules


def test_budgets_are_read_as_a_toml_parser_reads_them():
    tomllib = pytest.importorskip("tomllib")
    text = size.BUDGETS.read_text()
    assert size.read_budgets(text) == tomllib.loads(text)


def test_lists_of_strings_are_read_as_a_toml_parser_reads_them():
    tomllib = pytest.importorskip("tomllib")
    root = TOOLS.parent
    settings = tomllib.loads((root / "pyproject.toml").read_text())
    listed = wheels.listed_strings(root / "pyproject.toml", "build")
    assert listed == settings["dependency-groups"]["build"]
    for path in root.glob("packages/*/pyproject.toml"):
        settings = tomllib.loads(path.read_text())
        listed = wheels.listed_strings(path, "requires")
        assert listed == settings["build-system"]["requires"]
        wanted = {each for each in listed if not wheels.is_own(each)}
        assert wanted <= set(wheels.build_requirements())


def test_a_wheels_state_follows_its_sources_and_no_tests(tmp_path, monkeypatch):
    monkeypatch.setattr(wheels, "ROOT", tmp_path)
    lite, core = "packages/lite", "packages/core"
    write(tmp_path, f"{lite}/src/proa_lite/__init__.py", "")
    first = wheels.state_of("lite", "cp311")
    write(tmp_path, f"{lite}/tests/test_a.py", "")
    assert wheels.state_of("lite", "cp311") == first
    write(tmp_path, f"{core}/csrc/portable/base/view.h", "")
    second = wheels.state_of("lite", "cp311")
    assert second != first
    write(tmp_path, f"{core}/src/proa/nn/layer.py", "")
    assert wheels.state_of("lite", "cp311") == second
    assert wheels.state_of("lite", "cp312") != second


def test_coverage_finds_parameters_that_are_not_taken():
    assert api_coverage.parameters("(self, x, shape=[1, 2], *, name=None)") == [
        "x",
        "shape",
        "name",
    ]
    row = {"name": "paddle.f", "kind": "function", "signature": "(x, y=2)"}
    row |= {"note": "docs 2.1: (x, out=None); more"}
    assert api_coverage.lacking(lambda x, y: 0, row) == ()
    assert api_coverage.lacking(lambda x, out: 0, row) == ()
    assert api_coverage.lacking(lambda x: 0, row) == ("y",)
    assert api_coverage.lacking(lambda **kw: 0, row) == ()
    method = row | {"name": "paddle.Tensor.f", "signature": "(x, axis)", "note": ""}
    assert api_coverage.lacking(lambda axis: 0, method) == ()


def test_coverage_leaves_distributed_training_and_devices_out():
    row = {"name": "paddle.add", "since": "docs>=2.0", "area": "core"}
    assert api_coverage.in_scope(row)
    assert not api_coverage.in_scope(row | {"since": "docs>=2.4"})
    assert api_coverage.in_scope(row | {"area": "static.nn"})
    assert not api_coverage.in_scope(row | {"area": "distributed"})
    assert not api_coverage.in_scope(row | {"name": "paddle.device.cuda.synchronize"})


@pytest.mark.parametrize(
    ("code", "read"),
    [
        ("from proa import _core\n", "proa._core"),
        ("import proa._core\n", "proa._core"),
        ("def f(x):\n    return x._handle\n", "x._handle"),
        ("import proa\nproa.nn._parts\n", "proa.nn._parts"),
    ],
)
def test_a_private_name_of_another_package_is_found(tmp_path, code, read):
    files = write(tmp_path, "packages/slim/src/proa_slim/x.py", code)
    (breach,) = arch.private_names(tmp_path, files)
    assert breach.rule.endswith(f"got {read}")


def test_private_names_of_the_package_itself_are_fine(tmp_path):
    folder = "packages/slim/src/proa_slim"
    files = [
        *write(tmp_path, f"{folder}/a.py", "class A:\n    def _f(self): pass\n"),
        *write(tmp_path, f"{folder}/b.py", "import os\nA()._f()\nos._exit(0)\n"),
        *write(tmp_path, f"{folder}/c.py", "from proa_slim.a import A as _A\n_A()\n"),
    ]
    assert not list(arch.private_names(tmp_path, files))


def test_a_family_of_kernels_without_tests_is_found():
    kernel = f"{CSRC}/portable/kernels/pool/max_pool2d.cc"
    rows = "packages/core/src/proa/schema/ops/pool.py"
    records = "packages/core/tests/ops/samples/pool.py"
    assert not list(arch.kernel_families([kernel, rows, records]))
    (breach,) = arch.kernel_families([kernel, rows])
    assert "tests/ops/samples/pool.py" in breach.rule
    gemm = [f"{CSRC}/portable/simd/gemm/gemm.cc", f"{CSRC}/tests/gemm_test.cc"]
    (breach,) = arch.kernel_families(gemm)
    assert "bench/gemm_bench.cc" in breach.rule
