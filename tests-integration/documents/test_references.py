"""Every path, identifier, dotted name, link and command of the documents exists."""

from __future__ import annotations

import importlib
import re
import shlex
from functools import cache
from pathlib import Path

import pytest

from .references import (
    DOTTED,
    IDENTIFIER,
    ROOT,
    Span,
    anchors,
    code_spans,
    links,
    missing_path,
    pages,
    shell_lines,
    words_of_the_code,
)

PAGES = pytest.mark.parametrize("page", pages(), ids=lambda p: str(p.relative_to(ROOT)))
# What these pages name may be gone: they tell of the past, or of Paddle.
HISTORY = (
    "CHANGELOG.md",
    "docs/decisions/",
    "docs/migration.md",
    "docs/migration-names.md",
    "docs/coverage.md",
)
# A variable of a build tool, the end of a name, a program.
OF_OTHERS = ("SKBUILD_CMAKE_DEFINE", "_VAR", "curl")


def tells_of_the_past(page: Path) -> bool:
    return str(page.relative_to(ROOT)).startswith(HISTORY)


@PAGES
def test_paths_exist(page: Path) -> None:
    if not tells_of_the_past(page):
        missing = [str(span) for span in code_spans(page) if missing_path(span)]
        assert not missing, "\n".join(missing)


@PAGES
def test_identifiers_occur_in_the_code(page: Path) -> None:
    if tells_of_the_past(page):
        return
    unknown = []
    for span in code_spans(page):
        found = IDENTIFIER.fullmatch(span.text)
        word = span.text.removesuffix("()")
        if word in OF_OTHERS:
            continue
        generated = word.endswith("Attrs")  # a struct for each operator
        if found and not generated and word not in words_of_the_code():
            unknown.append(str(span))
    assert not unknown, "\n".join(unknown)


@PAGES
def test_dotted_names_can_be_imported(page: Path) -> None:
    if tells_of_the_past(page):
        return
    unknown = []
    for span in code_spans(page):
        if span.text.endswith((".md", ".h", ".hpp", ".so", ".py", ".proa")):
            continue
        unknown += [str(span) for name in DOTTED.findall(span.text) if not known(name)]
    assert not unknown, "\n".join(unknown)


@cache
def known(name: str) -> bool:
    """Whether a dotted name is a module, or an attribute of one."""
    full = re.sub(r"^_core\b", "proa._core", re.sub(r"^paddle\b", "proa", name))
    parts = full.split(".")
    for length in range(len(parts), 0, -1):
        try:
            thing = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            if not hasattr(thing, part):
                return part in getattr(thing, "__annotations__", {})
            thing = getattr(thing, part)
        return True
    return False


@PAGES
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for span in links(page):
        name, _, anchor = span.text.partition("#")
        target = (page.parent / name).resolve() if name else page
        if name.startswith(("ops/", "api/")):  # `nox -s docs` writes them
            continue
        inside = ROOT / "docs"
        if inside in page.parents and inside not in target.parents:
            broken.append(f"{span}: the site of docs/ has no such page")
        elif not target.exists() or (
            anchor and target.suffix == ".md" and anchor not in anchors(target)
        ):
            broken.append(str(span))
    assert not broken, "\n".join(broken)


@PAGES
def test_commands_exist(page: Path) -> None:
    if tells_of_the_past(page):
        return
    wrong = [
        f"{span}: {reason}" for span in shell_lines(page) if (reason := fault(span))
    ]
    assert not wrong, "\n".join(wrong)


def fault(span: Span) -> str:
    """What is wrong with a command, or nothing."""
    text = re.sub(r"#\s.*", "", span.text)
    for part in re.split(r"&&|\|", text):
        try:
            words = shlex.split(part)
        except ValueError:
            return ""  # the line continues below
        while words and re.fullmatch(r"\w+=.*", words[0]):
            words = words[1:]
        if words and (reason := _fault_of(words)):
            return reason
    return ""


def _fault_of(words: list[str]) -> str:
    program, rest = Path(words[0]).name, words[1:]
    if program == "nox" and "-s" in rest:
        for name in rest[rest.index("-s") + 1 :]:
            if name.startswith("-"):
                break
            if re.sub(r"\(.*", "", name) not in sessions():
                return f"no session {name}"
    if program in ("python", "python3") and rest and rest[0] != "-m":
        script = ROOT / rest[0]
        if rest[0].startswith("-") or "<" in rest[0]:
            return ""
        if not script.exists() and ROOT.name not in rest[0]:
            return f"no file {rest[0]}"
        return _unknown_option(script, rest[1:])
    if program in PROGRAMS:
        return _unknown_option(PROGRAMS[program], rest)
    if program == "proa" and rest:
        if f"proa-{rest[0]}" in PROGRAMS:
            return _unknown_option(PROGRAMS[f"proa-{rest[0]}"], rest[1:])
        if rest[0] in ("convert", "export"):
            return _unknown_option(ROOT / "packages/core/src/proa/cli.py", rest[1:])
        if rest[0] not in ("info", "version", "help", "--help", "--version"):
            return f"no command {rest[0]}"
    return ""


PROGRAMS = {
    f"proa-{command}": ROOT / f"packages/{package}/src/proa_{package}/cli.py"
    for command, package in (
        ("infer", "inference"),
        ("lite", "lite"),
        ("serve", "serving"),
        ("slim", "slim"),
    )
}


def _unknown_option(script: Path, rest: list[str]) -> str:
    """An option or subcommand that the program's source does not mention."""
    sources = [script] if script.is_file() else sorted(script.glob("*.py"))
    text = "".join(source.read_text() for source in sources)
    first = rest[:1] if "add_subparsers" in text else []
    for word in [*first, *(w for w in rest if w.startswith("--") and len(w) > 2)]:
        word = word.partition("=")[0]
        if f'"{word}"' not in text and word != "--help":
            return f"{script.name} has no {word}"
    return ""


@cache
def sessions() -> frozenset[str]:
    """The sessions of noxfile.py."""
    text = (ROOT / "noxfile.py").read_text()
    found = re.findall(r"@nox\.session(?:\((.*?)\))?\n(?:@.*\n)*def (\w+)", text)
    named = [re.search(r'name="([\w-]+)"', options) for options, _ in found]
    names = [m[1] if m else f for m, (_, f) in zip(named, found, strict=True)]
    return frozenset(names)


def test_every_page_is_in_the_menu_and_on_the_first_page() -> None:
    menu = (ROOT / "mkdocs.yml").read_text()
    index = (ROOT / "docs" / "index.md").read_text()
    for page in sorted((ROOT / "docs").rglob("*.md")):
        name = str(page.relative_to(ROOT / "docs"))
        if name == "index.md" or name.startswith(("decisions/0", "ops/", "api/")):
            continue
        assert f": {name}\n" in menu, name
        assert f"]({name})" in index, name
