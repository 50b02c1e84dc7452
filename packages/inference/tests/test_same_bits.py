"""Results have the same bits in any run, for any threads and place in a batch."""

from io import BytesIO

import numpy as np
import pytest

import proa
from proa import nn
from proa.static import InputSpec
from proa_inference import Config, create_predictor


class Mixed(nn.Layer):
    """Convolutions, recurrent steps, attention and a classifier."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2D(1, 16, 3, padding=1)
        self.depth = nn.Conv2D(16, 16, 3, padding=1, groups=16)
        self.norm = nn.BatchNorm2D(16)
        self.gru = nn.GRU(16, 32)
        self.attention = nn.MultiHeadAttention(32, 4)
        self.fc = nn.Linear(32, 7)

    def forward(self, image):
        x = nn.functional.hardswish(self.norm(self.depth(self.conv(image))))
        rows = self.gru(x.mean(2).transpose([0, 2, 1]))[0]
        rows = rows + self.attention(rows, rows, rows)
        return {"y": nn.functional.softmax(self.fc(rows))}


@pytest.fixture(scope="module")
def content():
    proa.seed(11)
    network = Mixed()
    network.eval()
    buffer = BytesIO()
    proa.jit.save(network, buffer, [InputSpec([None, 1, 12, 40], "float32", "image")])
    return buffer.getvalue()


def predictor_of(content, threads, integers):
    config = Config()
    config.set_model_buffer(content)
    config.set_cpu_math_library_num_threads(threads)
    if integers:
        config.pass_builder().append_pass("quantize_recurrent")
    return create_predictor(config)


@pytest.mark.parametrize("integers", [False, True], ids=["float32", "int8-gru"])
def test_a_hundred_runs_give_the_same_bits(content, integers):
    one, two = (predictor_of(content, threads, integers) for threads in (1, 2))
    steps = [step.op for step in one.profile([np.ones((1, 1, 12, 40), np.float32)])]
    assert ("recurrent_int8" in steps) == integers
    images = np.random.default_rng(0).standard_normal((5, 1, 12, 40), np.float32)
    (want,) = one.run([images])
    for i in range(100):
        predictor = (one, two, two.clone())[i % 3]
        np.testing.assert_array_equal(predictor.run([images])[0], want)
    for place in range(5):
        moved = np.roll(images, place, axis=0)
        for predictor in (one, two):
            (got,) = predictor.run([moved])
            np.testing.assert_array_equal(got, np.roll(want, place, axis=0))
