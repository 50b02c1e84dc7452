"""Each service of examples/serving: started by its command, called by a client."""

from __future__ import annotations

import io
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from proa_serving.client import HttpClient

pytestmark = pytest.mark.feature("L673")
SERVING = Path(__file__).parents[2] / "examples" / "serving"


@contextmanager
def service(name: str, folder: Path) -> Iterator[HttpClient]:
    """A client of the service that the example's command starts."""
    pytest.importorskip("sklearn", reason="the examples' data")
    pytest.importorskip("PIL", reason="the examples decode images")
    command = [sys.executable, str(SERVING), name, "--out", str(folder / "models")]
    with subprocess.Popen(
        [*command, "--http", "0"], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            lines = [process.stdout.readline() for _ in range(2)]
            assert re.fullmatch(rf"{name}: trained in [\d.]+ s\n", lines[0])
            address = re.search(r"http=(\S+)", lines[1])
            assert address is not None, lines
            with HttpClient(address[1]) as client:
                yield client
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
        finally:
            process.kill()


def example(name: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """What an example's module defines."""
    monkeypatch.syspath_prepend(str(SERVING))
    module = __import__(name)
    return vars(module)


def png(array: np.ndarray) -> bytes:
    from PIL import Image

    data = io.BytesIO()
    Image.fromarray(array).save(data, "PNG")
    return data.getvalue()


def texts(*found: str) -> np.ndarray:
    return np.array([text.encode() for text in found], object)


def test_chinese_segmentation(tmp_path, monkeypatch):
    sentence = example("segmentation", monkeypatch)["sentence"]
    rng = np.random.default_rng(99)
    want = [sentence(rng) for _ in range(50)]
    with service("segmentation", tmp_path) as client:
        (known,) = client.infer("segment", {"text": texts("我爱北京天安门")})["words"]
        given = texts(*("".join(word for word, _ in words) for words in want))
        found = client.infer("segment", {"text": given})["words"]
    assert json.loads(known) == [
        ["我", "r"],
        ["爱", "v"],
        ["北京", "LOC"],
        ["天安门", "LOC"],
    ]
    right = [
        json.loads(got) == list(map(list, w))
        for got, w in zip(found, want, strict=True)
    ]
    assert np.mean(right) >= 0.95


def test_english_sentiment(tmp_path, monkeypatch):
    review = example("sentiment", monkeypatch)["review"]
    rng = np.random.default_rng(99)
    results = [review(rng) for _ in range(100)]
    with service("sentiment", tmp_path) as client:
        given = texts(*(text for text, _ in results))
        found = client.infer("sentiment", {"review": given})["favourable"]
        pair = texts("the plot was good", "the plot was not good")
        good, bad = client.infer("sentiment", {"review": pair})["favourable"]
    labels = np.array([label for _, label in results])
    assert np.mean((found > 0.5) == labels) >= 0.95
    assert good > 0.5 > bad


@pytest.mark.feature("L671")
@pytest.mark.feature("L672", how="mechanism")
def test_chinese_text_vectors(tmp_path, monkeypatch):
    held = example("embeddings", monkeypatch)
    everything = [text for subject in held["TEXTS"] for text in subject]
    subjects = np.repeat(np.arange(len(held["TEXTS"])), 5)
    with service("embeddings", tmp_path) as client:
        vectors = client.infer("embed", {"text": texts(*everything)})["vector"]
        alone = client.infer("embed", {"text": texts(everything[3])})["vector"]
        (stats,) = [
            line
            for line in client._json("GET", "/v2/models/stats")["model_stats"]
            if line["name"] == "encoder"
        ]
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-4)
    # Padding and the rest of the batch do not change a vector.
    np.testing.assert_allclose(alone[0], vectors[3], atol=1e-4)
    alike = vectors @ vectors.T - 2 * np.eye(len(vectors))
    assert np.mean(subjects[alike.argmax(1)] == subjects) >= 0.95
    assert int(stats["inference_count"]) >= len(everything) + 1


def test_click_through_rate(tmp_path, monkeypatch):
    from sklearn.metrics import roc_auc_score

    impressions = example("ctr", monkeypatch)["impressions"]
    rng = np.random.default_rng(99)
    fields, chance = impressions(rng, 5000)
    clicks = rng.random(5000) < chance
    with service("ctr", tmp_path) as client:
        found = client.infer("ctr", {"fields": fields})["click"]
    best = roc_auc_score(clicks, chance)
    assert roc_auc_score(clicks, found) > best - 0.04
    assert abs(found.mean() - chance.mean()) < 0.03


def test_image_classification(tmp_path, monkeypatch):
    held = example("images", monkeypatch)
    images, labels = held["digits"]()
    images, labels = images[-held["TEST"] :], labels[-held["TEST"] :]
    files = np.array([png(image) for image in images], object)
    with service("images", tmp_path) as client:
        found = client.infer("classify", {"file": files})["probability"]
        direct = client.infer(
            "digits", {"image": images[:, None].astype(np.float32) / 127.5 - 1}
        )["probability"]
    np.testing.assert_allclose(found.sum(1), 1, rtol=1e-4)
    np.testing.assert_allclose(found, direct, atol=1e-4)
    assert np.mean(found.argmax(1) == labels) >= 0.93


def test_reading_printed_text(tmp_path, monkeypatch):
    picture = example("ocr", monkeypatch)["picture"]
    lines = ["PAPER READS 2026", "HELD 3 4 56", "THE QUEST BEGAN AT 7"]
    files = np.array([picture(line, 30) for line in lines], object)
    with service("ocr", tmp_path) as client:
        found = client.infer("read", {"file": files})["text"]
        blank = client.infer(
            "read", {"file": np.array([png(np.full((9, 9), 255, np.uint8))], object)}
        )
    assert [text.decode() for text in found] == lines
    assert blank["text"].tolist() == [b""]


def test_two_models_one_after_the_other(tmp_path, monkeypatch):
    held = example("images", monkeypatch)
    noisy = example("pipeline", monkeypatch)["noisy"]
    images, labels = held["digits"]()
    x = images[-held["TEST"] :, None].astype(np.float32) / 127.5 - 1
    x, labels = noisy(np.random.default_rng(99), x), labels[-held["TEST"] :]
    with service("pipeline", tmp_path) as client:
        found = client.infer("read", {"image": x})["probability"]
        cleaned = client.infer("clean", {"image": x})["cleaned"]
        by_hand = client.infer("digits", {"image": cleaned})["probability"]
        alone = client.infer("digits", {"image": x})["probability"]
    np.testing.assert_allclose(found, by_hand, atol=1e-5)
    right = np.mean(found.argmax(1) == labels)
    assert right >= 0.75
    assert right > np.mean(alone.argmax(1) == labels)
