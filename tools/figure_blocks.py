"""The blocks of documents that hold measured figures, for `tools/figures.py`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

Figures = dict[str, Any]
#: Tables that full tests of slim write.
SLIM_TABLES = (
    *("calibration", "corrections", "weights", "training"),
    *("distillation", "pruning", "sensitivity", "pantheon"),
)
#: Those of them that do not depend on a seed.
_UNSEEDED = ("pantheon",)
#: Networks of the suite infer.
NETWORKS = {
    "resnet50": "ResNet-50",
    "mobilenet_v1": "MobileNetV1",
    "mobilenet_v2": "MobileNetV2",
    "mobilenet_v3_large": "MobileNetV3-large",
    "bert_base": "BERT-base, 128 words",
    "lstm": "LSTM, 2 layers of 650, 35 words",
    "wide_deep": "Wide & Deep",
    "ocr_det": "PP-OCRv4 detector, 640 × 640",
    "ocr_rec": "PP-OCRv4 recogniser, 48 × 320",
}


def _rounded(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}"


def _mean(rows: list[Figures]) -> float:
    return math.exp(sum(math.log(row["ratio"]) for row in rows) / len(rows))


def _row_of(measured: Figures, runtime: str, precision: str) -> Figures:
    rows: list[Figures] = measured["quickstart"]["runtimes"]
    return next(
        r for r in rows if (r["runtime"], r["precision"]) == (runtime, precision)
    )


def _where(part: Figures) -> str:
    return f"{part['cpu']}, {part['date']}, `{part['command']}`"


def packages(measured: Figures) -> str:
    """The five packages with the sizes of their wheels."""
    sizes = measured["sizes"]
    rows = (
        ("proa", "tensors, autograd, layers, training, graphs, model files", "NumPy"),
        ("proa_slim", "quantization, pruning, distillation, search", "proa"),
        ("proa_inference", "predictor for servers; C, C++, Go, Java and R", "proa"),
        ("proa_lite", "runtime for small devices: a C library", "NumPy"),
        ("proa_serving", "HTTP and gRPC, Open Inference Protocol",
         "grpcio, protobuf, httptools, prometheus_client"),
    )  # fmt: skip
    lines = ["| package | what it is | wheel | needs |", "|---|---|---|---|"]
    for name, about, needs in rows:
        size = sizes[f"wheel {name}, MB"]
        weight = f"{size:.1f} MB" if size >= 1 else f"{size * 1000:.0f} KB"
        lines.append(f"| `{name}` | {about} | {weight} | {needs} |")
    lines += [
        "",
        f"`import proa` takes {sizes['import proa, ms']:.0f} ms and "
        f"{sizes['import proa, MB']:.0f} MB beyond NumPy; lite's library is "
        f"{sizes['lite library, full, KB']:.0f} KB, or "
        f"{sizes['lite library, lenet, KB']:.0f} KB with the operators of LeNet alone "
        f"({sizes['date']}, `{sizes['command']}`).",
    ]
    return "\n".join(lines)


def wheel(name: str) -> Callable[[Figures], str]:
    """A sentence about the size of one wheel."""

    def text(measured: Figures) -> str:
        sizes = measured["sizes"]
        size = sizes[f"wheel {name}, MB"]
        weight = f"{size:.1f} MB" if size >= 1 else f"{size * 1000:.0f} KB"
        return f"The wheel is {weight} ({sizes['date']}, `{sizes['command']}`)."

    return text


def training(measured: Figures) -> str:
    """Whole training steps compared with the best peer."""
    part = measured["training"]
    lines = [
        "| one training step, float32 | ours, ms | over the best peer | best peer |",
        "|---|---|---|---|",
    ]
    for row in part["rows"]:
        lines.append(
            f"| {row['network']} | {_rounded(row['ms'])} | {row['ratio']:.2f} | "
            f"{row['peer']} |"
        )
    lines += [
        "",
        f"The geometric mean is {_mean(part['rows']):.2f} (below 1 is faster; "
        f"{part['threads']} thread, peers {part['peers']}; {_where(part)}).",
    ]
    return "\n".join(lines)


def training_with_compiled(measured: Figures) -> str:
    """The same with the step under `jit.to_static`, for docs/speed.md."""
    lines = [
        "| network | time, ms | compiled, ms | over the best peer | best peer |",
        "|---|---|---|---|---|",
    ]
    for row in measured["training"]["rows"]:
        compiled = row["compiled_ms"]
        lines.append(
            f"| {row['network']} | {_rounded(row['ms'])} | "
            f"{_rounded(compiled) if compiled else ''} | {row['ratio']:.2f} | "
            f"{row['peer']} |"
        )
    return "\n".join(lines)


def inference(precision: str) -> Callable[[Figures], str]:
    """Saved models compared with the best peer, a row for a network."""

    def text(measured: Figures) -> str:
        part = measured[f"inference-{precision}"]
        chosen = sorted({(row["threads"], row["batch"]) for row in part["rows"]})
        head, rows = ["network"], {name: [title] for name, title in NETWORKS.items()}
        ends = []
        for threads, batch in chosen:
            found = {
                row["workload"]: row
                for row in part["rows"]
                if (row["threads"], row["batch"]) == (threads, batch)
            }
            head += [f"{threads} thread{'s' * (threads > 1)}, batch {batch}, ms",
                     "best peer", "over it"]  # fmt: skip
            if precision != "fp32":
                head.append("over float32")
            for name, cells in rows.items():
                cells += _latency_cells(found.get(name), precision)
            rated = [row for row in found.values() if row["ratio"]]
            ends.append(f"batch {batch} on {threads}: {_mean(rated):.2f}")
        lines = [head, ["---"] * len(head)]
        lines += [cells for cells in rows.values() if any(cells[1:])]
        table = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
        return (
            f"{table}\n\nGeometric means over the best peer: {'; '.join(ends)}.\n"
            f"Rows with a star spread or were disturbed: no verdict.\n{_where(part)}."
        )

    return text


def _latency_cells(row: Figures | None, precision: str) -> list[str]:
    if row is None:
        return [""] * (3 if precision == "fp32" else 4)
    star = "*" if row["kept"] is None else ""
    ratio = f"{row['ratio']:.2f}{star}" if row["ratio"] else ""
    digits = 3 if row["ms"] < 0.1 else 2 if row["ms"] < 10 else 1
    cells = [f"{row['ms']:.{digits}f}", row["peer"] or "", ratio]
    if precision != "fp32":
        cells.append(f"{row['of_fp32']:.2f}" if row["of_fp32"] else "")
    return cells


def quickstart(measured: Figures) -> str:
    """The sentence below the picture of the runtimes."""
    part = measured["quickstart"]
    fp32, int8 = (_row_of(measured, "inference", p) for p in ("fp32", "int8"))
    return (
        f"LeNet learned {part['data']} to {fp32['accuracy']:.1%}, in int8 "
        f"{int8['accuracy']:.1%}; the int8 file is "
        f"{fp32['file_bytes'] / int8['file_bytes']:.1f} times smaller. The run took "
        f"{part['seconds']} seconds ({_where(part)})."
    )


def slim(measured: Figures) -> str:
    """Accuracy of each way to int8."""
    part = measured["quickstart"]
    names = {
        "fp32": "float32",
        "ptq_abs_max": "`quant_post_static`, `abs_max`",
        "ptq_kl": "`quant_post_static`, `kl`",
        "qat": "`QAT`, one epoch",
    }
    lines = [f"| LeNet on {part['data']} | test accuracy |", "|---|---|"]
    lines += [f"| {n} | {part['accuracy'][k]:.4f} |" for k, n in names.items()]
    sizes = [_row_of(measured, "inference", p)["file_bytes"] for p in ("fp32", "int8")]
    lines += ["", f"The file shrinks from {sizes[0]:,} to {sizes[1]:,} bytes "
              f"({part['date']}, `{part['command']}`)."]  # fmt: skip
    return "\n".join(lines)


def slim_table(name: str) -> Callable[[Figures], str]:
    """A table that a full test of slim wrote."""

    def text(measured: Figures) -> str:
        part = measured[f"slim-{name}"]
        lines = [part["header"], ["---"] * len(part["header"]), *part["rows"]]
        rows = [f"| {' | '.join(line)} |" for line in lines]
        seeds = "" if name in _UNSEEDED else "Three seeds; "
        return "\n".join([*rows, "", f"{seeds}{_where(part)}."])

    return text


def int8_latency(measured: Figures) -> str:
    """Times of int8 files against float32."""
    part = measured["int8-latency"]
    lines = ["| network | float32, ms | int8, ms | times as fast |"]
    lines.append("|---|---|---|---|")
    for row in part["rows"]:
        before, after = row["ms"]
        lines.append(
            f"| {row['network']} | {before:.2f} | {after:.2f} | {before / after:.2f} |"
        )
    return "\n".join([*lines, "", f"Batch 1, one thread; {_where(part)}."])


def search(measured: Figures) -> str:
    """What searches of the table find, and what a supernet costs."""
    part, shot = measured["search"], measured["search"]["one_shot"]
    lines = [
        f"| {part['steps']} trials, {part['seeds']} seeds | in the best 5 % | better "
        "networks: median (greatest) | epochs saved: mean (least) |",
        "|---|---|---|---|",
    ]
    for row in part["rows"]:
        saved = f"{row['saved']:.0%} ({row['least_saved']:.0%})" if row["saved"] else ""
        lines.append(
            f"| {row['name']} | {row['top5']} of {part['seeds']} | "
            f"{row['median_better']:.1%} ({row['worst_better']:.1%}) | {saved} |"
        )
    seconds = shot["seconds_train"] + shot["seconds_search"]
    alone = shot["steps"] * shot["seconds_each"]
    lines += [
        "",
        f"A supernet of this space, {shot['epochs']} epochs and {shot['steps']} "
        f"evaluations, took {seconds:.0f} s of one thread;",
        f"training {shot['steps']} networks takes {alone:.0f} s, "
        f"{shot['ratio']:.0f} times as long. Of all networks {shot['better']:.1%} are "
        "better than the",
        f"one it found ({_where(part)}).",
    ]
    return "\n".join(lines)


def zoo(measured: Figures) -> str:
    """A row for each recipe of the zoo: its network before and after."""
    lines = [
        "| recipe | how | before | after | multiply-adds, M | parameters, thousand | "
        "file, KB | one image, ms |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for recipe, row in measured["zoo"]["rows"].items():
        before, after = row["value"]
        shown = [
            " → ".join(f"{number / unit:.{digits}f}" for number in row[key])
            for key, unit, digits in (
                ("flops", 1e6, 1), ("parameters", 1e3, 0), ("bytes", 1e3, 0),
                ("ms", 1, 3),
            )
        ]  # fmt: skip
        lines.append(
            f"| `{recipe}` | {row['method']} | {row['metric']} {before:.1f} | "
            f"{after:.1f} | {' | '.join(shown)} |"
        )
    where = _where(measured["zoo"])
    return "\n".join(
        [*lines, "", f"Times are of one thread of `proa_inference`; {where}."]
    )


def latency(runtime: str) -> Callable[[Figures], str]:
    """The rows of one runtime in the quickstart."""

    def text(measured: Figures) -> str:
        part = measured["quickstart"]
        lines = [
            "| LeNet | one image, median | images a second, batches of 100 |",
            "|---|---|---|",
        ]
        for row in part["runtimes"]:
            if row["runtime"] == runtime:
                lines.append(
                    f"| {row['precision']} | {row['p50_ms']:.3f} ms | "
                    f"{row['images_per_s']:,.0f} |"
                )
        lines += ["", f"{part['threads']} thread; {_where(part)}."]
        return "\n".join(lines)

    return text


def lite_sizes(measured: Figures) -> str:
    """Lite's libraries on each processor."""
    sizes, boards = measured["sizes"], measured["boards"]
    full, lenet = (sizes[f"lite library, {n}, KB"] for n in ("full", "lenet"))
    return "\n".join([
        "| | full library | LeNet: float32, fused and int8 in one |",
        "|---|---|---|",
        f"| x86-64 ({sizes['date']}) | {full:.1f} KB | {lenet:.1f} KB |",
        f"| aarch64 ({boards['date']}) | {boards['aarch64_full_kb']:.1f} KB | below "
        f"{boards['aarch64_lenet_below_kb']:.1f} KB |",
    ])  # fmt: skip


RENDERERS: dict[str, Callable[[Figures], str]] = {
    "packages": packages,
    "training": training,
    "training-compiled": training_with_compiled,
    **{f"inference-{p}": inference(p) for p in ("fp32", "int8", "bf16")},
    "quickstart": quickstart,
    "search": search,
    "slim": slim,
    "zoo": zoo,
    "int8-latency": int8_latency,
    **{f"slim-{name}": slim_table(name) for name in SLIM_TABLES},
    "latency-inference": latency("inference"),
    "latency-lite": latency("lite"),
    "lite-sizes": lite_sizes,
    **{f"wheel-{name}": wheel(name) for name in
       ("proa", "proa_slim", "proa_inference", "proa_lite", "proa_serving")},
}  # fmt: skip
