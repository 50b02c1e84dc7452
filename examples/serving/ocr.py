"""Reading printed text: pictures of lines in, text out.

A Python model finds the characters of a line by the empty columns between them, and a
convolutional network, which learned Pillow's own font in several sizes, reads all of
them as one batch.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from training import Array, fit, save, save_python

import proa
from proa import nn

# Without those that look like others: I, O and 1.
CHARACTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ023456789"
SIDE, BATCH, STEPS = 20, 128, 250

MODEL = '''
"""Pictures of lines to text: around the network `characters`."""

import io

import numpy as np
from PIL import Image

inputs = [("file", "BYTES", (-1,))]
outputs = [("text", "BYTES", (-1,))]
CHARACTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ023456789"


def cut(data):
    """Each character of a picture, (20, 20) in 0 to 1, and whether a space follows."""
    grey = Image.open(io.BytesIO(data)).convert("L")
    ink = 1 - np.asarray(grey, np.float32) / 255
    columns = np.flatnonzero((ink > 0.5).any(0))
    parts = np.split(columns, np.flatnonzero(np.diff(columns) > 1) + 1)
    found, spaces = [], []
    for at, part in enumerate(parts):
        if not len(part):
            continue
        held = ink[:, part[0] : part[-1] + 1]
        rows = np.flatnonzero((held > 0.5).any(1))
        held = held[rows[0] : rows[-1] + 1]
        scale = 18 / max(held.shape)
        size = [max(1, round(side * scale)) for side in held.shape[::-1]]
        small = Image.fromarray((held * 255).astype(np.uint8)).resize(size)
        cell = np.zeros((20, 20), np.float32)
        top, left = (20 - size[1]) // 2, (20 - size[0]) // 2
        cell[top : top + size[1], left : left + size[0]] = np.asarray(small) / 255
        found.append(cell)
        after = parts[at + 1][0] - part[-1] if at + 1 < len(parts) else 0
        spaces.append(after > 0.17 * ink.shape[0])
    return found, spaces


async def run(inputs, infer):
    lines = [cut(data) for data in inputs["file"]]
    cells = [cell for found, _ in lines for cell in found]
    if not cells:
        return {"text": np.array([b""] * len(lines), object)}
    scores = (await infer("characters", {"image": np.stack(cells)[:, None]}))["scores"]
    read = iter(scores.argmax(-1))
    texts = [
        "".join(CHARACTERS[next(read)] + " " * bool(space) for space in spaces)
        for _, spaces in lines
    ]
    return {"text": np.array([text.encode() for text in texts], object)}
'''


class Characters(nn.Layer):
    """Images (batch, 1, SIDE, SIDE) to scores (batch, characters)."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2D(1, 16, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2D(2, 2),
            nn.Conv2D(16, 32, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2D(2, 2),
            nn.Flatten(),
            nn.Linear(32 * (SIDE // 4) ** 2, len(CHARACTERS)),
        )

    def forward(self, image: proa.Tensor) -> proa.Tensor:
        return self.body(image)


def picture(text: str, size: int = 28) -> bytes:
    """A PNG of a line of ``text``, black on white."""
    import io

    from PIL import Image, ImageDraw, ImageFont

    font = ImageFont.load_default(size)
    found = Image.new("L", (size * len(text) + 2 * size, 2 * size), 255)
    draw, x = ImageDraw.Draw(found), size // 2
    for char in text:  # apart, as print with wide spacing is
        draw.text((x, size // 3), char, 0, font)
        x += round(draw.textlength(char, font)) + 3
    data = io.BytesIO()
    found.save(data, "PNG")
    return data.getvalue()


def build(folder: Path) -> None:
    """Train, and write the repository."""
    results: dict[str, object] = {}
    exec(MODEL, results)  # the same cells as the server cuts
    cells = [
        results["cut"](picture(CHARACTERS, size))[0]  # type: ignore[operator]
        for size in range(18, 42, 2)
    ]
    known = np.array([held for held in cells if len(held) == len(CHARACTERS)])

    def draw(rng: np.random.Generator) -> tuple[Array, ...]:
        sizes = rng.integers(len(known), size=BATCH)
        labels = rng.integers(len(CHARACTERS), size=BATCH)
        x = known[sizes, labels] + rng.normal(0, 0.1, (BATCH, SIDE, SIDE))
        for at, (down, right) in enumerate(rng.integers(-1, 2, (BATCH, 2))):
            x[at] = np.roll(x[at], (down, right), (0, 1))
        return x[:, None].astype(np.float32), labels.astype(np.int64)

    proa.seed(0)
    net = Characters()
    fit(net, draw, nn.functional.cross_entropy, steps=STEPS)
    shape = ([None, 1, SIDE, SIDE], "float32")
    save(net, folder, "characters", {"image": shape}, "scores", max_batch=64)
    save_python(folder, "read", MODEL)
