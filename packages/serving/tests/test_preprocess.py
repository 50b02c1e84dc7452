"""Images, text and segmentation before and after a model, alone and in a server."""

import io

import numpy as np
import pytest

from proa_serving.client import HttpClient
from proa_serving.preprocess import (
    BertTokenizer,
    CenterCrop,
    ChannelsFirst,
    CharacterIds,
    DecodeImage,
    Normalize,
    Resize,
    ResizeShort,
    Sequential,
    words_from_tags,
)
from proa_serving.protocol.errors import InvalidRequestError

Image = pytest.importorskip("PIL.Image", reason="needs proa-serving[image]")
RNG = np.random.default_rng(11)
WORDS = """
[PAD] [UNK] [CLS] [SEP] the un ##aff ##able run ##ning cafe 中 国 人 民 ！ , . ! don ' t
3 ##5 a ##b hello world
"""
NOISE = RNG.integers(0, 256, (20, 20, 3), np.uint8)


def file_of(array, kind="PNG", **options):
    held = io.BytesIO()
    Image.fromarray(array).save(held, kind, **options)
    return held.getvalue()


@pytest.mark.feature("L668")
def test_an_image_becomes_what_a_network_takes():
    """Decoding, cropping and normalising against NumPy."""
    array = RNG.integers(0, 256, (40, 60, 3), np.uint8)
    steps = Sequential([DecodeImage(), CenterCrop(32), Normalize(), ChannelsFirst()])
    found = steps(file_of(array))
    middle = array[4:36, 14:46].astype(np.float64) / 255
    mean, std = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
    want = ((middle - mean) / std).transpose(2, 0, 1)
    assert found.dtype == np.float32
    assert found.flags.c_contiguous
    np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5)


def test_resizing_keeps_a_linear_ramp():
    """Bilinear interpolation is exact on it, away from the borders."""
    ramp = np.broadcast_to(
        np.arange(0, 200, 2, dtype=np.uint8)[None, :, None], (20, 100, 3)
    )
    found = Resize((10, 50))(np.ascontiguousarray(ramp))
    want = (np.arange(50) * 2 + 0.5) * 2  # the middle of two pixels, 2 apart
    assert np.abs(found[5, 2:-2, 0].astype(float) - want[2:-2]).max() <= 1
    assert ResizeShort(10)(np.ascontiguousarray(ramp)).shape == (10, 50, 3)


def test_photos_are_upright_and_in_colour():
    grey = np.arange(12, dtype=np.uint8).reshape(3, 4)
    assert DecodeImage()(file_of(grey)).shape == (3, 4, 3)
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was held on its side
    assert DecodeImage()(file_of(grey, exif=exif)).shape == (4, 3, 3)


@pytest.mark.parametrize(
    ("step", "given", "message"),
    [
        (DecodeImage(), b"no image", "no image file"),
        (DecodeImage(), file_of(NOISE)[:400], "image file"),
        (DecodeImage(max_pixels=80), file_of(np.zeros((9, 9), np.uint8)), "at most 80"),
        (CenterCrop(8), np.zeros((4, 9, 3)), "at least 8 x 8, got 4 x 9"),
        (Normalize(), np.zeros((4, 4, 1)), "must have 3 channels, got 1"),
        (ChannelsFirst(), np.zeros((4, 4)), "must be .height, width, channels."),
    ],
)
def test_what_is_no_image_is_refused(step, given, message):
    with pytest.raises(InvalidRequestError, match=message):
        step(given)


TEXTS = [
    "The unaffable café, don't run!",
    "中国人民running！",
    "running UNAFFABLE  hello\tworld\u200b\n35 ab abc",
    "x" * 101 + " the",
    "",
    "Hello, WORLD... 中 a.b",
]


@pytest.mark.feature("L668")
def test_texts_become_berts_inputs_as_its_own_tokenizer_makes_them(tmp_path):
    """Against Hugging Face's implementation of the published tokenizer."""
    tokenizers = pytest.importorskip("tokenizers")
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(WORDS.split()) + "\n", encoding="utf-8")
    ours = BertTokenizer(path)
    theirs = tokenizers.BertWordPieceTokenizer(str(path), lowercase=True)
    for text in TEXTS:
        want = theirs.encode(text)
        found = ours(text)
        assert ["[CLS]", *ours.tokenize(text), "[SEP]"] == want.tokens
        assert found["input_ids"].tolist() == want.ids
    want = theirs.encode(TEXTS[0], TEXTS[1])
    found = ours(TEXTS[0], TEXTS[1])
    assert found["input_ids"].tolist() == want.ids
    assert found["token_type_ids"].tolist() == want.type_ids
    theirs.enable_truncation(6)
    assert ours(TEXTS[0], max_length=6)["input_ids"].tolist() == (
        theirs.encode(TEXTS[0]).ids
    )
    theirs.no_truncation()
    theirs.enable_padding()
    want = theirs.encode_batch(TEXTS)
    found = ours.batch(TEXTS)
    assert found["input_ids"].tolist() == [row.ids for row in want]
    assert found["attention_mask"].tolist() == [row.attention_mask for row in want]


def test_a_vocabulary_without_special_tokens_is_refused():
    with pytest.raises(InvalidRequestError, match=r"must have \['\[CLS\]'"):
        BertTokenizer(["a", "[UNK]"])


@pytest.mark.feature("L668")
def test_tags_of_characters_become_words(tmp_path):
    """The dictionaries of LAC, and its tags."""
    (tmp_path / "word.dic").write_text(
        "0\tOOV\n1\t我\n2\t爱\n3\t北\n4\t京\n5\t!\n", "utf-8"
    )
    (tmp_path / "q2b.dic").write_text("！\t!\n", "utf-8")
    ids = CharacterIds(tmp_path / "word.dic", replaced=tmp_path / "q2b.dic")
    assert ids("我爱北京！狗").tolist() == [1, 2, 3, 4, 5, 0]
    numbers, lengths = ids.batch(["我", "北京"])
    assert numbers.tolist() == [[1, 0], [3, 4]]
    assert lengths.tolist() == [1, 2]
    tags = ["r-B", "v-B", "LOC-B", "LOC-I", "w-S", "O"]
    assert words_from_tags("我爱北京!狗", tags) == [
        *(("我", "r"), ("爱", "v"), ("北京", "LOC"), ("!", "w"), ("狗", "O"))
    ]
    # What continues nothing of its kind begins a word.
    assert words_from_tags("北京", ["LOC-B", "n-I"]) == [("北", "LOC"), ("京", "n")]
    with pytest.raises(InvalidRequestError, match="expected 2 tags"):
        words_from_tags("北京", ["O"])


MODEL = """
import numpy as np
from proa_serving.preprocess import (
    CenterCrop, ChannelsFirst, DecodeImage, Normalize, Sequential
)

inputs = [("file", "BYTES", (-1,))]
outputs = [("image", "FP32", (-1, 3, 8, 8))]
batches = True
steps = Sequential([DecodeImage(), CenterCrop(8), Normalize(), ChannelsFirst()])

def run(inputs):
    return {"image": np.stack([steps(data) for data in inputs["file"]])}
"""
NETWORK = """
inputs = [("x", "FP32", (-1, 3, 8, 8))]
outputs = [("mean", "FP32", (-1, 3))]
def run(inputs):
    return {"mean": inputs["x"].mean((2, 3))}
"""
GRAPH = """
inputs = [{name = "file", datatype = "BYTES", shape = [-1]}]
outputs = [{name = "mean", datatype = "FP32", shape = [-1, 3]}]
[[steps]]
model = "decode"
inputs = {file = "file"}
outputs = {image = "image"}
[[steps]]
model = "network"
inputs = {x = "image"}
outputs = {mean = "mean"}
"""


def test_files_of_images_are_sent_and_decoded_in_the_server(serve, tmp_path):
    for name, text in (("decode", MODEL), ("network", NETWORK)):
        path = tmp_path / name / "1" / "model.py"
        path.parent.mkdir(parents=True)
        path.write_text(text)
    (tmp_path / "photo").mkdir()
    (tmp_path / "photo" / "config.toml").write_text(GRAPH)
    arrays = RNG.integers(0, 256, (2, 10, 12, 3), np.uint8)
    files = np.array([file_of(array) for array in arrays], object)
    with (
        serve(repository=tmp_path, python_models=True) as server,
        HttpClient(server.http_address) as client,
    ):
        found = client.infer("photo", {"file": files})["mean"]
        with pytest.raises(Exception, match="no image file"):
            client.infer("photo", {"file": np.array([b"x"], object)})
    middle = arrays[:, 1:9, 2:10].astype(np.float64) / 255
    want = (middle.mean((1, 2)) - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
    np.testing.assert_allclose(found, want, rtol=1e-4)
