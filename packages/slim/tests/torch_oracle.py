"""The same network in PyTorch: channels set to zero, and int8 simulated in float32."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import entropy
from torch import nn

Masks = list[tuple[nn.Conv2d, nn.BatchNorm2d, torch.Tensor]]


def _conv_norm(weight: NDArray[Any], stride: int, groups: int) -> list[nn.Module]:
    out, each, kernel, _ = weight.shape
    conv = nn.Conv2d(
        each * groups, out, kernel, stride, kernel // 2, groups=groups, bias=False
    )
    return [conv, nn.BatchNorm2d(out), nn.ReLU6()]


def copied(network: Any) -> nn.Sequential:
    """A network of `fashion_network.mobile_net` in PyTorch, with its parameters."""
    layers: list[nn.Module] = []
    for block in [b for b in network if hasattr(b, "__len__")]:
        conv, norm = block[0], block[1]
        layers += _conv_norm(conv.weight.numpy(), conv._stride[0], conv._groups)
        with torch.no_grad():
            layers[-3].weight.copy_(torch.tensor(conv.weight.numpy()))
            for name, own in (("weight", norm.weight), ("bias", norm.bias),
                              ("running_mean", norm._mean),
                              ("running_var", norm._variance)):  # fmt: skip
                getattr(layers[-2], name).copy_(torch.tensor(own.numpy()))
    head = network[-1]
    linear = nn.Linear(*head.weight.shape)
    with torch.no_grad():
        linear.weight.copy_(torch.tensor(head.weight.numpy().T))
        linear.bias.copy_(torch.tensor(head.bias.numpy()))
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), linear)


def prune(network: nn.Sequential, criterion: str, ratio: float) -> Masks:
    """Set channels of all dense convolutions but the first to zero."""
    masks = []
    pairs = [(network[i], network[i + 1]) for i in range(0, len(network) - 3, 3)]
    for conv, norm in pairs[1:]:
        if conv.groups > 1:
            continue
        rows = conv.weight.detach().flatten(1)
        score = {
            "l1_norm": rows.abs().sum(1),
            "fpgm": torch.cdist(rows, rows).sum(1),
            "bn_scale": norm.weight.detach().abs(),
        }[criterion]
        mask = torch.ones(len(score))
        mask[score.argsort()[: int(len(score) * ratio)]] = 0
        masks.append((conv, norm, mask))
    _apply(masks)
    return masks


def _apply(masks: Masks) -> None:
    with torch.no_grad():
        for conv, norm, mask in masks:
            conv.weight.mul_(mask[:, None, None, None])
            norm.weight.mul_(mask)
            norm.bias.mul_(mask)


def retrain(
    network: nn.Sequential,
    masks: Masks,
    x: NDArray[Any],
    y: NDArray[Any],
    rates: Sequence[float],
) -> None:
    """As `fashion_network.retrain`, a step for each rate; channels stay zero."""
    adam = torch.optim.Adam(network.parameters())
    order = np.random.default_rng(0).permutation(len(x))[: len(rates) * 128]
    network.train()
    for batch, rate in zip(order.reshape(-1, 128), rates, strict=True):
        adam.param_groups[0]["lr"] = rate
        logits = network(torch.tensor(x[batch]))
        nn.functional.cross_entropy(logits, torch.tensor(y[batch])).backward()
        adam.step()
        adam.zero_grad()
        _apply(masks)
    network.eval()


def accuracy(network: nn.Sequential, batches: Sequence[NDArray[Any]], y: Any) -> float:
    """Percentage of images that are classified right."""
    network.eval()
    with torch.no_grad():
        found = [network(torch.tensor(x)).argmax(1).numpy() for x in batches]
    return 100 * float((np.concatenate(found) == y).mean())


def quantized(
    network: nn.Sequential,
    batches: Sequence[NDArray[Any]],
    calibrator: str,
    per_channel: bool = True,
) -> nn.Sequential:
    """A copy whose products round what they read to 255 levels.

    Args:
        network: The one that `copied` returned.
        batches: To calibrate on.
        calibrator: ``abs_max``, ``avg`` (of the batches' maxima), ``hist``, ``mse``,
            ``emd`` or ``kl``.
        per_channel: Whether each output channel of a weight has a scale.
    """
    net = _folded(network)
    products = [m for m in net if isinstance(m, (nn.Conv2d, nn.Linear))]
    seen: dict[nn.Module, list[NDArray[Any]]] = {m: [] for m in products}

    def note(module: nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
        seen[module].append(inputs[0].abs().flatten().numpy())

    hooks = []
    with torch.no_grad():
        for product in products:
            weight = product.weight
            dims = tuple(range(1, weight.dim()))
            peak = weight.abs().amax(dims, keepdim=True) if per_channel else None
            step = (weight.abs().max() if peak is None else peak) / 127
            weight.copy_((weight / step).round() * step)
            hooks.append(product.register_forward_pre_hook(note))
        for batch in batches:
            net(torch.tensor(batch))
    for hook in hooks:
        hook.remove()
    for product in products:
        limit = _threshold(seen[product], calibrator)
        product.register_forward_pre_hook(_Rounding(limit / 127))
    return net


class _Rounding:
    """A hook that rounds the input of a module to multiples of a step."""

    def __init__(self, step: float) -> None:
        self.step = step

    def __call__(self, module: nn.Module, inputs: Any) -> torch.Tensor:
        levels = (inputs[0] / self.step).round().clamp(-127, 127)
        return levels * self.step


def _folded(network: nn.Sequential) -> nn.Sequential:
    """A copy with its norms in the convolutions before them."""
    net = copy.deepcopy(network).eval()
    modules = list(net)
    for number, norm in enumerate(modules):
        if isinstance(norm, nn.BatchNorm2d):
            conv = modules[number - 1]
            modules[number - 1] = nn.utils.fuse_conv_bn_eval(conv, norm)
            modules[number] = nn.Identity()
    return nn.Sequential(*modules)


def _threshold(batches: Sequence[NDArray[Any]], calibrator: str) -> float:
    if calibrator == "abs_max":
        return max(float(batch.max()) for batch in batches)
    if calibrator == "avg":
        return float(np.mean([batch.max() for batch in batches]))
    values = np.concatenate(batches)
    if calibrator == "hist":
        return float(np.quantile(values, 0.9999))
    if calibrator in ("mse", "emd"):
        return _smallest_error(values, 2 if calibrator == "mse" else 1)
    counts, edges = np.histogram(values, 2048, (0, values.max()))
    return _smallest_divergence(counts.astype(float), edges)


def _smallest_error(values: NDArray[Any], power: int) -> float:
    """The threshold, in hundredths of the maximum, that changes a sample of the values
    least: the mean of |x - rounded x|^power. With power 1 it is the earth mover's
    distance, since rounding keeps the order.
    """
    sample = torch.tensor(np.random.default_rng(0).choice(values, 200_000))
    limits = float(values.max()) * np.arange(30, 101) / 100
    errors = []
    for limit in limits:
        levels = (sample / (limit / 127)).round().clamp(max=127)
        errors.append(float((sample - levels * (limit / 127)).pow(power).abs().mean()))
    return float(limits[int(np.argmin(errors))])


def _smallest_divergence(counts: NDArray[Any], edges: NDArray[Any]) -> float:
    """The threshold whose 128 levels diverge least from the histogram."""
    counts[0] = counts[1]  # zeros of a ReLU would outweigh everything
    found = {}
    for width in range(128, len(counts) + 1, 16):
        reference = counts[:width].copy()
        reference[-1] += counts[width:].sum()
        borders = np.round(np.arange(129) * width / 128).astype(int)
        levels = np.zeros(width)
        for start, end in itertools.pairwise(borders):
            part = counts[start:end]
            levels[start:end][part > 0] = part.sum() / max((part > 0).sum(), 1)
        levels[levels == 0] = 1e-9
        found[width] = entropy(reference, levels)
    return float(edges[min(found, key=found.__getitem__)])
