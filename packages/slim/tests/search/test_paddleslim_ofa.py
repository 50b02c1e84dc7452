"""PaddleSlim's loop of once-for-all training, as its users write it."""

import copy

import numpy as np
import pytest

import proa
import proa as paddle
import proa.nn.functional as F
from proa import nn
from proa.errors import InvalidArgumentError, PreconditionNotMetError
from proa.static import InputSpec
from proa_slim.analysis import flops
from proa_slim.nas.ofa import OFA, DistillConfig, RunConfig
from proa_slim.nas.ofa.convert_super import Convert, supernet

SHAPE = [None, 1, 8, 8]


class Model(nn.Layer):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2D(1, 8, 3, padding=1)
        self.bn1 = nn.BatchNorm2D(8)
        self.conv2 = nn.Conv2D(8, 16, 3, stride=2, padding=1)
        self.fc1 = nn.Linear(16 * 16, 32)
        self.fc2 = nn.Linear(32, 4)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = F.relu(self.conv2(x))
        x = F.relu(self.fc1(paddle.flatten(x, 1)))
        return self.fc2(x)


def waves(count):
    """Orientation of a wave in noise."""
    rng = np.random.default_rng(1)
    y = rng.integers(0, 4, count)
    grid = np.arange(8) / 8 * 2 * np.pi
    along = np.cos(y * np.pi / 4)[:, None, None] * grid[None, :, None]
    across = np.sin(y * np.pi / 4)[:, None, None] * grid[None, None, :]
    x = np.sin(2 * (along + across)) + rng.standard_normal((count, 8, 8)) * 0.5
    return x[:, None].astype(np.float32), y


def accuracy(net, x, y):
    net.eval()
    with paddle.no_grad():
        return float((net(paddle.to_tensor(x)).numpy().argmax(1) == y).mean())


def train(model, parameters, loss_of, x, y, epochs):
    opt = paddle.optimizer.Adam(5e-3, parameters=parameters)
    for epoch in range(epochs):
        model.train()
        order = np.random.default_rng(epoch).permutation(len(x))
        for rows in order.reshape(-1, 64):
            loss = loss_of(epoch, paddle.to_tensor(x[rows]), paddle.to_tensor(y[rows]))
            loss.backward()
            opt.step()
            opt.clear_grad()


def once_for_all(model, teacher, images):
    """The model as a supernet that learns from the teacher, too."""
    sp_net_config = supernet(kernel_size=(1, 3), expand_ratio=[0.25, 0.5, 1.0])
    sp_model = Convert(sp_net_config).convert(model)
    run_config = RunConfig(
        train_batch_size=64,
        total_images=images,
        n_epochs=[[1], [3, 12]],
        dynamic_batch_size=[1, 1],
        elastic_depth=None,
    )
    distill_config = DistillConfig(
        lambda_distill=0.1,
        teacher_model=teacher,
        mapping_layers=["conv2", "fc1"],
        mapping_op=None,
    )
    with pytest.raises(InvalidArgumentError, match="mapping_op linear, got 'conv2'"):
        OFA(sp_model, distill_config=distill_config._replace(mapping_op="linear"))
    distill_config = distill_config._replace(
        mapping_op="linear", mapping_layers=["fc1"]
    )
    return OFA(sp_model, run_config, distill_config=distill_config)


def test_a_program_of_paddleslim_trains_once_and_exports(tmp_path):
    paddle.seed(0)
    x, y = waves(640)
    held_x, held_y = waves(900)[0][640:], waves(900)[1][640:]
    teacher, model = Model(), Model()

    def teach(epoch, image, label):
        return F.cross_entropy(teacher(image), label)

    train(teacher, teacher.parameters(), teach, x, y, 6)
    model.set_state_dict(teacher.state_dict())

    ofa_model = once_for_all(model, teacher, len(x))
    assert ofa_model.elastic_order == ["kernel_size", "width"]
    seen = {}

    def learn(epoch, image, label):
        ofa_model.set_epoch(epoch)
        out, of_teacher = ofa_model(image)
        for found in ofa_model.get_current_config.values():
            for kind, value in found.items():
                seen.setdefault((epoch, kind), set()).add(value)
        soft = F.softmax(of_teacher)
        return (
            F.cross_entropy(out, label)
            + F.cross_entropy(out, soft, soft_label=True)
            + ofa_model.calc_distill_loss()
        )

    parameters = [*ofa_model.parameters(), *ofa_model.netAs_param]
    assert len(parameters) == len(model.parameters()) + 2
    train(ofa_model, parameters, learn, x, y, 12)
    # Kernels first, then one more width, then all.
    assert seen[0, "kernel_size"] == {1, 3} and seen[1, "expand_ratio"] == {1.0}
    assert seen[2, "expand_ratio"] == {1.0, 0.5}
    assert seen[5, "expand_ratio"] == {1.0, 0.5, 0.25}

    assert accuracy(model, held_x, held_y) > 0.9
    narrow = {name: {"expand_ratio": 0.5} for name in ("conv1", "conv2", "fc1")}
    small = ofa_model.export(
        narrow, input_shapes=[1, 1, 8, 8], input_dtypes=["float32"],
        calibration=[paddle.to_tensor(x)],
    )  # fmt: skip
    assert small.conv2.weight.shape == [8, 4, 3, 3]
    assert flops(small, SHAPE) < 0.35 * flops(model, SHAPE)
    assert accuracy(small, held_x, held_y) > 0.85
    path = str(tmp_path / "small.proa")
    paddle.jit.save(small, path, [InputSpec(SHAPE, "float32", "x")])
    loaded = paddle.jit.load(path)(paddle.to_tensor(held_x)).numpy()
    want = small(paddle.to_tensor(held_x)).numpy()
    np.testing.assert_allclose(loaded, want, rtol=1e-4, atol=1e-5)


def test_a_set_config_runs_the_network_that_is_exported():
    paddle.seed(1)
    model = Convert(supernet(expand_ratio=(0.5, 1.0))).convert(Model())
    ofa_model = OFA(model)
    image = paddle.to_tensor(waves(8)[0])
    config = {"conv1": {"expand_ratio": 0.5}, "fc2": {"expand_ratio": 1.0}}
    ofa_model.set_net_config(config)
    ofa_model.eval()
    got = ofa_model(image)
    assert ofa_model.get_current_config is config
    result = ofa_model.export(config)
    assert result(image).numpy().tobytes() == got.numpy().tobytes()
    # Gradients are those of the smaller network, at their places.
    got.sum().backward()
    result(image).sum().backward()
    remaining = np.abs(model.conv1.weight.grad.numpy()).sum((1, 2, 3)) > 0
    assert remaining.sum() == 4
    np.testing.assert_array_equal(
        model.conv1.weight.grad.numpy()[remaining], result.conv1.weight.grad.numpy()
    )
    np.testing.assert_array_equal(
        model.conv2.weight.grad.numpy()[:, remaining], result.conv2.weight.grad.numpy()
    )
    ofa_model.set_net_config({"conv1": {"expand_ratio": 0.3}})
    with pytest.raises(InvalidArgumentError, match="expand_ratio of 'conv1' among"):
        ofa_model(image)


def test_tokens_name_networks():
    model = Convert(supernet(expand_ratio=(0.25, 0.5, 1.0))).convert(Model())
    ofa_model = OFA(model, RunConfig(skip_layers=["fc1"]))
    with pytest.raises(PreconditionNotMetError, match="a call with data and set_task"):
        ofa_model.tokenize()
    ofa_model.set_task("expand_ratio")
    ofa_model(paddle.to_tensor(waves(4)[0]))
    ofa_model.tokenize()
    options = {0: 0.25, 1: 0.5, 2: 1.0}
    assert ofa_model.token_map == {"expand_ratio": {"conv1": options, "conv2": options}}
    assert ofa_model.search_cands == [[0, 1, 2], [0, 1, 2]]
    config = ofa_model.decode_token([2, 0])
    assert config == {"conv1": {"expand_ratio": 1.0}, "conv2": {"expand_ratio": 0.25}}

    def cheap(net):
        return flops(net, SHAPE) < 0.7 * flops(model, SHAPE)

    best = ofa_model.search(lambda net: -flops(net, SHAPE), cheap, 6)
    assert set(best) == {"conv1", "conv2"} and cheap(ofa_model.export(best))


def test_numbers_of_channels_are_options_too():
    with supernet(channel=[(4, 8), (16,), (8, 32), (4,)]) as convert:
        model = convert.convert(Model())
    ofa_model = OFA(model)
    ofa_model.set_task("channel")
    image = paddle.to_tensor(waves(4)[0])
    ofa_model(image)
    result = ofa_model.export({"conv1": {"channel": 4}, "fc1": {"channel": 8}})
    assert result.conv1.weight.shape == [4, 1, 3, 3] and result.fc1.weight.shape == [
        256,
        8,
    ]


def test_kernels_are_enlarged_with_zeros():
    plain = Model()
    x = paddle.to_tensor(waves(4)[0])
    plain.eval()
    want = plain(x).numpy()
    model = Convert(supernet(kernel_size=(3, 5, 7))).convert(copy.deepcopy(plain))
    assert model.conv1.weight.shape == [8, 1, 7, 7]
    np.testing.assert_allclose(model(x).numpy(), want, rtol=1e-4, atol=1e-5)
    ofa_model = OFA(model)
    ofa_model.set_net_config({"conv1": {"kernel_size": 3}, "conv2": {"kernel_size": 5}})
    ofa_model.eval()
    np.testing.assert_allclose(ofa_model(x).numpy(), want, rtol=1e-4, atol=1e-5)


class Deep(Model):
    def forward(self, x, depth=2):
        x = F.relu(self.bn1(self.conv1(x)))
        x = F.relu(self.conv2(x))
        x = paddle.flatten(x, 1)
        return self.fc2(F.relu(self.fc1(x))) * float(depth)


def test_depth_is_an_argument_of_the_network():
    model = Convert(supernet(expand_ratio=(0.5, 1.0))).convert(Deep())
    ofa_model = OFA(model, RunConfig(elastic_depth=(2, 3)))
    ofa_model.set_task("depth")
    ofa_model.eval()
    x = paddle.to_tensor(waves(4)[0])
    found = {}
    for _ in range(12):
        y = ofa_model(x).numpy()
        found[ofa_model.get_current_config["depth"]] = y
    np.testing.assert_allclose(found[3], 1.5 * found[2], rtol=1e-5)


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (lambda: supernet(expand_ratio=[1, 2, 4]), r"expand_ratio in \(0, 1\], of a"),
        (lambda: supernet(expand_ratio=[0.5, 1], channel=[4]), "or channel, got both"),
        (lambda: supernet(kernel_size=[2, 3]), "odd sizes of kernels"),
        (lambda: Convert(supernet(channel=[8])).convert(Model()), "each of 4 layers"),
        (lambda: Convert(supernet(kernel_size=(3,))).convert(Model()), "got none in"),
        (lambda: OFA(Model()), "a network that Convert returned, got Model"),
        (
            lambda: OFA(
                Convert(supernet(expand_ratio=(0.5, 1))).convert(Model()),
                distill_config=DistillConfig(
                    teacher_model=Model(), mapping_layers=["x"]
                ),
            ),
            "paths of layers in both networks, got 'x'",
        ),
    ],
)
def test_wrong_arguments_say_what_is_expected(build, text):
    with pytest.raises(InvalidArgumentError, match=text):
        build()


def test_what_varies_must_be_known():
    options = supernet(kernel_size=(1, 3), expand_ratio=(0.5, 1.0))
    ofa_model = OFA(Convert(options).convert(Model()))
    image = proa.to_tensor(waves(2)[0])
    with pytest.raises(PreconditionNotMetError, match="kernel_size and width vary"):
        ofa_model(image)
    with pytest.raises(InvalidArgumentError, match=r"a task among .*, got 'size'"):
        ofa_model.set_task("size")
