"""A Wasserstein GAN with gradient penalty draws handwritten digits.

Its critic is kept nearly 1-Lipschitz by a penalty on the norm of its gradient
(Gulrajani et al., 2017), so training differentiates through a gradient. The data are
scikit-learn's 1,797 digits of 8 x 8. How good drawings are is the Fréchet distance
between their pixels and those of real digits, as Gaussians; of two halves of the real
digits it is about 0.3, of uniform noise and digits about 40.

    python examples/wgan_gp         Fréchet distance <= 1
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

sys.path.insert(0, str(Path(__file__).parents[1]))
from learning_curve import Curve, options

import proa
from proa import nn

NOISE, WIDTH = 32, 256
BATCH, STEPS, EVERY, CRITIC_STEPS, PENALTY = 128, 700, 100, 3, 10.0


def network(inputs: int, outputs: int, last: list[nn.Layer]) -> nn.Sequential:
    """Two hidden layers."""
    return nn.Sequential(
        nn.Linear(inputs, WIDTH),
        nn.LeakyReLU(0.2),
        nn.Linear(WIDTH, WIDTH),
        nn.LeakyReLU(0.2),
        nn.Linear(WIDTH, outputs),
        *last,
    )


def gradient_penalty(
    critic: nn.Layer, real: proa.Tensor, drawn: proa.Tensor
) -> proa.Tensor:
    """Mean of (|d critic / d x| - 1)^2 at points between real and drawn images."""
    share = proa.rand([real.shape[0], 1])
    between = real * share + drawn * (1 - share)
    between.stop_gradient = False
    (slope,) = proa.grad(critic(between).sum(), between, create_graph=True)
    length = proa.sqrt((slope * slope).sum(axis=1) + 1e-12)
    return ((length - 1.0) ** 2).mean()


def root(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Square root of a symmetric matrix without negative eigenvalues."""
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.sqrt(np.clip(values, 0, None))) @ vectors.T


def frechet(a: NDArray[np.float32], b: NDArray[np.float32]) -> float:
    """|mean a - mean b|^2 + trace(A + B - 2 (A^½ B A^½)^½), A and B the covariances."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    first, second = np.cov(a.T), np.cov(b.T)
    half = root(first)
    apart = ((a.mean(0) - b.mean(0)) ** 2).sum()
    mixed = root(half @ second @ half)
    return float(apart + np.trace(first + second - 2 * mixed))


def draw(images: NDArray[np.float32], path: Path) -> None:
    """A picture of 10 x 10 images."""
    rows = images[:100].reshape(10, 10, 8, 8).transpose(0, 2, 1, 3).reshape(80, 80)
    pixels = ((1 - rows.clip(-1, 1)) * 127.5).astype(np.uint8)
    from matplotlib import pyplot

    pyplot.imsave(path, pixels.repeat(4, 0).repeat(4, 1), cmap="gray")


def main() -> int:
    """Train critic and generator in turn, measure, write the curve and drawings."""
    arguments = options("wgan_gp", __doc__).parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    proa.seed(arguments.seed)
    random = np.random.default_rng(arguments.seed)
    digits = (load_digits().data / 8 - 1).astype(np.float32)
    generator, critic = network(NOISE, 64, [nn.Tanh()]), network(64, 1, [])
    settings = {"learning_rate": 5e-4, "beta1": 0.0, "beta2": 0.9}
    draws = proa.optimizer.Adam(parameters=generator.parameters(), **settings)
    judges = proa.optimizer.Adam(parameters=critic.parameters(), **settings)
    curve = Curve("wgan_gp", "frechet_distance", 1.0, False, arguments.out)
    for step in range(1, STEPS + 1):
        for _ in range(CRITIC_STEPS):
            real = proa.to_tensor(digits[random.integers(len(digits), size=BATCH)])
            with proa.no_grad():
                drawn = generator(proa.randn([BATCH, NOISE]))
            apart = critic(real).mean() - critic(drawn).mean()
            loss = PENALTY * gradient_penalty(critic, real, drawn) - apart
            loss.backward()
            judges.step()
            judges.clear_grad()
        (-critic(generator(proa.randn([BATCH, NOISE]))).mean()).backward()
        draws.step()
        draws.clear_grad()
        critic.clear_gradients()
        if step % EVERY == 0:
            with proa.no_grad():
                samples = generator(proa.randn([len(digits), NOISE])).numpy()
            curve.add(
                step, wasserstein=float(apart),
                frechet_distance=frechet(samples, digits),
            )  # fmt: skip
    draw(samples, arguments.out / "drawn.png")
    return curve.finish()


if __name__ == "__main__":
    raise SystemExit(main())
