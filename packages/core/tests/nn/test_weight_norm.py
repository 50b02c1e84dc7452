"""Weight and spectral normalisation, parameters as a vector, response norm."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import pytest

import proa
from proa import nn
from proa.errors import InvalidArgumentError, ShapeError
from proa.jit import InputSpec, to_static
from proa.nn import functional as F
from proa.nn import utils

RNG = np.random.default_rng(11)


@pytest.mark.parametrize("dim", [0, 1, None])
def test_weight_norm_keeps_the_weight_and_splits_it(dim: int | None) -> None:
    layer = nn.Linear(3, 4)
    w = layer.weight.numpy()
    x = proa.ones([2, 3])
    want = layer(x).numpy()
    assert utils.weight_norm(layer, dim=dim) is layer
    names = [n for n, _ in layer.named_parameters()]
    assert sorted(names) == ["bias", "weight_g", "weight_v"]
    g = layer.weight_g.numpy()
    axis = None if dim is None else 1 - dim
    np.testing.assert_allclose(g, np.sqrt((w**2).sum(axis)), rtol=1e-6)
    np.testing.assert_allclose(layer(x).numpy(), want, rtol=1e-5, atol=1e-6)
    layer.weight_g.set_value(g * 2)
    layer(x).sum().backward()
    np.testing.assert_allclose(layer.weight.numpy(), 2 * w, rtol=1e-5)
    assert layer.weight_v.grad is not None and layer.weight_g.grad is not None
    clone = deepcopy(layer)
    np.testing.assert_allclose(clone(x).numpy(), layer(x).numpy())
    utils.remove_weight_norm(layer)
    assert sorted(n for n, _ in layer.named_parameters()) == ["bias", "weight"]
    np.testing.assert_allclose(layer.weight.numpy(), 2 * w, rtol=1e-5)


def test_weight_norm_names_what_it_cannot_do() -> None:
    layer = utils.weight_norm(nn.Conv2D(2, 3, 3))
    with pytest.raises(InvalidArgumentError, match="parameter without weight norm"):
        utils.weight_norm(layer)
    with pytest.raises(InvalidArgumentError, match="name of a parameter"):
        utils.weight_norm(nn.ReLU())
    with pytest.raises(InvalidArgumentError, match="parameter with weight norm"):
        utils.remove_weight_norm(nn.Linear(2, 2))
    with pytest.raises(InvalidArgumentError, match=r"dim must be in \[-1, 2\)"):
        utils.weight_norm(nn.Linear(2, 2), dim=2)


def _sigma(w: Any) -> float:
    return float(np.linalg.svd(w, compute_uv=False)[0])


@pytest.mark.feature("L084")
def test_spectral_norm_divides_by_the_largest_singular_value() -> None:
    proa.seed(3)
    layer = nn.Conv2D(3, 5, 3)
    w = layer.weight.numpy()
    utils.spectral_norm(layer, n_power_iterations=5)
    names = [n for n, _ in layer.named_parameters()]
    assert sorted(names) == ["bias", "weight_orig"]
    assert {"weight_u", "weight_v"} <= set(layer.state_dict())
    x = proa.ones([1, 3, 4, 4])
    for _ in range(20):
        layer(x)
    want = w / _sigma(w.reshape(5, -1))
    np.testing.assert_allclose(layer.weight.numpy(), want, rtol=1e-4, atol=1e-6)
    layer(x).sum().backward()
    assert layer.weight_orig.grad is not None
    layer.eval()
    u = layer.weight_u.numpy().copy()
    layer(x)
    np.testing.assert_array_equal(layer.weight_u.numpy(), u)
    linear = utils.spectral_norm(nn.Linear(4, 6))
    assert linear.weight_u.shape == [6]
    with pytest.raises(InvalidArgumentError, match="must be positive"):
        utils.spectral_norm(nn.Linear(2, 2), n_power_iterations=0)


@pytest.mark.parametrize("dim", [0, 1])
def test_spectral_norm_layer(dim: int) -> None:
    w = RNG.normal(size=(4, 3, 2)).astype("float32")
    layer = nn.SpectralNorm(w.shape, dim=dim, power_iters=2)
    matrix = np.moveaxis(w, dim, 0).reshape(w.shape[dim], -1)
    u = layer.weight_u.numpy()
    for _ in range(2):
        v = matrix.T @ u
        v /= np.linalg.norm(v)
        u = matrix @ v
        u /= np.linalg.norm(u)
    got = layer(proa.to_tensor(w))
    np.testing.assert_allclose(got.numpy(), w / (u @ matrix @ v), rtol=1e-5)
    for _ in range(30):
        got = layer(proa.to_tensor(w))
    np.testing.assert_allclose(got.numpy(), w / _sigma(matrix), rtol=1e-4)
    with pytest.raises(ShapeError, match=r"x must be \[4, 3, 2\]"):
        layer(proa.ones([4, 3]))


def test_parameters_become_a_vector_and_back() -> None:
    net = nn.Linear(2, 3)
    vector = utils.parameters_to_vector(net.parameters())
    want = np.concatenate([p.numpy().ravel() for p in net.parameters()])
    np.testing.assert_array_equal(vector.numpy(), want)
    utils.vector_to_parameters(vector * 2, net.parameters())
    np.testing.assert_array_equal(net.weight.numpy().ravel(), 2 * want[:6])
    assert net.weight.is_leaf and not net.weight.stop_gradient
    with pytest.raises(ShapeError, match=r"vec must be \[9\]"):
        utils.vector_to_parameters(proa.ones([8]), net.parameters())
    with pytest.raises(InvalidArgumentError, match="at least one parameter"):
        utils.parameters_to_vector([])


def _response(x: Any, size: int, alpha: float, beta: float, k: float) -> Any:
    c = x.shape[1]
    y = np.empty_like(x)
    for i in range(c):
        low, high = max(i - size // 2, 0), min(i + (size - 1) // 2 + 1, c)
        mean = (x[:, low:high] ** 2).sum(1) / size
        y[:, i] = x[:, i] / (k + alpha * mean) ** beta
    return y


@pytest.mark.parametrize("shape", [(2, 5, 3), (2, 4, 3, 3), (1, 6, 2, 2, 2)])
@pytest.mark.parametrize("size", [1, 4, 5])
@pytest.mark.parametrize("last", [False, True])
def test_local_response_norm(shape: Any, size: int, last: bool) -> None:
    x = RNG.normal(size=shape)
    want = _response(x, size, 0.5, 0.7, 1.5)
    formats = {3: ("NCL", "NLC"), 4: ("NCHW", "NHWC"), 5: ("NCDHW", "NDHWC")}
    layer = nn.LocalResponseNorm(size, 0.5, 0.7, 1.5, formats[len(shape)][last])
    given = np.moveaxis(x, 1, -1) if last else x
    got = layer(proa.to_tensor(given)).numpy()
    got = np.moveaxis(got, -1, 1) if last else got
    np.testing.assert_allclose(got, want, rtol=1e-6)


@pytest.mark.feature("L081")
def test_local_response_norm_is_recorded_for_any_batch() -> None:
    def fn(x: Any) -> Any:
        return F.local_response_norm(x, 3)

    recorded = to_static(fn, input_spec=[InputSpec([None, 4, 3, 3], "float32")])
    for n in (1, 3):
        x = RNG.normal(size=(n, 4, 3, 3)).astype("float32")
        got = recorded(proa.to_tensor(x)).numpy()
        np.testing.assert_allclose(got, _response(x, 3, 1e-4, 0.75, 1.0), rtol=1e-6)


def test_bilinear() -> None:
    layer = nn.Bilinear(3, 4, 5)
    a, b = RNG.normal(size=(6, 3)), RNG.normal(size=(6, 4))
    layer.bias.set_value(RNG.normal(size=(1, 5)).astype("float32"))
    want = np.einsum("ni,oij,nj->no", a, layer.weight.numpy(), b) + layer.bias.numpy()
    got = layer(*(proa.to_tensor(v.astype("float32")) for v in (a, b)))
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-4, atol=1e-5)
    assert layer.extra_repr() == "in1_features=3, in2_features=4, out_features=5"
    with pytest.raises(ShapeError, match=r"x1 must be \(N, 3\)"):
        layer(proa.ones([2, 4]), proa.ones([2, 4]))


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0, np.inf])
@pytest.mark.parametrize("keepdim", [False, True])
def test_pairwise_distance(p: float, keepdim: bool) -> None:
    a, b = RNG.normal(size=(2, 4, 3))
    layer = nn.PairwiseDistance(p, epsilon=1e-3, keepdim=keepdim)
    want = np.linalg.norm(a - b + 1e-3, p, axis=-1, keepdims=keepdim)
    got = layer(proa.to_tensor(a), proa.to_tensor(b))
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-6)


def test_cosine_similarity_and_dropouts_as_layers() -> None:
    a, b = RNG.normal(size=(2, 4, 3))
    want = (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    layer = nn.CosineSimilarity(axis=1)
    got = layer(proa.to_tensor(a), proa.to_tensor(b))
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-6)
    assert layer.extra_repr() == "axis=1, eps=1e-08"


@pytest.mark.parametrize("offset, dim1, dim2", [(0, -2, -1), (1, 0, 2), (-2, 1, 2)])
def test_diag_embed(offset: int, dim1: int, dim2: int) -> None:
    x = RNG.normal(size=(2, 3))
    got = F.diag_embed(proa.to_tensor(x), offset, dim1, dim2).numpy()
    want = np.diagonal(got, offset, dim1, dim2)
    np.testing.assert_array_equal(want, x)
    assert got.size == 2 * (3 + abs(offset)) ** 2
    assert (got != 0).sum() == x.size
