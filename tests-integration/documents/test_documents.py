"""Examples in the documents run unchanged; the API's reference pages hold it."""

from __future__ import annotations

import doctest
import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

import proa

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.M | re.S)


@pytest.mark.feature("L241", "L507")  # L507: the page slim-api
@pytest.mark.parametrize(
    ("page", "minimum"),
    [
        ("tour", 20),
        ("migration", 20),
        ("custom-operators", 15),
        ("slim", 15),
        ("pruning", 20),
        ("distillation", 15),
        ("search", 25),
        ("compression", 10),
        ("compression-tutorial", 40),
        ("slim-api", 20),
        ("inference", 15),
        ("serving", 10),
        ("serving-models", 10),
    ],
)
def test_the_examples_of_a_page_run(
    page: str, minimum: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = ROOT / "docs" / f"{page}.md"
    blocks = BLOCK.findall(path.read_text(encoding="utf-8"))
    source = "\n".join(block for block in blocks if block.startswith(">>>"))
    examples = doctest.DocTestParser().get_doctest(source, {}, page, str(path), 0)
    assert len(examples.examples) > minimum
    reported: list[str] = []
    try:
        result = doctest.DocTestRunner().run(examples, out=reported.append)
    finally:
        proa.set_printoptions(precision=8)
    assert result.failed == 0, "".join(reported)


@pytest.mark.parametrize("page", ["compression-tutorial", "slim-api"])
def test_a_page_has_the_same_examples_in_chinese(page: str) -> None:
    pages = [ROOT / "docs" / f"{page}{end}.md" for end in ("", "-zh")]
    own, chinese = (BLOCK.findall(page.read_text(encoding="utf-8")) for page in pages)
    assert own == chinese


FENCED = re.compile(r"^ *```\w*\n.*?^ *```$", re.M | re.S)
NAMES = re.compile(r"`([^`\n]+)`")
# Use, development (models, clients), deployment and performance tuning.
SERVING_PAGES = ("serving", "serving-models", "serving-clients", "serving-deploy",
                 "serving-tuning")  # fmt: skip


@pytest.mark.feature("L677")
@pytest.mark.parametrize("page", SERVING_PAGES)
def test_a_page_on_serving_is_whole_in_chinese(page: str) -> None:
    """The same commands and examples, headings, names of options, and figures."""
    paths = [ROOT / "docs" / f"{page}{end}.md" for end in ("", "-zh")]
    own, chinese = (path.read_text(encoding="utf-8") for path in paths)
    assert f"({page}-zh.md)" in own and f"({page}.md)" in chinese
    assert FENCED.findall(own) == FENCED.findall(chinese)
    own, chinese = (FENCED.sub("", text) for text in (own, chinese))
    assert re.findall("^#+ ", own, re.M) == re.findall("^#+ ", chinese, re.M)
    assert own.count("\n|") == chinese.count("\n|")
    names = [set(NAMES.findall(" ".join(text.split()))) for text in (own, chinese)]
    assert names[0] == names[1]
    figures = [set(re.findall(r"\d+\.\d+", text)) for text in (own, chinese)]
    assert figures[0] == figures[1]


SLIM = ("", ".quant", ".prune", ".distill", ".pantheon", ".search", ".compression",
        ".analysis")  # fmt: skip


@pytest.mark.feature("L508")
@pytest.mark.parametrize("end", ["", "-zh"])
def test_every_name_of_slim_is_on_its_page(end: str) -> None:
    """With the tutorial, the zoo and the page's own examples, in both languages."""
    found = (ROOT / "docs" / f"slim-api{end}.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"`(\w+)`", found))
    names = {"compress", "quant_post_static", "prune_channels", "Distill", "Search"}
    for part in SLIM:
        module = importlib.import_module(f"proa_slim{part}")
        names.update(module.__all__)
    assert names - shown == {"pantheon", "search", "dist", "nas"} - shown
    for page in ("compression-tutorial", "model-zoo"):
        other = (ROOT / "docs" / f"{page}{end}.md").read_text(encoding="utf-8")
        assert other.count("\n## ") >= 4
    steps = (ROOT / "docs" / f"model-zoo{end}.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(\w+)\(", steps, re.M)) == {
        "Calibrate", "TrainQuantized", "Prune", "Train", "Renew", "OneShotSearch",
        "TrialSearch",
    }  # fmt: skip


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    path = ROOT / "tools" / "api_reference.py"
    spec = importlib.util.spec_from_file_location("api_reference", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_reference_has_a_page_for_each_module(
    generator: ModuleType, tmp_path: Path
) -> None:
    written = {path.stem: path.read_text() for path in generator.write(tmp_path)}
    for name in ("proa", "proa.nn", "proa.nn.functional", "proa.vision.models",
                 "proa.optimizer.lr", "proa.text", "proa.errors"):  # fmt: skip
        assert f"[{name}]({name}.md)" in written["index"]
    assert "class proa.nn.Linear(in_features, out_features," in written["proa.nn"]
    assert "- `in_features`" in written["proa.nn"]
    assert "**reshape**`(shape" in written["proa.Tensor"]
    # Whatever a page refers to is there: a missing page would fail the site's build.
    for text in written.values():
        for target in re.findall(r"\]\(([\w.]+)\.md", text):
            assert target in written


def test_the_reference_describes_nothing_private(
    generator: ModuleType, tmp_path: Path
) -> None:
    for path in generator.write(tmp_path):
        for name in re.findall(r"^### (\w+)$", path.read_text(), re.M):
            assert not name.startswith("_"), path.name


def test_docstrings_become_markdown(generator: ModuleType) -> None:
    doc = """Sum.

    y = a + b

    Args:
        a: First,
            and more.
        b: :func:`second`.

    Raises:
        ShapeError: If they differ.
    """
    assert "\n".join(generator.prose(doc)) == (
        "Sum.\n\ny = a + b\n\n\n**Args**\n\n- `a`: First,\n  and more.\n"
        "- `b`: `second`.\n\n**Raises**\n\n- `ShapeError`: If they differ."
    )


@pytest.mark.feature("L607")
def test_the_reference_has_every_name_of_the_predictor(
    generator: ModuleType, tmp_path: Path
) -> None:
    import proa_inference

    written = {path.stem: path.read_text() for path in generator.write(tmp_path)}
    assert "[proa_inference](proa_inference.md)" in written["index"]
    page = written["proa_inference"]
    missing = [name for name in proa_inference.__all__ if name not in page]
    assert not missing
    for method in ("enable_profile", "set_cipher_key", "try_shrink_memory", "set_lod"):
        assert f"**{method}**" in page
