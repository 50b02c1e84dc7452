"""Data sets of text from small archives in their public forms."""

from __future__ import annotations

import gzip
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proa
from proa.errors import InvalidArgumentError, NotFoundError
from proa.text import datasets

from ..archives import make_tar


@pytest.mark.parametrize("mode", ["train", "test"])
def test_uci_housing(tmp_path: Path, mode: str) -> None:
    rows = np.random.RandomState(0).rand(10, 14)
    path = tmp_path / "housing.data"
    np.savetxt(path, rows, fmt="%.8f")
    data = datasets.UCIHousing(str(path), mode)
    scaled = rows.copy()
    low, high = rows.min(0), rows.max(0)
    scaled[:, :13] = ((rows - rows.mean(0)) / (high - low))[:, :13]
    part = scaled[:8] if mode == "train" else scaled[8:]
    assert len(data) == len(part)
    for (features, price), row in zip(data, part, strict=False):
        assert features.dtype == price.dtype == np.float32
        np.testing.assert_allclose(features, row[:13], atol=1e-6)
        np.testing.assert_allclose(price, row[13:], atol=1e-6)
    path.write_text("1 2 3")
    with pytest.raises(InvalidArgumentError, match="rows of 14 numbers"):
        datasets.UCIHousing(str(path))


def test_imdb(tmp_path: Path) -> None:
    reviews = {
        "train/pos/0_9": b"A good, GOOD film!",
        "train/neg/0_1": b"A bad film.",
        "test/pos/0_8": b"good film",
        "test/neg/0_2": b"dreadful film",
    }
    files = {f"aclImdb/{k}_x.txt": v for k, v in reviews.items()}
    files["aclImdb/README"] = b"good good good"
    path = make_tar(tmp_path / "aclImdb_v1.tar.gz", files)
    data = datasets.Imdb(path, cutoff=1)
    assert data.word_idx == {b"film": 0, b"good": 1, b"a": 2, "<unk>": 3}
    items = [(words.tolist(), label.tolist()) for words, label in data]
    assert items == [([2, 1, 1, 0], [0]), ([2, 3, 0], [1])]
    test = datasets.Imdb(path, "test", 1)
    assert [words.tolist() for words, _ in test] == [[1, 0], [3, 0]]
    with pytest.raises(InvalidArgumentError, match="cutoff must leave"):
        datasets.Imdb(path, cutoff=100)


PTB = {
    "train": b" the cat <unk> the dog\n the dog ran\n",
    "valid": b" the cat ran\n",
    "test": b" a dog\n",
}


@pytest.fixture
def treebank(tmp_path: Path) -> str:
    files = {f"./simple-examples/data/ptb.{k}.txt": v for k, v in PTB.items()}
    return make_tar(tmp_path / "simple-examples.tgz", files)


def test_imikolov_ngrams(treebank: str) -> None:
    data = datasets.Imikolov(treebank, window_size=3, min_word_freq=1)
    # the 4, <e> 3, <s> 3, cat 2, dog 2, ran 2
    order = [b"the", "<e>", "<s>", b"cat", b"dog", b"ran", "<unk>"]
    assert data.word_idx == {word: i for i, word in enumerate(order)}
    first = [tuple(int(n) for n in item) for item in data][:3]
    assert first == [(2, 0, 3), (0, 3, 6), (3, 6, 0)]
    assert len(data) == 5 + 3
    assert data.word_count([b"x y x"]) == {b"x": 2, b"y": 1, "<s>": 1, "<e>": 1}
    with pytest.raises(InvalidArgumentError, match="window_size must be positive"):
        datasets.Imikolov(treebank)


def test_imikolov_sentences(treebank: str) -> None:
    data = datasets.Imikolov(treebank, "seq", mode="test", min_word_freq=1)
    ((source, target),) = list(data)
    assert source.tolist() == [2, 6, 4]
    assert target.tolist() == [6, 4, 1]
    short = datasets.Imikolov(treebank, "SEQ", 4, min_word_freq=1)
    assert len(short) == 1
    with pytest.raises(InvalidArgumentError, match="data_type must be one of"):
        datasets.Imikolov(treebank, "words")


def test_movielens(tmp_path: Path) -> None:
    path = tmp_path / "ml-1m.zip"
    ratings = "".join(
        f"{1 + i % 2}::{10 + i % 2}::{1 + i % 5}::97830\n" for i in range(40)
    )
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(
            "ml-1m/movies.dat",
            "10::Toy Story (1995)::Animation|Comedy\n"
            "11::Am\u00e9lie Story (2001)::Comedy\n".encode("latin-1"),
        )
        archive.writestr("ml-1m/users.dat", "1::F::1::10::48067\n2::M::56::16::70072\n")
        archive.writestr("ml-1m/ratings.dat", ratings)
    train = datasets.Movielens(str(path), test_ratio=0.3)
    test = datasets.Movielens(str(path), "test", test_ratio=0.3)
    assert len(train) + len(test) == 40
    # Paddle draws one number for each rating, in order.
    np.random.seed(0)
    assert len(test) == sum(np.random.random() < 0.3 for _ in range(40))
    user, sex, age, job, film, kinds, title, rating = train[0]
    number = int(user[0])
    assert sex.tolist() == [1 if number == 1 else 0]
    assert age.tolist() == [0 if number == 1 else 6]
    assert job.tolist() == [10 if number == 1 else 16]
    assert film.tolist() == [9 + number]
    assert train.categories_dict == {"Animation": 0, "Comedy": 1}
    assert kinds.tolist() == ([0, 1] if number == 1 else [1])
    words = {"toy": 2, "story": 1, "am\u00e9lie": 0}
    assert train.movie_title_dict == words
    assert title.tolist() == ([2, 1] if number == 1 else [0, 1])
    assert rating.tolist()[0] in (-3.0, -1.0, 1.0, 3.0, 5.0)


def test_wmt14(tmp_path: Path) -> None:
    long = b" ".join([b"a"] * 90)
    files = {
        "wmt14/src.dict": b"<s>\n<e>\n<unk>\na\nb\n",
        "wmt14/trg.dict": b"<s>\n<e>\n<unk>\nx\ny\n",
        "wmt14/train/train": b"a b c\tx y\nno pair\n" + long + b"\tx\n",
        "wmt14/test/test": b"b\ty z\n",
    }
    path = make_tar(tmp_path / "wmt14.tgz", files)
    data = datasets.WMT14(path, dict_size=5)
    assert [[part.tolist() for part in item] for item in data] == [
        [[0, 3, 4, 2, 1], [0, 3, 4], [3, 4, 1]]
    ]
    small = datasets.WMT14(path, "test", dict_size=4)
    assert [part.tolist() for part in small[0]] == [[0, 2, 1], [0, 2, 2], [2, 2, 1]]
    assert data.get_dict()[0]["a"] == 3
    assert data.get_dict(reverse=True)[1][3] == "x"
    with pytest.raises(InvalidArgumentError, match="dict_size must be positive"):
        datasets.WMT14(path)
    with pytest.raises(InvalidArgumentError, match=r"WMT14.* data set's format"):
        datasets.WMT14(path, "gen", dict_size=3)


@pytest.mark.parametrize("lang", ["en", "de"])
def test_wmt16(tmp_path: Path, lang: str) -> None:
    files = {
        "wmt16/train": b"a dog a\tein hund\na cat\teine katze ein\n",
        "wmt16/val": b"a bird\tein vogel\n",
        "wmt16/test": b"dog\thund\n",
    }
    path = make_tar(tmp_path / "wmt16.tar.gz", files)
    data = datasets.WMT16(path, "val", 5, 6, lang)
    english = {"<s>": 0, "<e>": 1, "<unk>": 2, "a": 3, "dog": 4}
    german = {"<s>": 0, "<e>": 1, "<unk>": 2, "ein": 3, "hund": 4}
    if lang == "en":
        assert data.get_dict("en") == english
        assert [p.tolist() for p in data[0]] == [[0, 3, 2, 1], [0, 3, 2], [3, 2, 1]]
    else:
        assert data.get_dict("de") == german
        assert data.get_dict("en", reverse=True)[5] == "cat"
        assert [p.tolist() for p in data[0]] == [[0, 3, 2, 1], [0, 3, 2], [3, 2, 1]]
    assert len(datasets.WMT16(path, "train", 5, 5)) == 2
    with pytest.raises(InvalidArgumentError, match="trg_dict_size must be positive"):
        datasets.WMT16(path, src_dict_size=3)


@pytest.fixture
def roles(tmp_path: Path) -> dict[str, Any]:
    words = ["The", "cat", "sat", "there", "", "It", "ran", "and", "hid", ""]
    columns = [
        "- (A0*", "- *)", "sit (V*)", "- (AM-LOC*)", "",
        "- (A0*) (A0*)", "run (V*) *", "- * *", "hide * (V*)", "",
    ]  # fmt: skip
    root = "conll05st-release/test.wsj"
    files = {
        f"{root}/{kind}/test.wsj.{kind}.gz": gzip.compress("\n".join(lines).encode())
        for kind, lines in (("words", words), ("props", columns))
    }
    lists = {
        "wordDict.txt": ["UNK", "bos", "eos", "The", "cat", "sat", "there", "It"],
        "verbDict.txt": ["sit", "run", "hide"],
        "targetDict.txt": ["B-A0", "I-A0", "B-V", "I-V", "B-AM-LOC", "O"],
        "emb": ["vectors"],
    }
    for name, lines in lists.items():
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    return {
        "data_file": make_tar(tmp_path / "conll05st-tests.tar.gz", files),
        "word_dict_file": str(tmp_path / "wordDict.txt"),
        "verb_dict_file": str(tmp_path / "verbDict.txt"),
        "target_dict_file": str(tmp_path / "targetDict.txt"),
        "emb_file": str(tmp_path / "emb"),
    }


def test_conll05st(roles: dict[str, Any]) -> None:
    data = datasets.Conll05st(**roles)
    assert data.predicates == ["sit", "run", "hide"]
    assert data.labels[0] == ["B-A0", "I-A0", "B-V", "B-AM-LOC"]
    assert data.labels[1] == ["B-A0", "B-V", "O", "O"]
    _, _, labels = data.get_dict()
    assert labels == {"B-A0": 0, "I-A0": 1, "B-V": 2, "I-V": 3, "B-AM-LOC": 4,
                      "I-AM-LOC": 5, "O": 6}  # fmt: skip
    columns = [column.tolist() for column in data[0]]
    assert columns == [
        [3, 4, 5, 6], [3] * 4, [4] * 4, [5] * 4, [6] * 4, [2] * 4, [0] * 4,
        [1, 1, 1, 1], [0, 1, 2, 4],
    ]  # fmt: skip
    columns = [column.tolist() for column in data[2]]
    assert columns[1:6] == [[0] * 4, [0] * 4, [0] * 4, [2] * 4, [2] * 4]
    assert columns[7] == [0, 1, 1, 1]
    assert Path(data.get_embedding()).read_text() == "vectors\n"
    assert len(data) == 3


NAMES = ["Conll05st", "Imdb", "Imikolov", "Movielens", "UCIHousing", "WMT14", "WMT16"]
NEEDED: dict[str, dict[str, Any]] = {
    "Imikolov": {"window_size": 2},
    "WMT14": {"dict_size": 3},
    "WMT16": {"src_dict_size": 3, "trg_dict_size": 3},
}


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_file_error_names_the_expected_folder(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROA_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path))
    make = getattr(proa.text, name)
    assert make is getattr(datasets, name)
    with pytest.raises(NotFoundError, match=r"in one of: .*data_file\."):
        make(**NEEDED.get(name, {}))
    with pytest.raises(NotFoundError, match="data_file must be a file"):
        make(data_file=str(tmp_path / "none"), **NEEDED.get(name, {}))


@pytest.mark.parametrize("name", [name for name in NAMES if name != "Conll05st"])
def test_a_damaged_file_is_rejected(name: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"\x1f\x8b something else")
    with pytest.raises(InvalidArgumentError, match=name):
        getattr(datasets, name)(data_file=str(path), **NEEDED.get(name, {}))
    if name != "UCIHousing":
        with pytest.raises(InvalidArgumentError, match="mode must be one of"):
            getattr(datasets, name)(str(path), mode="all", **NEEDED.get(name, {}))


def test_files_are_found_in_the_data_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / ".cache" / "paddle" / "dataset" / "uci_housing"
    folder.mkdir(parents=True)
    np.savetxt(folder / "housing.data", np.random.RandomState(0).rand(10, 14))
    monkeypatch.delenv("PROA_DATA_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert len(datasets.UCIHousing(mode="test")) == 2
