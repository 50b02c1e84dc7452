"""A model whose answer has a length known only at run time: its file holds the loop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proa
import proa_inference
from proa import nn

WORDS, WIDTH, END = 20, 16, 0


class Writer(nn.Layer):
    """Words after a start, the likeliest each, until the end or as many as allowed."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(WORDS, WIDTH)
        self.cell = nn.GRUCell(WIDTH, WIDTH)
        self.out = nn.Linear(WIDTH, WORDS)

    def forward(self, start: Any, limit: Any) -> Any:
        state = proa.zeros([1, WIDTH])
        for word in start:
            _, state = self.cell(self.table(word.reshape([1])), state)
        text, count, score = start[:0], proa.zeros([], "int64"), proa.zeros([])
        while count < limit:
            chances = nn.functional.log_softmax(self.out(state), axis=-1)[0]
            word = chances.argmax()
            score = score + chances.max()
            if word == END:
                break
            text = proa.concat([text, word.reshape([1])])
            _, state = self.cell(self.table(word.reshape([1])), state)
            count += 1
        if count > 0:
            score = score / count.astype("float32")
        return text, score


def written(model: Writer, start: list[int], limit: int) -> tuple[list[int], float]:
    """The same by NumPy."""
    p = {name: t.numpy().astype("f8") for name, t in model.state_dict().items()}

    def cell(word: int, h: np.ndarray) -> np.ndarray:
        x = p["table.weight"][word]
        a = p["cell.weight_ih"] @ x + p["cell.bias_ih"]
        b = p["cell.weight_hh"] @ h + p["cell.bias_hh"]
        (ar, az, an), (br, bz, bn) = np.split(a, 3), np.split(b, 3)
        reset, keep = 1 / (1 + np.exp(-ar - br)), 1 / (1 + np.exp(-az - bz))
        new = np.tanh(an + reset * bn)
        return (h - new) * keep + new

    h = np.zeros(WIDTH)
    for word in start:
        h = cell(word, h)
    text: list[int] = []
    score = 0.0
    while len(text) < limit:
        z = h @ p["out.weight"] + p["out.bias"]
        chances = z - np.log(np.exp(z).sum())
        word = int(chances.argmax())
        score += chances.max()
        if word == END:
            break
        text.append(word)
        h = cell(word, h)
    return text, score / max(len(text), 1)


@pytest.mark.feature("L183")
def test_a_generating_model_is_one_file_that_the_runtime_runs(tmp_path: Path) -> None:
    proa.seed(3)
    model = Writer()
    for p in model.parameters():
        p.set_value(p * 4)
    with proa.no_grad():
        model.out.bias[END] = 2.0
    path = tmp_path / "writer.proa"
    specs = [
        proa.static.InputSpec([None], "int64", "start"),
        proa.static.InputSpec([], "int64", "limit"),
    ]
    proa.jit.save(model, path, input_spec=specs)
    predictor = proa_inference.create_predictor(proa_inference.Config(str(path)))
    loaded = proa.jit.load(path)
    lengths = set()
    for start, limit in [([5], 12), ([7, 3, 2], 9), ([1] * 6, 0), ([11, 4], 30)]:
        text, score = written(model, start, limit)
        lengths.add(len(text))
        given = [np.array(start), np.array(limit)]
        answers = [predictor.run(given)]
        answers.append([t.numpy() for t in loaded(*map(proa.to_tensor, given))])
        answers.append([t.numpy() for t in model(*map(proa.to_tensor, given))])
        for words, mean in answers:
            assert list(words) == text
            np.testing.assert_allclose(mean, score, rtol=1e-4)
    assert len(lengths) == 4  # ended by the model, by the limit, before the first word
