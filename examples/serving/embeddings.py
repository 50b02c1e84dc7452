"""Chinese text vectors: a small transformer encoder whose vectors of like texts agree.

BERT's tokenizer cuts text, the encoder attends over the tokens and their mean is the
vector, of length 1. It learns, by contrast, that sentences about one subject belong
together. Texts of different lengths share batches: they are padded to one of four
sizes, and two workers share the weights.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from training import Array, fit, save, save_python

import proa
from proa import nn
from proa_serving.preprocess import BertTokenizer

SUBJECTS = (
    "今天天气很好 外面下雨了 明天会下雪吗 气温又低了 风很大",
    "我想吃面条 这家饭店很好吃 午饭吃什么 他做的菜很香 请来一碗米饭",
    "火车几点开 去机场坐什么车 地铁站很近 我要买一张车票 路上堵车了",
    "这部电影很好看 他喜欢听音乐 周末去看演出 这首歌很有名 导演是谁",
    "老师在上课 作业很多 明天要考试 学生都去图书馆 他的成绩很好",
    "我头疼想看医生 医院在哪里 请按时吃药 他发烧了 护士很认真",
)
TEXTS = [subject.split() for subject in SUBJECTS]
CHARACTERS = sorted({char for texts in TEXTS for text in texts for char in text})
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *CHARACTERS]
WIDTH, LENGTH, STEPS = 48, 32, 150

MODEL = '''
"""Texts to vectors: around the network `encoder`."""

import json
from pathlib import Path

from proa_serving.preprocess import BertTokenizer

inputs = [("text", "BYTES", (-1,))]
outputs = [("vector", "FP32", (-1, 48))]
words = json.loads(Path(__file__).with_name("vocabulary.json").read_text("utf-8"))
tokenizer = BertTokenizer(words)


async def run(inputs, infer):
    texts = [text.decode() for text in inputs["text"]]
    ids = tokenizer.batch(texts, 32)["input_ids"]
    return {"vector": (await infer("encoder", {"ids": ids}))["vector"]}
'''


class Encoder(nn.Layer):
    """Tokens (batch, length), 0 after the end, to vectors (batch, WIDTH)."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(len(VOCABULARY), WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 96, dropout=0.0)
        self.encoder = nn.TransformerEncoder(layer, 2)

    def forward(self, ids: proa.Tensor) -> proa.Tensor:
        inside = (ids > 0).astype("float32")
        bias = (inside - 1.0).unsqueeze(1).unsqueeze(1) * 1e9
        x = self.encoder(self.tokens(ids), bias)
        mean = (x * inside.unsqueeze(-1)).sum(1) / inside.sum(1, keepdim=True)
        return nn.functional.normalize(mean, axis=-1)


def _draw(rng: np.random.Generator) -> tuple[Array, ...]:
    """Two texts of each subject; characters are left out so that it reads the rest."""
    chosen = [texts[at] for texts in TEXTS for at in rng.permutation(len(texts))[:2]]
    tokenizer = BertTokenizer(VOCABULARY)
    ids = tokenizer.batch(chosen)["input_ids"]
    ids[(rng.random(ids.shape) < 0.15) & (ids > 3)] = 1
    subjects = np.repeat(np.arange(len(TEXTS)), 2)
    return ids, (subjects[:, None] == subjects[None]).astype(np.float32)


def _loss(vectors: proa.Tensor, same: proa.Tensor) -> proa.Tensor:
    """The softmax of likeness, with its mass on the texts of the same subject."""
    alike = vectors.matmul(vectors.t()) * 8.0
    return -(nn.functional.log_softmax(alike, -1) * same).sum() / same.sum()


def build(folder: Path) -> None:
    """Train, and write the repository."""
    proa.seed(0)
    net = Encoder()
    fit(net, _draw, _loss, steps=STEPS, rate=2e-3)
    save(
        net,
        folder,
        "encoder",
        {"ids": ([None, None], "int64")},
        "vector",
        max_batch=32,
        instances=2,
        buckets=[{"input": "ids", "axis": 1, "sizes": [8, 16, 24, LENGTH]}],
    )
    save_python(folder, "embed", MODEL, vocabulary=json.dumps(VOCABULARY))
