"""Programs for Paddle 1.x, rewritten, run on Proa and compute what 1.x computed."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proa
from proa import cli, migrate
from proa.errors import InvalidArgumentError, MissingFileError

from .programs import executed, rewritten

pytest.importorskip("libcst")

NETWORK = '''
"""A classifier of small pictures."""
import numpy as np
import paddle
import paddle.fluid as fluid
from paddle.fluid.dygraph.nn import Linear, Conv2D, Pool2D, BatchNorm
from paddle.fluid.dygraph import Embedding

# the network
class Net(fluid.dygraph.Layer):
    def __init__(self):
        super(Net, self).__init__()
        self.conv = Conv2D(1, 4, 3, padding=1, act="relu")  # 4 maps
        self.norm = BatchNorm(num_channels=4, act="relu")
        self.pool = Pool2D(pool_size=2, pool_type="max", pool_stride=2)
        self.mean = Pool2D(pool_type="avg", global_pooling=True)
        self.words = Embedding(size=[7, 4], param_attr=fluid.ParamAttr(
            initializer=fluid.initializer.Xavier(uniform=False)))
        self.fc = Linear(4, 3, act="softmax")

    def forward(self, x, w):
        x = self.mean(self.pool(self.norm(self.conv(x))))
        x = fluid.layers.reshape(x, [x.shape[0], -1])
        return self.fc(fluid.layers.elementwise_add(x, self.words(w), act="tanh"))


def train(steps):
    with fluid.dygraph.guard(fluid.CPUPlace()):
        # data
        noise = np.random.RandomState(0)
        net = Net()
        rate = fluid.dygraph.PiecewiseDecay([20], [0.05, 0.01], begin=0)
        optimizer = fluid.optimizer.AdamOptimizer(
            learning_rate=rate, parameter_list=net.parameters(),
            regularization=fluid.regularizer.L2Decay(regularization_coeff=1e-5),
            grad_clip=fluid.clip.GradientClipByGlobalNorm(5.0))
        x = fluid.dygraph.to_variable(noise.randn(6, 1, 8, 8).astype("float32"))
        w = fluid.dygraph.to_variable(np.array([0, 1, 2, 3, 4, 5]))
        y = fluid.dygraph.to_variable(np.array([[0], [1], [2], [0], [1], [2]]))
        losses = []
        for _ in range(steps):
            loss = fluid.layers.cross_entropy(net(x, w), y)
            average = fluid.layers.mean(loss)
            average.backward()
            optimizer.minimize(average)
            net.clear_gradients()
            losses.append(float(average))
        return losses
'''
STATIC = """
import numpy
import paddle.fluid as fluid
from paddle.fluid import layers

x = fluid.layers.data(name="x", shape=[13], dtype="float32")
y = fluid.layers.data("y", [2, 1], append_batch_size=False)
z = layers.data("z", shape=[-1, 5])
hidden = fluid.layers.fc(input=x, size=4, act="relu", param_attr=None)
exe = fluid.Executor(fluid.CPUPlace())
exe.run(fluid.default_startup_program())
"""


@pytest.mark.feature("L167")
def test_a_program_of_dygraph_trains() -> None:
    code = rewritten(NETWORK)
    assert "fluid" not in code and "import paddle\n" in code
    losses = executed(code)["train"](40)
    assert losses[-1] < 0.5 * losses[0], losses


def test_comments_and_layout_stay() -> None:
    code = rewritten(NETWORK)
    for text in ('"""A classifier of small pictures."""', "# the network\n",
                 "# 4 maps\n", "    # data\n    noise ="):  # fmt: skip
        assert text in code
    assert "guard" not in code and "disable_static" not in code


def test_activations_become_functions_and_layers() -> None:
    code = rewritten(NETWORK)
    assert "paddle.nn.functional.tanh(paddle.add(x, self.words(w)))" in code
    assert "paddle.nn.Sequential(paddle.nn.Linear(4, 3), paddle.nn.Softmax())" in code
    assert 'paddle.nn.BatchNorm(num_channels=4, act="relu")' in code


def test_a_static_program_gets_enable_static_and_whole_shapes() -> None:
    code = rewritten(STATIC)
    assert code.count("paddle.enable_static()") == 1
    assert code.index("import paddle\n") < code.index("paddle.enable_static()")
    assert code.index("paddle.enable_static()") < code.index("paddle.static.data")
    assert 'paddle.static.data(name="x", shape=[None, 13], dtype="float32")' in code
    assert 'paddle.static.data("y", [2, 1])' in code
    assert 'paddle.static.data("z", shape=[-1, 5])' in code
    assert (
        'paddle.static.nn.fc(x=x, size=4, activation="relu", weight_attr=None)' in code
    )
    assert "fluid" not in code and "layers" not in code


REGRESSION = """
import numpy
import paddle
import paddle.fluid as fluid

def train(xs, ys, passes):
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        x = fluid.layers.data(name="x", shape=[3], dtype="float32")
        y = fluid.layers.data(name="y", shape=[1], dtype="float32")
        guess = fluid.layers.fc(input=x, size=1, act=None)
        loss = fluid.layers.mean(fluid.layers.square_error_cost(input=guess, label=y))
        fluid.optimizer.SGD(learning_rate=0.1).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(startup)
    for _ in range(passes):
        value, = exe.run(main, feed={"x": xs, "y": ys}, fetch_list=[loss])
    return float(value)
"""


@pytest.mark.feature("L167")
def test_a_static_program_trains() -> None:
    code = rewritten(REGRESSION)
    noise = np.random.default_rng(0)
    x = noise.normal(size=(64, 3)).astype("float32")
    y = (x @ np.asarray([[1.0], [-2.0], [0.5]]) + 3).astype("float32")
    try:
        assert executed(code)["train"](x, y, 200) < 1e-4
    finally:
        proa.disable_static()


def test_members_of_classes_follow_their_class() -> None:
    code = rewritten(
        "import paddle.fluid as fluid\n"
        "a = fluid.BuildStrategy.ReduceStrategy.Reduce\n"
        "b = fluid.dygraph.Layer.parameters(net)\n"
        "fluid.optimizer.SGD(0.1).minimize(loss)\n"
    )
    assert code == (
        "import paddle\n"
        "a = paddle.static.BuildStrategy.ReduceStrategy.Reduce\n"
        "b = paddle.nn.Layer.parameters(net)\n"
        "paddle.optimizer.SGD(0.1).minimize(loss)\n"
    )


def value(expression: str, **arrays: Any) -> Any:
    """What an expression of 1.x gives, rewritten."""
    begin = "import numpy as np\nimport paddle.fluid as fluid\n"
    begin += "from paddle.fluid import layers\n"
    code = rewritten(f"{begin}result = lambda {', '.join(arrays)}: {expression}\n")
    tensors = {name: proa.to_tensor(a) for name, a in arrays.items()}
    found = executed(code)["result"](**tensors)
    return [t.numpy() for t in found] if isinstance(found, list) else found.numpy()


X = np.random.default_rng(0).normal(size=(2, 3, 4)).astype("float32")
P = np.asarray([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8]], "float32")
#: Expressions of 1.x and what its documentation says that they are.
FORMULAS = {
    "layers.reduce_sum(x, 1, True)": X.sum(1, keepdims=True),
    "layers.reduce_mean(input=x, dim=[0, 2])": X.mean((0, 2)),
    "layers.reduce_max(x, -1)": X.max(-1),
    "layers.elementwise_sub(x=x, y=x * 2, axis=-1, act='relu')": np.maximum(-X, 0),
    "layers.elementwise_max(x, x * 2)": np.maximum(X, X * 2),
    "layers.leaky_relu(x)": np.where(X > 0, X, 0.02 * X),
    "layers.leaky_relu(x, 0.3)": np.where(X > 0, X, 0.3 * X),
    "layers.hard_sigmoid(x)": np.clip(0.2 * X + 0.5, 0, 1),
    "layers.brelu(x * 20)": np.clip(X * 20, 0, 24),
    "layers.relu(fluid.layers.scale(x, 2.0, bias=1.0))": np.maximum(2 * X + 1, 0),
    "layers.transpose(layers.reshape(x=x, shape=[6, 4]), [1, 0])": X.reshape(6, 4).T,
    "layers.concat(input=[x, x], axis=1)": np.concatenate([X, X], 1),
    "layers.concat(layers.split(x, 2))": np.concatenate(np.split(X, 2, -1)),
    "layers.split(input=x, num_or_sections=3, dim=1)[2]": X[:, 2:],
    "layers.squeeze(layers.unsqueeze(x, axes=[1]), axes=[1])": X,
    "layers.fill_constant([2], 'int64', 7)": np.full(2, 7),
    "layers.fill_constant(shape=[2], dtype='float32', value=0.5)": np.full(2, 0.5),
    "layers.expand(x, [1, 2, 1])": np.tile(X, (1, 2, 1)),
    "layers.argmax(x)": X.argmax(0),
    "layers.argmin(x, axis=-1)": X.argmin(-1),
    "layers.matmul(x, x, transpose_y=True)": X @ X.transpose(0, 2, 1),
    "layers.cast(layers.range(0, 6, 2, 'int64'), 'float32')": np.asarray([0, 2, 4.0]),
    "layers.dropout(x, 0.5, is_test=True)": X * 0.5,
    "layers.dropout(x, dropout_prob=0.5, is_test=True,"
    " dropout_implementation='upscale_in_train')": X,
    "layers.pool2d(x.reshape([1, 2, 3, 4]), 3, 'max', 1)":
        np.stack([X.reshape(2, 3, 4)[..., i:i + 3].max((-1, -2)) for i in (0, 1)], -1)
        .reshape(1, 2, 1, 2),
    "layers.pool2d(x.reshape([1, 2, 3, 4]), pool_type='avg', global_pooling=True)":
        X.mean((-1, -2)).reshape(1, 2, 1, 1),
    "layers.cross_entropy(p, layers.reshape(layers.range(0, 4, 2, 'int64'), [2, 1]))":
        -np.log([[0.7], [0.8]]),
    "layers.softmax(p)": np.exp(P) / np.exp(P).sum(-1, keepdims=True),
    "fluid.one_hot(layers.range(0, 3, 1, 'int64'), 3)": np.eye(3),
    "layers.sums([x, x])": X + X,
    "layers.square_error_cost(x, x * 3)": (2 * X) ** 2,
    "layers.clip(x, -0.5, 0.5)": np.clip(X, -0.5, 0.5),
    "layers.gather(x, layers.range(0, 2, 1, 'int64'))": X,
    "layers.l2_normalize(x, axis=-1)":
        X / np.sqrt((X**2).sum(-1, keepdims=True)),
}  # fmt: skip


@pytest.mark.feature("L167")
@pytest.mark.parametrize("expression", FORMULAS)
def test_an_expression_gives_what_it_gave(expression: str) -> None:
    found = value(expression, x=X, p=P)
    np.testing.assert_allclose(found, FORMULAS[expression], rtol=1e-5, atol=1e-6)


def test_arguments_by_place_stay_by_place_where_the_places_agree() -> None:
    begin = "import paddle.fluid as fluid\n"
    for old, new in {
        "fluid.layers.reduce_sum(a, 0)": "paddle.sum(a, 0)",
        "fluid.layers.reduce_sum(a, 0, True)": "paddle.sum(a, 0, keepdim=True)",
        "fluid.layers.reduce_sum(dim=0, input=a)": "paddle.sum(axis=0, x=a)",
        "fluid.layers.reshape(a, [1], None, None, True)": "paddle.reshape(a, [1])",
        "fluid.layers.fill_constant([1], 'int32', 3)":
            "paddle.full([1], dtype='int32', fill_value=3)",
        "fluid.layers.Print(a)": "paddle.static.Print(a)",
        "fluid.optimizer.SGD(0.1, ps)": "paddle.optimizer.SGD(0.1, ps)",
        "fluid.save_dygraph(net.state_dict(), path)":
            'paddle.save(net.state_dict(), path + ".pdparams")',
        "fluid.save_dygraph(adam.state_dict(), 'a')":
            "paddle.save(adam.state_dict(), 'a.pdopt')",
    }.items():  # fmt: skip
        assert rewritten(f"{begin}{old}\n") == f"import paddle\n{new}\n"


def test_imports_of_1_x_go_and_one_of_paddle_comes() -> None:
    for old in (
        "import paddle.fluid as fluid\nfluid.layers.relu(x)\n",
        "from paddle import fluid\nfluid.layers.relu(x)\n",
        "import paddle.fluid\npaddle.fluid.layers.relu(x)\n",
        "from paddle.fluid.layers import relu\nrelu(x)\n",
        "from paddle.fluid.layers.nn import relu as r\nr(x)\n",
        "import paddle.fluid.layers as L\nL.relu(x)\n",
        "import paddle\nimport paddle.fluid as F\nF.layers.ops.relu(x)\n",
    ):
        assert rewritten(old) == "import paddle\npaddle.nn.functional.relu(x)\n"
    code = rewritten("import os\n\ndef f(x):\n    import paddle.fluid as fluid\n"
                     "    return fluid.layers.relu(x)\n")  # fmt: skip
    assert code.startswith("import paddle\n") and "fluid" not in code


def test_comments_before_an_import_stay() -> None:
    code = rewritten(
        "import os\n\n# the framework\nimport paddle.fluid as fluid\n"
        "# its layers\nfrom paddle.fluid import layers\nlayers.relu(x)\n"
    )
    assert code == (
        "import os\n\n# the framework\nimport paddle\n"
        "# its layers\npaddle.nn.functional.relu(x)\n"
    )
    code = rewritten(
        "import paddle\n\n# the rest\nimport paddle.fluid as F\nF.layers.relu(x)\n"
    )
    assert code == "import paddle\n# the rest\npaddle.nn.functional.relu(x)\n"


def test_names_of_others_stay() -> None:
    source = (
        "import fluid\nfrom mine import layers\n"
        "layers.fc(1, act='relu')\nfluid.layers.relu(x)\n"
    )
    assert migrate.rewrite(source).code == source
    assert migrate.rewrite(source).findings == ()


def test_what_has_no_equal_is_left_and_reported() -> None:
    source = textwrap.dedent("""\
        import paddle.fluid as fluid
        a = fluid.layers.hash(x, 8)
        b = fluid.layers.unheard_of(x)
        c = fluid.layers.reduce_sum(*given)
        d = fluid.layers.elementwise_add(x, y, axis=0)
        e = fluid.layers.fc(x, 3)
        f = fluid.dygraph.Linear(3, 4, act=name)
        print(loss.numpy()[0])
        """)
    result = migrate.rewrite(source)
    by_hand = {f.line: f.text for f in result.by_hand}
    assert by_hand == {
        2: "no function of 2.x: hash on the host, by paddle.static.py_func",
        3: "the table has no such name",
        4: "arguments by * or **: input is x, dim is axis, keep_dim is keepdim",
        7: "act: apply the activation to the result",
    }
    assert "import paddle.fluid as fluid\n" in result.code
    assert "fluid.layers.hash(x, 8)" in result.code
    assert (
        "d = paddle.migrate.fluid.layers.elementwise_add(x, y, axis=0)" in result.code
    )
    assert "e = paddle.static.nn.fc(x, 3)" in result.code
    (scalar,) = [f for f in result.findings if f.old == "Variable.numpy()[0]"]
    assert scalar.kind == "check" and scalar.line == 8


def test_a_dropped_argument_is_reported_if_it_was_given() -> None:
    begin = "import paddle.fluid as fluid\n"
    (found,) = migrate.rewrite(f"{begin}fluid.layers.relu6(x, threshold=7)\n").findings
    assert found.kind == "check" and "threshold is gone" in found.text
    (found,) = migrate.rewrite(f"{begin}fluid.layers.relu6(x)\n").findings
    assert found.kind == "rewritten" and found.text == ""


def test_what_is_no_python_3_is_an_error() -> None:
    with pytest.raises(InvalidArgumentError, match="expected Python 3, got line 1"):
        migrate.rewrite("print 'paddle.fluid'\n")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(NETWORK)
    (tmp_path / "new.py").write_text("import paddle\n")
    (tmp_path / "old.py").write_text("print 'paddle.fluid'\n")
    deep = tmp_path / "package"
    deep.mkdir()
    (deep / "left.py").write_text("from paddle.fluid import layers\nlayers.hash(x)\n")
    return tmp_path


@pytest.mark.feature("L167")
def test_the_command_shows_the_difference_and_a_report(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = folder / "report.md"
    assert cli.main(["migrate", str(folder), "--report", str(page)]) == 1
    shown = capsys.readouterr()
    assert f"--- {folder / 'train.py'} (1.x)" in shown.out
    assert "-import paddle.fluid as fluid\n" in shown.out
    assert "+class Net(paddle.nn.Layer):\n" in shown.out
    assert "left.py:2: by hand: paddle.fluid.layers.hash" in shown.err
    assert "old.py: [rewrite] expected Python 3" in shown.err
    assert (folder / "train.py").read_text() == NETWORK
    text = page.read_text()
    assert "4 files read, 1 changed" in text and "1 to do by hand" in text
    assert "| `paddle.fluid.layers.mean` | `paddle.mean` |" in text


def test_the_command_writes_files(folder: Path) -> None:
    (folder / "old.py").unlink()
    (folder / "package" / "left.py").unlink()
    assert cli.main(["migrate", str(folder), "--write"]) == 0
    code = (folder / "train.py").read_text()
    assert code == migrate.rewrite(NETWORK).code
    assert (folder / "new.py").read_text() == "import paddle\n"
    assert cli.main(["migrate", str(folder), "--write"]) == 0
    assert (folder / "train.py").read_text() == code


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(MissingFileError, match="expected a file or folder"):
        migrate.migrate(tmp_path / "nothing.py")
    assert cli.main(["migrate", str(tmp_path / "nothing.py")]) == 1
