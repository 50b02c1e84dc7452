"""A trained ERNIE keeps its accuracy in int8 and bfloat16, and computes in them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import proa
import proa_slim as slim
from proa import nn
from proa.runtime import multiplies_bfloat16
from proa.static import InputSpec
from proa_inference import Config, create_predictor
from proa_inference.optimize import optimized_program

WORDS, LENGTH, WIDTH, LAYERS = 200, 24, 64, 2
#: Products of a layer (query, key, value, output and two of the feed-forward part), the
#: pooler and the classifier.
PRODUCTS = 6 * LAYERS + 2
SPEC = [InputSpec([None, LENGTH], "int64", name) for name in ("words", "places")]
Ids = NDArray[np.int64]


class Ernie(nn.Layer):
    """ERNIE (Sun et al., 2019), whose encoder is BERT's, for two kinds of sentences."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.places = nn.Embedding(LENGTH, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        layer = nn.TransformerEncoderLayer(
            WIDTH, 4, 4 * WIDTH, dropout=0.0, activation="gelu"
        )
        self.encoder = nn.TransformerEncoder(layer, LAYERS)
        self.pooler, self.head = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 2)

    def forward(self, words: proa.Tensor, places: proa.Tensor) -> proa.Tensor:
        x = self.encoder(self.norm(self.words(words) + self.places(places)))
        return self.head(proa.tanh(self.pooler(x[:, 0])))


def sentences(count: int, seed: int) -> tuple[Ids, Ids, Ids]:
    """Words, their places, and the sign of the sum of the words' scores as a class, of
    which one in twenty is wrong.
    """
    rng = np.random.default_rng(seed)
    words = rng.integers(0, WORDS, (count, LENGTH))
    score = np.random.default_rng(0).standard_normal(WORDS)
    kinds = score[words].sum(1) > 0
    kinds ^= rng.random(count) < 0.05
    places = np.broadcast_to(np.arange(LENGTH), words.shape).copy()
    return words, places, kinds.astype(np.int64)


@pytest.fixture(scope="module")
def ernie() -> Ernie:
    proa.seed(0)
    network = Ernie()
    optimizer = proa.optimizer.Adam(1e-3, parameters=network.parameters())
    for step in range(400):
        words, places, kinds = map(proa.to_tensor, sentences(64, seed=10 + step))
        logits = network(words, places)
        nn.functional.cross_entropy(logits, kinds).backward()
        optimizer.step()
        optimizer.clear_grad()
    network.eval()
    return network


def accuracy(config: Config) -> float:
    words, places, kinds = sentences(2000, seed=2)
    (logits,) = create_predictor(config).run([words, places])
    return float((logits.argmax(1) == kinds).mean())


@pytest.fixture(scope="module")
def exact(ernie: Ernie, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("ernie") / "ernie.proa"
    proa.jit.save(ernie, path, SPEC)
    assert accuracy(Config(path)) > 0.85
    return path


@pytest.mark.feature("L551", "L552", how="mechanism")
def test_ernie_multiplies_in_int8_and_loses_less_than_two_percent(
    ernie: Ernie, exact: Path, tmp_path: Path
) -> None:
    words, places, _ = sentences(512, seed=3)
    batches = [[words[i : i + 64], places[i : i + 64]] for i in range(0, 512, 64)]
    path = tmp_path / "ernie.int8.proa"
    slim.quant_post_static(ernie, SPEC, batches).save(path)
    ops = Counter(node.op for node in optimized_program(Config(path)).nodes())
    assert ops["linear"] == 0
    assert ops["linear_int8"] == PRODUCTS
    assert accuracy(Config(path)) >= accuracy(Config(exact)) - 0.02


@pytest.mark.feature("L559", how="mechanism")
def test_ernie_computes_in_bfloat16_and_loses_less_than_two_percent(
    exact: Path,
) -> None:
    if not multiplies_bfloat16():
        pytest.skip("needs a CPU that multiplies bfloat16")
    narrow = Config(exact)
    narrow.enable_bf16()
    nodes = list(optimized_program(narrow).nodes())
    dtypes = {n.op: n.outputs[0].dtype for n in nodes}
    assert dtypes["linear"] == dtypes["attention"] == "bfloat16"
    assert accuracy(narrow) >= accuracy(Config(exact)) - 0.02
