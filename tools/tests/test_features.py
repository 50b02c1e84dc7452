"""tools/features.py counts a capability only if a test that shows it passed."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

TOOL = Path(__file__).resolve().parent.parent / "features.py"
TESTS = "packages/core/tests"
TABLE = (
    "id\tpackage\tfeature\ttestable\tcapability\tfigure\n"
    "L001\tcore\tTensors\tyes\tTensors print\t\n"
    "L002\tcore\tSpeed\tyes\tSlices | are fast\t+60%\n"
    "L003\tcore\tSpeed\tyes\tNothing shows this\t\n"
)


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("features", TOOL)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["features"] = module
    spec.loader.exec_module(module)
    return module


features = load()


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / TESTS).mkdir(parents=True)
    (tmp_path / "docs").mkdir()
    (tmp_path / "table.tsv").write_text(TABLE)
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\naddopts = --import-mode=importlib -m 'not full'\n"
        "markers =\n    feature\n    full\n"
    )
    monkeypatch.setattr(features, "ROOT", tmp_path)
    return tmp_path


def write(tree: Path, text: str, name: str = "test_a.py") -> None:
    (tree / TESTS / name).write_text("import pytest\n" + text)


def report(tree: Path) -> Path:
    """A report of the tree's tests by pytest itself."""
    folder = tree / "reports"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    subprocess.run(
        [*command, f"--junit-xml={folder}/core.xml", TESTS],
        cwd=tree, check=False, capture_output=True,
    )  # fmt: skip
    return folder


def run(monkeypatch: pytest.MonkeyPatch, *options: Any) -> int:
    monkeypatch.setattr(sys, "argv", ["features.py", *map(str, options)])
    return int(features.main())


def test_marks_are_found_on_functions_classes_and_modules(tree: Path) -> None:
    write(
        tree,
        'pytestmark = [pytest.mark.feature("L003"), pytest.mark.full]\n'
        '@pytest.mark.feature("L001", "L002", how="mechanism")\n'
        "def test_it(): pass\n"
        '@pytest.mark.feature("L004")\n'
        "class TestMany:\n"
        '    @pytest.mark.feature("L005")\n'
        "    def test_one(self): pass\n",
    )
    found = {m.id: (m.test, m.how) for m in features.all_marks(tree)}
    assert found == {
        "L001": ("test_it", "mechanism"),
        "L002": ("test_it", "mechanism"),
        "L003": ("", "behaviour"),
        "L004": ("TestMany", "behaviour"),
        "L005": ("TestMany::test_one", "behaviour"),
    }
    assert all(m.full for m in features.all_marks(tree))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('@pytest.mark.feature("L001")\ndef helper(): pass\n', "must be on a test"),
        (
            'X = [pytest.param(1, marks=pytest.mark.feature("L001"))]\n',
            "must be on a test",
        ),
        ('@pytest.mark.feature("L001", how="well")\ndef test_a(): pass\n', "how must"),
        ("@pytest.mark.feature\ndef test_a(): pass\n", "takes ids"),
        ('@pytest.mark.feature("L001", of=1)\ndef test_a(): pass\n', "takes ids"),
    ],
)
def test_a_wrong_mark_is_an_error_with_its_line(
    tree: Path, text: str, fault: str, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    write(tree, text)
    assert run(monkeypatch) == 1
    assert f"{TESTS}/test_a.py:2: " in (out := capsys.readouterr().out)
    assert fault in out


OUTCOMES = """
@pytest.mark.feature("L001")
@pytest.mark.parametrize("x", ["a", "b[]", "c::d"])
def test_passed(x): pass

@pytest.mark.feature("L002")
def test_failed(): assert False

@pytest.mark.feature("L003")
def test_skipped(): pytest.skip("not here")

@pytest.mark.full
@pytest.mark.feature("L004")
def test_full(): pass

class TestAll:
    @pytest.mark.feature("L005")
    def test_passed(self): pass

@pytest.mark.feature("L006")
@pytest.mark.parametrize("x", [0, 1])
def test_half(x): assert x

@pytest.mark.feature("L007")
def test_(unknown_fixture): pass
"""


def test_outcomes_are_those_of_the_report(tree: Path) -> None:
    write(tree, OUTCOMES)
    skipped = 'pytest.skip("no torch", allow_module_level=True)\n'
    one = '@pytest.mark.feature("L008")\ndef test_one(): pass\n'
    write(tree, skipped + one, "test_b.py")
    reports = features.read_reports(report(tree))
    write(tree, one.replace("8", "9"), "test_later.py")
    found = {m.id: features.outcome_of(m, reports) for m in features.all_marks(tree)}
    assert found == {
        "L001": "passed", "L002": "failed", "L003": "skipped", "L004": "full",
        "L005": "passed", "L006": "failed", "L007": "failed", "L008": "skipped",
        "L009": "missing",
    }  # fmt: skip


def test_only_what_passed_is_counted(
    tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    write(tree, OUTCOMES)
    assert run(monkeypatch, "--report", report(tree)) == 1
    out = capsys.readouterr().out
    assert "7 capabilities have 7 marks" in out
    assert "2 capabilities shown" in out
    assert "1 by full tests alone: L004" in out and "1 skipped here: L003" in out
    assert f"{TESTS}/test_a.py:7: L002's test failed" in out


def test_a_mark_whose_test_was_not_collected_fails(
    tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    one = '@pytest.mark.feature("L001")\ndef test_a(): pass\n'
    write(tree, one)
    folder = report(tree)
    table = ("--table", tree / "table.tsv")
    assert run(monkeypatch, *table, "--write", "--report", folder) == 0
    write(tree, one + one.replace("test_a", "test_new"))
    assert run(monkeypatch, *table, "--write", "--report", folder) == 1
    assert "L001's test was not collected" in capsys.readouterr().out


def test_the_page_describes_capabilities_without_the_table(
    tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    write(
        tree,
        '@pytest.mark.feature("L001")\ndef test_a(): pass\n'
        '@pytest.mark.full\n@pytest.mark.feature("L002", how="mechanism")\n'
        "def test_b(): pass\n",
    )
    assert run(monkeypatch) == 1  # there is no page yet
    assert run(monkeypatch, "--table", tree / "table.tsv", "--write") == 0
    page = (tree / "docs" / "features.md").read_text()
    assert "## core: Tensors" in page
    assert (
        f"| L001 | Tensors print |  | behaviour | `{TESTS}/test_a.py::test_a` |" in page
    )
    assert r"| L002 | Slices \| are fast | +60% | mechanism |" in page
    assert f"`{TESTS}/test_a.py::test_b` (full) |" in page
    assert "L003" not in page
    assert run(monkeypatch) == 0  # from the page alone
    assert run(monkeypatch, "--write") == 0
    assert (tree / "docs" / "features.md").read_text() == page
    write(tree, '@pytest.mark.feature("L001")\ndef test_renamed(): pass\n')
    assert run(monkeypatch) == 1
    assert "is out of date" in capsys.readouterr().out


def test_unknown_ids_and_figures_that_nothing_accounts_for_are_errors(
    tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    write(tree, '@pytest.mark.feature("L002", "L999")\ndef test_a(): pass\n')
    assert run(monkeypatch, "--table", tree / "table.tsv") == 1
    out = capsys.readouterr().out
    assert "L999 is not described in docs/features.md" in out
    assert 'L002 must say how="mechanism" or "figure" for: +60%' in out
    assert "core             1 of     3 marked" in out


def test_the_table_lists_what_has_no_mark(
    tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    write(tree, '@pytest.mark.feature("L001", "L002")\ndef test_a(): pass\n')
    assert run(monkeypatch, "--table", tree / "table.tsv", "--missing", "core") == 0
    assert capsys.readouterr().out == "L003  Nothing shows this\n"
