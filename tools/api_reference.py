"""Write the reference pages of the public Python API from its docstrings.

    python tools/api_reference.py docs/api

One page for each public module of the installed packages, and an index. A name is on
the page of the module that it is used by (`proa.nn.Linear`), once: other modules that
export it too refer to it.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

#: The packages that are described.
TOPS = ("proa", "proa_slim", "proa_inference", "proa_lite", "proa_serving")
_SECTION = re.compile(
    r"^(Args|Returns|Raises|Shape|Yields|Attributes|Example|Examples):$"
)
_ROLE = re.compile(r":\w+:`~?([^`]+)`")


def public_modules() -> list[str]:
    """The packages, and the modules that `__all__` of a public module names."""
    found: list[str] = []
    waiting = list(TOPS)
    while waiting:
        name = waiting.pop()
        found.append(name)
        for _, value in _exported(importlib.import_module(name)):
            if inspect.ismodule(value) and value.__name__ not in (*found, *waiting):
                waiting.append(value.__name__)
    return sorted(found)


def _exported(module: ModuleType) -> Iterator[tuple[str, object]]:
    """What `__all__` names; left out is what needs a package that is not installed."""
    for name in sorted(module.__all__, key=lambda n: (n.lower(), n)):
        try:
            yield name, getattr(module, name)
        except ImportError:
            continue


def members(module: ModuleType) -> Iterator[tuple[str, object]]:
    """Exported names that are not modules, with what they are."""
    for name, value in _exported(module):
        if not inspect.ismodule(value):
            yield name, value


def signature(value: object) -> str:
    """The parameters as text; empty if there are none."""
    try:
        parameters = inspect.signature(value).parameters.values()  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return ""
    parts: list[str] = []
    star = False
    for p in parameters:
        if p.name in ("self", "cls"):
            continue
        if p.kind is p.KEYWORD_ONLY and not star:
            parts.append("*")
        star = star or p.kind in (p.KEYWORD_ONLY, p.VAR_POSITIONAL)
        prefix = "*" if p.kind is p.VAR_POSITIONAL else ""
        prefix = "**" if p.kind is p.VAR_KEYWORD else prefix
        default = "" if p.default is p.empty else f"={_short(p.default)}"
        parts.append(f"{prefix}{p.name}{default}")
    return f"({', '.join(parts)})"


def _short(value: object) -> str:
    text = repr(value)
    if " at 0x" in text or len(text) > 40:
        return getattr(value, "__name__", type(value).__name__)
    return text


def prose(doc: str) -> list[str]:
    """A docstring as Markdown: sections as lists, formulas as code."""
    lines: list[str] = []
    section = ""
    for line in inspect.cleandoc(doc).splitlines():
        line = _ROLE.sub(r"`\1`", line)
        head = _SECTION.match(line)
        if head:
            section = head[1]
            lines += ["", f"**{section}**", ""]
        elif section and line and not line.startswith(" "):
            section = ""
            lines += ["", line]
        elif section and section not in ("Example", "Examples"):
            lines += _entry(line, section)
        else:
            lines.append(line)
    return lines


def _entry(line: str, section: str) -> list[str]:
    """A line of a section: `name: text` begins an item, deeper lines go on."""
    text = line[4:] if line.startswith("    ") else line
    if not text.strip():
        return []
    named = re.match(r"^(\*{0,2}[\w., ]+): (.*)$", text)
    if named and section in ("Args", "Raises", "Attributes"):
        return [f"- `{named[1]}`: {named[2]}"]
    if text.startswith(" "):
        return [f"  {text.strip()}"]
    return [text]


def entry(path: str, value: object) -> list[str]:
    """One name: heading, signature, docstring, and the methods of a class."""
    kind = "class " if inspect.isclass(value) else ""
    lines = [f"### {path.rpartition('.')[2]}", ""]
    lines += ["```python", f"{kind}{path}{signature(value)}", "```", ""]
    doc = inspect.getdoc(value) if callable(value) else None
    own = doc and (not inspect.isclass(value) or value.__doc__)
    lines += prose(doc) if doc and own else []
    if inspect.isclass(value):
        for name, method in sorted(vars(value).items()):
            method = getattr(method, "__func__", method)
            text = getattr(method, "__doc__", None)
            if name.startswith("_") or not callable(method) or not text:
                continue
            lines += ["", f"**{name}**`{signature(method)}`", "", *prose(text)]
    return [*lines, ""]


def page(name: str, homes: dict[int, str]) -> list[str]:
    """The page of a module. `homes` knows where each value has been described."""
    module = importlib.import_module(name)
    lines = [f"# {name}", "", *prose(module.__doc__ or ""), ""]
    elsewhere: list[str] = []
    for member, value in members(module):
        path = f"{name}.{member}"
        home = homes.setdefault(id(value), path) if _described(value) else path
        if home != path:
            owner = home.rpartition(".")[0]
            elsewhere.append(f"`{member}` ([{home}]({owner}.md#{_anchor(home)}))")
        elif _described(value):
            lines += entry(path, value)
        else:
            lines += [f"### {member}", "", f"`{path}` = `{_short(value)}`", ""]
    if elsewhere:
        lines += ["## Described elsewhere", "", ", ".join(elsewhere), ""]
    return lines


def _described(value: object) -> bool:
    return inspect.isclass(value) or inspect.isroutine(value) or callable(value)


def _anchor(path: str) -> str:
    return path.rpartition(".")[2].lower()


def tensor_page() -> list[str]:
    """Methods and properties of tensors."""
    tensor = importlib.import_module("proa").Tensor
    lines = ["# proa.Tensor", "", *prose(tensor.__doc__ or ""), ""]
    for name in sorted(n for n in dir(tensor) if not n.startswith("_")):
        value = inspect.getattr_static(tensor, name)
        value = getattr(value, "__func__", value)
        doc = getattr(value, "__doc__", None) or ""
        first = doc.strip().split("\n\n")[0].replace("\n", " ")
        text = _ROLE.sub(r"`\1`", " ".join(first.split()))
        call = signature(value) if callable(value) else ""
        call = re.sub(r"^\((x|input)(, )?", "(", call)
        lines.append(f"- **{name}**`{call}` {text}" if call else f"- **{name}** {text}")
    return [*lines, ""]


def write(folder: Path) -> list[Path]:
    """All pages; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.md"):
        old.unlink()
    names = public_modules()
    homes: dict[int, str] = {}
    # The deepest module is a name's home: proa.nn.Linear, not proa.nn.layer.Linear,
    # but proa.callbacks.X at its own place; so shorter paths first.
    ordered = sorted(names, key=lambda n: (n != "proa", n.count("."), n))
    pages = {name: page(name, homes) for name in ordered}
    index = ["# API reference", "", "Written from the docstrings.", ""]
    index.append("- [proa.Tensor](proa.Tensor.md): methods and properties")
    for name in sorted(names):
        doc = (importlib.import_module(name).__doc__ or "").strip().split("\n")[0]
        index.append(f"- [{name}]({name}.md): {doc}")
        (folder / f"{name}.md").write_text("\n".join(pages[name]), encoding="utf-8")
    (folder / "proa.Tensor.md").write_text("\n".join(tensor_page()), encoding="utf-8")
    (folder / "index.md").write_text("\n".join([*index, ""]), encoding="utf-8")
    return sorted(folder.glob("*.md"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, help="where the pages go, as docs/api")
    written = write(parser.parse_args().folder)
    print(f"{len(written)} pages in {written[0].parent}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
