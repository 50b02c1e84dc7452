"""Chinese segmentation: text in, words and their kinds out, as LAC's service does.

A convolutional tagger learns sentences that are put together from a small lexicon, and
a Python model around it turns text into numbers and tags into words. For real text the
lexicon is the part to replace.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from training import Array, fit, padded, save, save_python

import proa
from proa import nn

LEXICON = {
    "r": "我 你 他 她 我们 你们 他们 大家 这里",
    "n": "老师 学生 朋友 医生 音乐 电影 苹果 汽车 学校 公园 饭店 图书馆 手机 问题",
    "v": "喜欢 看见 学习 研究 参观 购买 讨论 介绍 爱 去 买 看",
    "a": "漂亮 认真 重要 有趣 大 小 新",
    "LOC": "北京 上海 广州 杭州 中国 天安门",
    "t": "今天 明天 昨天 上午 晚上",
    "d": "非常 都 也 很 经常",
    "u": "的",
    "w": "， 。",
}
WORDS = {kind: text.split() for kind, text in LEXICON.items()}
PATTERNS = (
    "r v LOC w",
    "r v LOC LOC",
    "t r v n w",
    "r d v a u n w",
    "n t d v LOC u n w",
    "LOC u n d a w",
    "r v n w r d v LOC w",
    "t n v LOC u a u n w",
    "d v n",
    "r d v n",
)
CHARACTERS = sorted({char for words in WORDS.values() for w in words for char in w})
NUMBERS = {"OOV": 1, **{char: at + 2 for at, char in enumerate(CHARACTERS)}}
TAGS = [f"{kind}-{place}" for kind in WORDS for place in "BI"]
LENGTH, BATCH, STEPS = 24, 64, 400

MODEL = '''
"""Text to words: around the network `tagger`."""

import json
from pathlib import Path

import numpy as np
from proa_serving.preprocess import CharacterIds, words_from_tags

inputs = [("text", "BYTES", (-1,))]
outputs = [("words", "BYTES", (-1,))]
held = json.loads(Path(__file__).with_name("vocabulary.json").read_text("utf-8"))
numbers, tags = CharacterIds(held["numbers"]), held["tags"]


async def run(inputs, infer):
    texts = [text.decode() for text in inputs["text"]]
    ids, lengths = numbers.batch(texts)
    scores = (await infer("tagger", {"ids": ids}))["scores"]
    found = []
    for text, length, row in zip(texts, lengths, scores.argmax(-1)):
        words = words_from_tags(text, [tags[at] for at in row[:length]])
        found.append(json.dumps(words, ensure_ascii=False).encode())
    return {"words": np.array(found, object)}
'''


class Tagger(nn.Layer):
    """Characters (batch, length) to scores of tags (batch, length, tags)."""

    def __init__(self) -> None:
        super().__init__()
        self.letters = nn.Embedding(len(NUMBERS) + 1, 32)
        self.narrow = nn.Conv1D(32, 64, 5, padding=2)
        self.wide = nn.Conv1D(64, 64, 5, padding=2)
        self.scores = nn.Linear(64, len(TAGS))

    def forward(self, ids: proa.Tensor) -> proa.Tensor:
        x = self.letters(ids).transpose([0, 2, 1])
        x = nn.functional.relu(self.narrow(x))
        x = nn.functional.relu(self.wide(x))
        return self.scores(x.transpose([0, 2, 1]))


def sentence(rng: np.random.Generator) -> list[tuple[str, str]]:
    """Words and their kinds."""
    kinds = PATTERNS[rng.integers(len(PATTERNS))].split()
    return [(str(rng.choice(WORDS[kind])), kind) for kind in kinds]


def _draw(rng: np.random.Generator) -> tuple[Array, ...]:
    ids, tags = [], []
    for _ in range(BATCH):
        words = sentence(rng)
        ids.append([NUMBERS[char] for word, _ in words for char in word])
        tags.append(
            [
                TAGS.index(f"{kind}-{'I' if at else 'B'}")
                for word, kind in words
                for at in range(len(word))
            ]
        )
    inside = padded([[1] * len(row) for row in ids], LENGTH)
    return padded(ids, LENGTH), padded(tags, LENGTH), inside.astype(np.float32)


def _loss(scores: proa.Tensor, tags: proa.Tensor, inside: proa.Tensor) -> proa.Tensor:
    each = nn.functional.cross_entropy(
        scores.reshape([-1, len(TAGS)]), tags.reshape([-1]), reduction="none"
    )
    weights = inside.reshape([-1])
    return (each.reshape([-1]) * weights).sum() / weights.sum()


def build(folder: Path) -> None:
    """Train, and write the repository."""
    proa.seed(0)
    net = Tagger()
    fit(net, _draw, _loss, steps=STEPS)
    save(net, folder, "tagger", {"ids": ([None, None], "int64")}, "scores")
    held = {"numbers": NUMBERS, "tags": TAGS}
    save_python(folder, "segment", MODEL, vocabulary=json.dumps(held))
