"""Modules of `paddle.fluid` next to layers: readers, metrics, nets, files, dygraph."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proa
from proa import static
from proa.errors import InvalidArgumentError, MissingFileError, NotFoundError
from proa.migrate import fluid
from proa.static import create_lod_tensor

from .programs import migrated

pytest.importorskip("libcst")


def _numbers() -> Any:
    return iter(range(5))


def test_readers_are_composed() -> None:
    reader = fluid.reader
    letters = lambda: iter("abcde")  # noqa: E731
    assert list(reader.firstn(_numbers, 2)()) == [0, 1]
    assert list(reader.chain(_numbers, letters)()) == [*range(5), *"abcde"]
    assert list(reader.compose(_numbers, letters)())[1] == (1, "b")
    assert list(reader.map_readers(pow, _numbers, _numbers)())[3] == 27
    assert sorted(reader.shuffle(_numbers, 3)()) == list(range(5))
    assert list(reader.buffered(_numbers, 2)()) == list(range(5))
    squares = reader.xmap_readers(lambda x: x * x, _numbers, 2, 3, order=True)
    assert list(squares()) == [0, 1, 4, 9, 16]
    calls: list[int] = []

    def once() -> Any:
        calls.append(1)
        return _numbers()

    cached = reader.cache(once)
    assert list(cached()) == list(cached()) == list(range(5)) and calls == [1]
    with pytest.raises(InvalidArgumentError, match="as many samples"):
        list(reader.compose(_numbers, lambda: iter("ab"))())
    short = reader.compose(_numbers, lambda: iter("ab"), check_alignment=False)
    assert list(short()) == [(0, "a"), (1, "b")]


def test_metrics_count_batches() -> None:
    metrics = fluid.metrics
    accuracy = metrics.Accuracy()
    with pytest.raises(InvalidArgumentError, match="an update first"):
        accuracy.eval()
    accuracy.update(np.asarray([0.5], "f"), 10)
    accuracy.update(1.0, weight=30)
    assert accuracy.eval() == pytest.approx(0.875)
    both = metrics.CompositeMetric()
    both.add_metric(metrics.Precision())
    both.add_metric(metrics.Recall())
    both.update(np.asarray([[0.9], [0.8], [0.1]]), np.asarray([[1], [0], [1]]))
    assert both.eval() == [0.5, 0.5]
    distance = metrics.EditDistance("distance")
    distance.update(np.asarray([[0.0], [2.0]]), np.asarray([2]))
    assert distance.eval() == (1.0, 0.5) and str(distance) == "distance"


def test_schedules_follow_their_formulas() -> None:
    for result, wanted in (
        (fluid.layers.exponential_decay(1.0, 4, 0.5), 0.5 ** (6 / 4)),
        (fluid.layers.exponential_decay(1.0, 4, 0.5, staircase=True), 0.5),
        (fluid.dygraph.NaturalExpDecay(1.0, 4, 0.5), np.exp(-0.5 * 6 / 4)),
        (fluid.dygraph.InverseTimeDecay(1.0, 4, 0.5), 1 / (1 + 0.5 * 6 / 4)),
        (fluid.dygraph.CosineDecay(1.0, 3, 8), (np.cos(2 * np.pi / 8) + 1) / 2),
    ):
        for _ in range(6):
            result.step()
        assert result.get_lr() == pytest.approx(wanted)


def test_states_of_dygraph_are_read(tmp_path: Path) -> None:
    net = proa.nn.Linear(2, 1)
    proa.save(net.state_dict(), str(tmp_path / "net.pdparams"))
    state, slots = fluid.dygraph.load_dygraph(tmp_path / "net")
    np.testing.assert_array_equal(state["weight"].numpy(), net.weight.numpy())
    assert slots is None
    with pytest.raises(MissingFileError, match=r"other\.pdparams or"):
        fluid.dygraph.load_dygraph(tmp_path / "other")
    unit = fluid.dygraph.GRUUnit(6)
    hidden, reset, gates = unit(proa.ones([3, 6]), proa.zeros([3, 2]))
    assert (hidden.shape, reset.shape, gates.shape) == ([3, 2], [3, 2], [3, 6])


PROGRAM = """
import numpy as np
import paddle.fluid as fluid
from paddle.fluid import layers, nets

def build():
    image = fluid.data('image', [2, 3, 8, 8], 'float32')
    words = layers.data('words', [4, 6], append_batch_size=False)
    words = layers.reshape(words, [1, 4, 6])
    label = fluid.data('label', [2, 1], 'int64')
    boxes = layers.data('boxes', [4], dtype='float32', lod_level=1)
    group = nets.img_conv_group(
        image, conv_num_filter=[4, 4], pool_size=2, pool_stride=2, conv_act='relu',
        conv_with_batchnorm=True, conv_batchnorm_drop_rate=[0.3, 0.0])
    attention = nets.scaled_dot_product_attention(words, words, words)
    heads = nets.scaled_dot_product_attention(words, words, words, num_heads=2)
    offset = layers.zeros([2, 18, 6, 6], 'float32')
    deformed = layers.deformable_conv(
        image, offset, None, 5, 3, modulated=False, bias_attr=False)
    features = layers.reshape(image, [2, 192])
    tree = layers.hsigmoid(features, label, num_classes=5)
    center = layers.center_loss(features, label, 5, alpha=0.5, param_attr='centers')
    pooled = layers.roi_pool(image, boxes, 2, 2)
    aligned = layers.roi_align(image, boxes, 2, 2)
    return [group, attention, heads, deformed, tree, center, pooled, aligned]

def run(feed):
    fetch = build()
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    found = exe.run(feed=feed, fetch_list=fetch)
    fluid.io.save_params(exe, folder, filename='all')
    before = np.array(fluid.global_scope().find_var('centers').get_tensor())
    exe.run(fluid.default_startup_program())
    fluid.io.load_params(exe, folder, filename='all')
    after = np.array(fluid.global_scope().find_var('centers').get_tensor())
    return [np.asarray(x) for x in found], before, after
"""


def test_groups_of_layers_in_a_program(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    image = rng.normal(size=(2, 3, 8, 8)).astype("float32")
    words = rng.normal(size=(4, 6)).astype("float32")
    boxes = np.asarray([[0, 0, 3, 3], [2, 2, 5, 5], [0, 0, 7, 7]], "float32")
    feed = {
        "image": image, "words": words, "label": np.asarray([[1], [3]]),
        "boxes": create_lod_tensor(boxes, [[1, 2]]),
    }  # fmt: skip
    with migrated(f"folder = None\n{PROGRAM}") as names:
        names["folder"] = tmp_path
        found, before, after = names["run"](feed)
    group, attention, heads, deformed, tree, center, pooled, aligned = found
    assert group.shape == (2, 4, 4, 4) and heads.shape == (1, 4, 6)
    weights = np.exp(words @ words.T / np.sqrt(6))
    wanted = weights / weights.sum(1, keepdims=True) @ words
    np.testing.assert_allclose(attention[0], wanted, rtol=1e-4, atol=1e-5)
    assert deformed.shape == (2, 5, 6, 6) and tree.shape == (2, 1)
    # Centres were zeros, and go a quarter of the way: alpha * x / (1 + 1).
    flat = image.reshape(2, -1)
    np.testing.assert_allclose(center[:, 0], (flat**2).sum(1) / 2, rtol=1e-5)
    np.testing.assert_allclose(before[[1, 3]], flat / 4, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(before, after)
    blocks = image[0, :, :4, :4].reshape(3, 2, 2, 2, 2).max((2, 4))
    np.testing.assert_allclose(pooled[0], blocks, rtol=1e-6)
    assert aligned.shape == (3, 3, 2, 2)


def test_samples_of_two_levels_are_fed() -> None:
    proa.enable_static()
    try:
        with static.program_guard(static.Program(), static.Program()):
            x = static.data("x", [-1, 1], "int64", lod_level=2)
            static.data("y", [-1, 2], "float32")
            feeder = fluid.DataFeeder([x, "y"], proa.CPUPlace())
            fed = feeder.feed([([[1, 2], [3]], [0.0, 1.0]), ([[4]], [2.0, 3.0])])
    finally:
        proa.disable_static()
    assert fed["x"].recursive_sequence_lengths() == [[2, 1], [2, 1, 1]]
    np.testing.assert_array_equal(fed["y"], [[0, 1], [2, 3]])
    drawn = fluid.create_random_int_lodtensor([[2, 3]], [1], None, 4, 6)
    assert drawn.shape == [5, 1] and 4 <= drawn.min().item() <= drawn.max().item() <= 6


def test_data_sets_are_read_from_local_files(tmp_path: Path, monkeypatch: Any) -> None:
    rows = np.random.default_rng(1).random((506, 14)) * 10
    (tmp_path / "uci_housing").mkdir()
    np.savetxt(tmp_path / "uci_housing" / "housing.data", rows)
    monkeypatch.setenv("PROA_DATA_HOME", str(tmp_path))
    train, test = fluid.dataset.uci_housing.train(), fluid.dataset.uci_housing.test()
    assert len(list(train())) == 404 and len(list(test())) == 102
    features, price = next(train())
    assert features.shape == (13,) and price[0] == pytest.approx(rows[0, -1], rel=1e-5)
    (tmp_path / "movielens").mkdir()
    with zipfile.ZipFile(tmp_path / "movielens" / "ml-1m.zip", "w") as archive:
        films = "1::Toy Story (1995)::Animation\n7::Heat (1995)::Action|Crime\n"
        archive.writestr("ml-1m/movies.dat", films)
        archive.writestr("ml-1m/users.dat", "3::F::1::10::48067\n2::M::56::16::70072\n")
        archive.writestr("ml-1m/ratings.dat", "3::7::5::978300760\n" * 40)
    movielens = fluid.dataset.movielens
    assert (movielens.max_movie_id(), movielens.max_user_id()) == (7, 3)
    assert movielens.max_job_id() == 16 and movielens.age_table[-1] == 56
    assert sorted(movielens.movie_categories()) == ["Action", "Animation", "Crime"]
    assert "heat" in movielens.get_movie_title_dict()
    user, *_, rating = next(movielens.train()())
    assert user == [3] and rating == [5.0]
    assert movielens.user_info()[2].job_id == 16 and 7 in movielens.movie_info()
    for read in (fluid.dataset.conll05.get_dict, fluid.dataset.voc2012.val):
        with pytest.raises(NotFoundError, match="expected"):
            read()
    check = fluid.dataset.readers.check_dictionary
    check("imdb.train", {"a": 0}, {"a": 0})
    with pytest.raises(InvalidArgumentError, match="own dictionary"):
        check("imdb.train", {"a": 1}, {"a": 0})
