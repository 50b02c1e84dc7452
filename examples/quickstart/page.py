"""The page report.html: one file without scripts, for wide and narrow screens, light
and dark.
"""

from __future__ import annotations

import html
import os
from pathlib import Path
from typing import Any

import charts
import numpy as np
from charts import kilobytes
from machine import in_words
from numpy.typing import NDArray

#: Key in report.json, heading, format of a cell.
COLUMNS: list[tuple[str, str, str]] = [
    ("runtime", "runtime", "{}"),
    ("precision", "precision", "{}"),
    ("accuracy", "accuracy", "{:.4f}"),
    ("agreement", "agreement", "{:.4f}"),
    ("p50_ms", "p50 ms", "{:.3f}"),
    ("p99_ms", "p99 ms", "{:.3f}"),
    ("images_per_s", "images/s", "{:,.0f}"),
    ("file_bytes", "file bytes", "{:,}"),
    ("rss_mb", "RSS MB", "{:.1f}"),
]

STYLE = """
:root { color-scheme: light dark; --back: #f6f8fa; --card: #fff; --ink: #1c2733;
  --soft: #5a6878; --line: #dde3ea; --fp32: #3d74b8; --int8: #d9782d;
  --bad: #b3261e; --on: #fff; }
@media (prefers-color-scheme: dark) { :root { --back: #0e1217; --card: #161b22;
  --ink: #e3e8ee; --soft: #9aa7b5; --line: #2b333d; --fp32: #6ba3e5;
  --int8: #f09a55; --bad: #ff8a80; --on: #0e1217; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { max-width: 66rem; margin: 0 auto; padding: 2.5rem 1.25rem 4rem; }
h1 { font-size: 2rem; line-height: 1.2; margin: 0 0 .5rem; letter-spacing: -.01em; }
h2 { font-size: 1.15rem; margin: 0 0 .75rem; }
h3 { font-size: .875rem; font-weight: 500; color: var(--soft); margin: .6rem 0 .2rem; }
p { margin: .5rem 0; max-width: 46rem; } .soft, small { color: var(--soft); }
a { color: var(--fp32); } code { font-size: .9em; overflow-wrap: anywhere; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 12px;
  padding: 1.25rem 1.4rem; margin-top: 1.25rem; min-width: 0; }
.tiles { display: grid; gap: 1rem; margin-top: 1.5rem;
  grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); }
.tiles div { background: var(--card); border: 1px solid var(--line);
  border-radius: 12px; padding: .9rem 1.1rem; }
.tiles b { display: block; font-size: 1.6rem; line-height: 1.25; font-weight: 650; }
.tiles span { color: var(--soft); font-size: .875rem; }
.pair { display: grid; gap: 0 1.25rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th { color: var(--soft); font-weight: 500; font-size: .8125rem; }
td, th { padding: .45rem .6rem; text-align: right; border-bottom: 1px solid var(--line);
  white-space: nowrap; }
td:nth-child(-n+2), th:nth-child(-n+2) { text-align: left; }
tbody tr:last-child td { border-bottom: 0; }
.dot { display: inline-block; width: .6rem; height: .6rem; border-radius: 50%;
  margin-right: .45rem; } .dot.fp32 { background: var(--fp32); }
.dot.int8 { background: var(--int8); }
svg { display: block; width: 100%; height: auto; font-size: 12.5px; }
svg text { fill: var(--ink); } svg rect.fp32, svg rect.true { fill: var(--fp32); }
svg rect.int8, svg rect.false, svg circle.int8 { fill: var(--int8); }
svg text.strong { fill: var(--on); }
svg polyline { fill: none; stroke-width: 2; } svg polyline.fp32 { stroke: var(--fp32); }
svg polyline.int8 { stroke: var(--int8); }
svg .grid { stroke: var(--line); } svg .key-fp32 { fill: var(--fp32); }
svg .key-int8 { fill: var(--int8); }
.samples { display: grid; gap: .75rem;
  grid-template-columns: repeat(auto-fill, minmax(5.5rem, 1fr)); }
.samples figure { margin: 0; font-size: .75rem; line-height: 1.3; text-align: center; }
.samples img { width: 100%; image-rendering: pixelated; border-radius: 6px;
  display: block; margin-bottom: .3rem; } .wrong { color: var(--bad); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .3rem 1.25rem;
  margin: 0; } dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
@media (max-width: 46rem) {
  main { padding: 1.5rem .8rem 3rem; } h1 { font-size: 1.55rem; }
  section { padding: 1rem; } thead { display: none; }
  .runtimes tr { display: grid; grid-template-columns: 1fr 1fr; gap: 0 1.2rem;
    padding: .6rem 0; border-bottom: 1px solid var(--line); }
  .runtimes tbody tr:last-child { border-bottom: 0; }
  .runtimes td { display: flex; justify-content: space-between; border: 0;
    padding: .1rem 0; font-size: .875rem; }
  .runtimes td::before { content: attr(data-label); color: var(--soft); }
  .runtimes td:nth-child(1), .runtimes td:nth-child(2) { font-weight: 600;
    font-size: 1rem; } .runtimes td:nth-child(-n+2)::before { content: none; }
  .runtimes td:nth-child(2) { justify-content: flex-end; }
  dl { grid-template-columns: 1fr; } dd { margin-bottom: .4rem; } }
"""


def page(
    folder: Path,
    report: dict[str, Any],
    images: NDArray[np.float32],
    labels: NDArray[np.int64],
    logits: NDArray[np.float32],
    classes: tuple[str, ...],
) -> str:
    """The whole page."""
    rows = report["runtimes"]
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Proa: LeNet from training to serving</title>
<style>{STYLE}</style></head><body><main>
{_opening(report)}
<section><h2>The same file in every runtime</h2>
{_table(rows)}
{_how_measured(report)}</section>
<div class="pair">
<section><h2>Latency of one image</h2>{_latency_bars(rows)}</section>
<section><h2>Size of the model</h2>{_size_bars(rows)}{_equality(report)}</section>
<section><h2>Training</h2>{charts.training_curve(report["train"])}
<p class="soft">Cross-entropy by step, averaged over a sixtieth of the run; accuracy on
the {report["data"]["test"]:,} test images after each epoch, on an axis from 0 to
1.</p></section>
<section><h2>Quantization to int8</h2>{_quantization(report)}</section>
<section><h2>What it confuses</h2>{charts.confusion(labels, logits, classes)}
<p class="soft">Rows are the truth, columns the prediction of the fp32
model.</p></section>
<section><h2>Samples</h2>{_samples(images, labels, logits, classes)}</section>
</div>
<section><h2>Machine and versions</h2>{_machine(report)}</section>
<section><h2>What next</h2>{_next(folder)}</section>
</main></body></html>
"""


def _opening(report: dict[str, Any]) -> str:
    data, seconds = report["data"], report["seconds"]
    rows = {(r["runtime"], r["precision"]): r for r in report["runtimes"]}
    fp32, int8 = rows["inference", "fp32"], rows["inference", "int8"]
    change = (int8["accuracy"] - fp32["accuracy"]) * 100
    tiles = (
        (f"{fp32['accuracy'] * 100:.1f} %", "test accuracy, fp32"),
        (f"{change:+.2f}", "points of accuracy by int8"),
        (f"{fp32['file_bytes'] / int8['file_bytes']:.1f} ×", "smaller file in int8"),
        (f"{int8['p50_ms']:.3f} ms", "one image, int8, inference"),
        ("yes" if report["int8_bit_equal"] else "NO", "int8 bit-equal everywhere"),
    )
    steps = [
        f"{name} {in_words(seconds[name])}"
        for name in ("build", "train", "compress")
        if seconds[name] is not None
    ]
    shown = "".join(f"<div><b>{a}</b><span>{b}</span></div>" for a, b in tiles)
    return f"""<h1>LeNet, from training to serving</h1>
<p>A network of {report["train"]["parameters"]:,} parameters learned
{html.escape(data["name"])} ({data["train"]:,} images to train, {data["test"]:,} to
test, from {html.escape(data["source"])}), was quantized to int8, saved as one file for
each precision, and run by every package of Proa.</p>
<p class="soft">The run took {in_words(seconds["total_without_build"])}, wheels not
counted ({", ".join(steps)}).</p>
<div class="tiles">{shown}</div>"""


def cells(row: dict[str, Any]) -> list[str]:
    """A row of the table as text."""
    return [form.format(row[key]) for key, _, form in COLUMNS]


def _table(rows: list[dict[str, Any]]) -> str:
    head = "".join(f"<th>{title}</th>" for _, title, _ in COLUMNS)
    body = []
    for row in rows:
        body.append("<tr>")
        for (key, title, _), cell in zip(COLUMNS, cells(row), strict=True):
            dot = f'<span class="dot {row["precision"]}"></span>' * (key == "precision")
            text = f"<span>{dot}{html.escape(cell)}</span>"
            body.append(f'<td data-label="{title}">{text}</td>')
        body.append("</tr>")
    return (
        f'<table class="runtimes"><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table>"
    )


def _how_measured(report: dict[str, Any]) -> str:
    measured = report["measured"]
    isas = sorted({(row["isa"], row["runtime"]) for row in report["runtimes"]})
    sets: dict[str, list[str]] = {}
    for isa, runtime in isas:
        sets.setdefault(isa, []).append(runtime)
    processors = "; ".join(f"{isa}: {', '.join(names)}" for isa, names in sets.items())
    return f"""<p class="soft"><b>Agreement</b> is the share of test images for which a
row predicts the same class as eager fp32; 1.0000 means all of them. <b>p50</b> and
<b>p99</b> are percentiles of the time of one image, over {measured["latency_runs"]}
calls; <b>images/s</b> is for batches of {measured["batch"]}. Every row computes with
<b>{measured["threads"]} thread</b>, in a process of its own; the times of serving
include the client and the loopback connection. <b>RSS</b> is the memory of that
process, of serving the server's. Instruction sets: {html.escape(processors)}.</p>"""


def _latency_bars(rows: list[dict[str, Any]]) -> str:
    parts = []
    for title, served in (("In the process", False), ("Through a server", True)):
        items = [
            (charts.label(row), row["p50_ms"], row["precision"])
            for row in rows
            if row["runtime"].startswith("serving") == served
        ]
        chart = charts.bars(items, f"{title}: median", lambda v: f"{v:.3f} ms")
        parts.append(f"<h3>{title}</h3>{chart}")
    return "".join(parts)


def _size_bars(rows: list[dict[str, Any]]) -> str:
    sizes = {r["precision"]: r["file_bytes"] for r in rows if r["runtime"] != "eager"}
    names = {"fp32": "lenet.proa", "int8": "lenet.int8.proa"}
    items = [(names[kind], float(size), kind) for kind, size in sizes.items()]
    return charts.bars(items, "Size of the model files", kilobytes)


def _equality(report: dict[str, Any]) -> str:
    equal = "are bit-equal" if report["int8_bit_equal"] else "are NOT bit-equal"
    return f"""<p>Weights and graph are in the file; there is nothing to convert. The
fp32 logits of the runtimes differ by at most {report["fp32_max_abs_diff"]:.1e}; their
int8 logits {equal}, also to slim's own evaluation.</p>"""


def _quantization(report: dict[str, Any]) -> str:
    done, names = report["compress"], {
        "ptq_abs_max": "calibrated, abs-max",
        "ptq_kl": "calibrated, KL",
        "qat": "trained, 1 epoch",
    }  # fmt: skip
    items = [("fp32", float(report["train"]["accuracy"][-1]), "fp32")]
    items += [(name, float(done[key]), "int8") for key, name in names.items()]
    chart = charts.bars(items, "Accuracy on the test images", lambda v: f"{v:.4f}")
    return f"""{chart}<p class="soft">Accuracy on the test images, from zero.
Calibration
saw images of the training set alone; the KL-calibrated model is the one that all
runtimes ran.</p>"""


def _samples(
    images: NDArray[np.float32],
    labels: NDArray[np.int64],
    logits: NDArray[np.float32],
    classes: tuple[str, ...],
) -> str:
    guess = logits.argmax(1)
    wrong = np.flatnonzero(guess != labels)[:6]
    shown = np.concatenate([np.flatnonzero(guess == labels)[: 18 - len(wrong)], wrong])
    parts = []
    for i in shown:
        label = html.escape(classes[guess[i]])
        if guess[i] != labels[i]:
            truth = html.escape(classes[labels[i]])
            label = f'<span class="wrong">{label}</span><br/>is {truth}'
        uri = charts.image_uri(images[i, 0])
        parts.append(
            f'<figure><img src="{uri}" alt=""><figcaption>{label}</figcaption></figure>'
        )
    return (
        f'<div class="samples">{"".join(parts)}</div>'
        '<p class="soft">In <span class="wrong">red</span>: what it got wrong.</p>'
    )


def _machine(report: dict[str, Any]) -> str:
    machine = report["machine"]
    versions = ", ".join(f"{k} {v}" for k, v in machine["packages"].items())
    facts = {
        "Processor": f"{machine['cpu']}, {machine['cores']} cores seen",
        "System": f"{machine['system']}, Python {machine['python']}, "
        f"NumPy {machine['numpy']}",
        "Packages": versions,
        "Date": f"{machine['date']} (UTC)",
        "Command": "nox -s quickstart",
    }
    return (
        "<dl>"
        + "".join(f"<dt>{k}</dt><dd>{html.escape(v)}</dd>" for k, v in facts.items())
        + "</dl>"
    )


def _next(folder: Path) -> str:
    root = Path(__file__).resolve().parents[2]
    here = os.path.relpath(root, folder.resolve())

    def link(path: str, text: str) -> str:
        return f'<a href="{html.escape(f"{here}/{path}")}">{text}</a>'

    model = html.escape(str(folder / "lenet.int8.proa"))
    return f"""<ul>
<li>Time the file yourself: <code>proa infer bench {model}</code>, look into it:
<code>proa infer inspect {model}</code></li>
<li>Serve it: <code>proa serve {model} --http 8000</code>
({link("docs/serving.md", "guide to serving")})</li>
<li>Read how each part works: {link("docs/tour.md", "a quick tour")},
{link("docs/slim.md", "slim")}, {link("docs/inference.md", "inference")},
{link("docs/lite.md", "lite")}</li>
<li>Come from Paddle: {link("docs/migration.md", "what differs")}</li>
<li>Read this program: {link("examples/quickstart", "examples/quickstart")}; every
figure of this page is in <a href="report.json">report.json</a></li></ul>"""
