"""The Layer system: registration, walking, hooks, state, modes, copies, printing."""

from __future__ import annotations

import copy
import inspect
import warnings
from typing import Any

import numpy as np
import pytest

import proa
from proa import nn
from proa.errors import AlreadyExistsError, InvalidArgumentError, UnavailableError


class Net(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(3, 4)
        self.block = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1D(4))
        self.register_buffer("seen", proa.zeros([1]))

    def forward(self, x: Any) -> Any:
        return self.block(self.fc1(x))


@pytest.mark.feature("L062", "L064")
def test_parameters_and_layers_register_by_assignment() -> None:
    net = Net()
    assert [n for n, _ in net.named_parameters()] == [
        "fc1.weight", "fc1.bias", "block.0.weight", "block.0.bias", "block.1.weight",
        "block.1.bias",
    ]  # fmt: skip
    assert [n for n, _ in net.named_sublayers()] == [
        "fc1",
        "block",
        "block.0",
        "block.1",
    ]
    assert [n for n, _ in net.named_buffers()] == [
        "seen", "block.1._mean", "block.1._variance",
    ]  # fmt: skip
    assert [n for n, _ in net.named_children()] == ["fc1", "block"]
    assert len(net.parameters(include_sublayers=False)) == 0


@pytest.mark.feature("L061")
def test_layers_are_created_without_a_name_scope() -> None:
    results = [getattr(nn, name) for name in nn.__all__]
    layers = [c for c in results if isinstance(c, type) and issubclass(c, nn.Layer)]
    assert len(layers) > 80
    for layer in layers:
        parameters = [*inspect.signature(layer).parameters.values()]
        scopes = [p for p in parameters if p.name == "name_scope"]
        assert all(p.default is None for p in scopes), layer


def test_names_are_unique_and_like_paddles() -> None:
    a, b = nn.Linear(2, 2), nn.Linear(2, 2)
    kind, number = a.full_name().rsplit("_", 1)
    assert kind == "linear"
    assert b.full_name() == f"linear_{int(number) + 1}"
    assert a.weight.name == f"{a.full_name()}.w_0"
    assert a.bias.name == f"{a.full_name()}.b_0"
    conv = nn.Conv2D(1, 1, 1).full_name()
    assert conv.startswith("conv2d_")


@pytest.mark.feature("L074", how="figure")
def test_sublayers_with_and_without_self() -> None:
    net = proa.vision.models.resnet18()
    assert len(net.sublayers(include_self=True)) == 68
    assert len(net.sublayers()) == 67


@pytest.mark.feature("L065")
def test_none_can_become_a_parameter_and_back() -> None:
    net = nn.Layer()
    net.w = None
    net.w = net.create_parameter([2])
    assert [n for n, _ in net.named_parameters()] == ["w"]
    net.w = None
    assert net.w is None
    assert not net.parameters()
    net.w = net.create_parameter([3])
    assert net.w.shape == [3]
    with pytest.raises(InvalidArgumentError, match="Parameter or None"):
        net.w = proa.ones([3])


def test_names_are_checked() -> None:
    net = Net()
    with pytest.raises(InvalidArgumentError, match="without a dot"):
        net.register_buffer("a.b", proa.ones([1]))
    with pytest.raises(AlreadyExistsError, match="expected an unused name"):
        net.register_buffer("fc1", proa.ones([1]))
    with pytest.raises(InvalidArgumentError, match=r"super\(\).__init__"):

        class Early(nn.Layer):
            def __init__(self) -> None:
                self.fc = nn.Linear(1, 1)

        Early()
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = net.nothing
    with pytest.raises(NotImplementedError, match="must define forward"):
        nn.Layer()(1)


@pytest.mark.feature("L052")
def test_hooks_see_and_change_inputs_and_outputs() -> None:
    net = nn.Linear(2, 2)
    x = proa.ones([1, 2])
    plain = net(x).numpy()
    seen: list[Any] = []
    pre = net.register_forward_pre_hook(lambda layer, given: (given[0] * 2,))
    post = net.register_forward_post_hook(lambda layer, given, out: seen.append(given))
    doubled = net(x).numpy()
    assert seen[0][0].tolist() == [[2, 2]]
    pre.remove()
    post.remove()
    change = net.register_forward_post_hook(lambda layer, given, out: out + 1)
    np.testing.assert_allclose(net(x).numpy(), plain + 1, rtol=1e-6)
    change.remove()
    np.testing.assert_array_equal(net(x).numpy(), plain)
    bias = net.bias.numpy()
    np.testing.assert_allclose(doubled - bias, 2 * (plain - bias), rtol=1e-5, atol=1e-6)


def test_state_dict_copies_one_network_to_another() -> None:
    a, b = Net(), Net()
    missing, unexpected = b.set_state_dict(a.state_dict())
    assert (missing, unexpected) == ([], [])
    for p, q in zip(a.parameters(), b.parameters(), strict=True):
        np.testing.assert_array_equal(p.numpy(), q.numpy())
    state = dict(a.state_dict())
    del state["fc1.bias"]
    state["extra"] = proa.ones([1])
    state["fc1.weight"] = proa.ones([7, 7])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        missing, unexpected = b.set_state_dict(state)
    assert sorted(missing) == ["fc1.bias", "fc1.weight"]
    assert unexpected == ["extra"]
    assert "must be [3, 4], got [7, 7]" in str(caught[0].message)


def test_state_is_saved_and_loaded(tmp_path: Any) -> None:
    a, b = Net(), Net()
    proa.save(a.state_dict(), tmp_path / "net.pdparams")
    b.set_state_dict(proa.load(tmp_path / "net.pdparams"))
    x = proa.randn([5, 3])
    a.eval()
    b.eval()
    np.testing.assert_array_equal(a(x).numpy(), b(x).numpy())


def test_buffers_may_stay_out_of_the_state() -> None:
    net = nn.Layer()
    net.register_buffer("persistent", proa.ones([1]))
    net.register_buffer("left", proa.ones([1]), persistable=False)
    assert list(net.state_dict()) == ["persistent"]
    net.persistent = proa.zeros([2])
    assert net.state_dict()["persistent"].shape == [2]
    handle = net.register_state_dict_hook(lambda s: {"only": s["persistent"]})
    assert list(net.state_dict()) == ["only"]
    handle.remove()


@pytest.mark.feature("L057", "L060")
def test_modes_belong_to_each_layer() -> None:
    a, b = Net(), Net()
    a.eval()
    assert not any(layer.training for layer in a.sublayers(include_self=True))
    assert all(layer.training for layer in b.sublayers(include_self=True))
    a.block.train()
    assert a.block[1].training
    assert not a.fc1.training


@pytest.mark.feature("L059")
def test_eval_keeps_gradients() -> None:
    net = nn.Linear(2, 1)
    net.eval()
    net(proa.ones([1, 2])).sum().backward()
    assert net.weight.grad is not None
    with proa.no_grad():
        assert net(proa.ones([1, 2])).stop_gradient


@pytest.mark.feature("L068")
def test_copies_have_parameters_of_their_own() -> None:
    a = Net()
    b = copy.deepcopy(a)
    c = a.deepcopy()
    x = proa.randn([4, 3])
    for layer in (a, b, c):
        layer.eval()
    np.testing.assert_array_equal(a(x).numpy(), b(x).numpy())
    b.fc1.weight.set_value(np.zeros((3, 4)))
    assert a.fc1.weight.numpy().any()
    assert c.fc1.weight.numpy().any()
    names = {p.name for layer in (a, b, c) for p in layer.parameters()}
    assert len(names) == 18
    assert b.full_name() != a.full_name()


@pytest.mark.feature("L069")
def test_dir_lists_what_is_registered() -> None:
    assert {"fc1", "block", "seen", "forward"} <= set(dir(Net()))


@pytest.mark.feature("L070")
def test_printing_shows_the_hierarchy() -> None:
    assert repr(nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.ReLU()))) == (
        "Sequential(\n"
        "  (0): Linear(in_features=2, out_features=3, dtype=float32)\n"
        "  (1): Sequential(\n"
        "    (0): ReLU()\n"
        "  )\n"
        ")"
    )


@pytest.mark.feature("L073")
def test_to_converts_parameters_and_buffers_in_place() -> None:
    net = Net()
    p = net.fc1.weight
    net.to(dtype="float64")
    assert net.fc1.weight is p
    assert p.dtype == proa.float64
    assert net.block[1]._mean.dtype == proa.float64
    assert net(proa.ones([2, 3], "float64")).dtype == proa.float64
    net.float16(excluded_layers=[nn.BatchNorm1D])
    assert net.fc1.weight.dtype == proa.float16
    assert net.block[1].weight.dtype == proa.float64
    assert not p.stop_gradient
    for device in ("cpu", proa.CPUPlace()):
        assert net.to(device=device) is net
        assert all(q.place.is_cpu_place() for q in net.parameters())
    with pytest.raises(UnavailableError, match="available device, got 'gpu"):
        net.to(device="gpu:0")


def test_apply_visits_every_layer() -> None:
    net, seen = Net(), list[str]()
    net.apply(lambda layer: seen.append(type(layer).__name__))
    assert seen == ["Linear", "Linear", "BatchNorm1D", "Sequential", "Net"]


def test_parameter_attributes_reach_the_parameter() -> None:
    attr = nn.ParamAttr(
        name="mine", learning_rate=0.5, trainable=False, need_clip=False,
        initializer=nn.initializer.Constant(3.0),
    )  # fmt: skip
    layer = nn.Linear(2, 2, weight_attr=attr, bias_attr=False)
    assert layer.bias is None
    w = layer.weight
    assert (w.name, w.trainable, w.need_clip) == ("mine", False, False)
    assert w.optimize_attr["learning_rate"] == 0.5
    assert w.tolist() == [[3, 3], [3, 3]]
    assert "Parameter containing" in repr(w)
    assert proa.create_parameter([2, 3], "float64").dtype == proa.float64


@pytest.mark.feature("L063", "L066", "L067", "L071", "L072")
def test_containers() -> None:
    seq = nn.Sequential(("a", nn.Linear(2, 3)), ("b", nn.ReLU()))
    assert [type(layer).__name__ for layer in seq] == ["Linear", "ReLU"]
    assert seq["b"] is seq[1] is seq[-1]
    assert len(seq[:1]) == 1
    layers = nn.LayerList([nn.Linear(1, 1) for _ in range(3)])
    first = layers[0]
    layers.insert(0, nn.ReLU())
    assert layers[1] is first
    assert layers[-1] is layers[3]
    layers[-1] = nn.Tanh()
    del layers[0]
    assert [type(x).__name__ for x in layers] == ["Linear", "Linear", "Tanh"]
    assert len(layers[1:]) == 2
    assert len(nn.LayerList([None])) == 1
    with pytest.raises(IndexError, match="must be in"):
        layers[5]
    named = nn.LayerDict({"x": nn.ReLU(), "y": nn.Tanh()})
    assert list(named) == ["x", "y"]
    assert "x" in named
    named.update({"z": nn.Linear(1, 2)})
    assert len(named.parameters()) == 2
    assert type(named.pop("x")).__name__ == "ReLU"
    params = nn.ParameterList(
        [proa.create_parameter([i + 1], "float32") for i in range(2)]
    )
    params.append(proa.create_parameter([5], "float32"))
    assert [p.shape for p in params] == [[1], [2], [5]]
    assert len(params.parameters()) == 3


def test_shared_parameters_count_once() -> None:
    net = nn.Layer()
    net.a = nn.Linear(2, 2)
    net.b = nn.Linear(2, 2)
    net.b.weight = net.a.weight
    assert len(net.parameters()) == 3
    assert len(net.state_dict()) == 4


def test_a_tensor_that_is_assigned_is_a_buffer_that_is_not_saved() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    net[1].scale = proa.full([2], 3.0)
    net[0].register_buffer("kept", proa.zeros([1]))
    assert [name for name, _ in net.named_buffers()] == ["0.kept", "1.scale"]
    assert "1.scale" not in net.state_dict() and "0.kept" in net.state_dict()
    net.to(dtype="float64")
    assert net[1].scale.dtype == "float64" and net[1].scale.tolist() == [3.0, 3.0]
    net[1].scale = 7
    assert net[1].scale == 7 and len(net.buffers()) == 1
    x = proa.ones([2], "float64")
    x.stop_gradient = False
    net[1].result = x * 2  # of the tape: no state
    assert len(net.buffers()) == 1


def test_named_sublayers_by_every_path() -> None:
    shared = nn.Linear(1, 1)
    net = nn.Sequential(shared, nn.Sequential(shared))
    assert [n for n, _ in net.named_sublayers()] == ["0", "1"]
    every = net.named_sublayers(include_self=True, remove_duplicate=False)
    assert [n for n, _ in every] == ["", "0", "1", "1.0"]
