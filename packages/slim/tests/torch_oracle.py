"""The same network pruned and trained on by PyTorch: channels set to zero."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
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
