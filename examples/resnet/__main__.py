"""ResNet-18 reads handwritten digits that are drawn over photographs.

The data are made from what scikit-learn ships: its 1,797 scanned digits, enlarged to
32 x 32, each blended over a random patch of one of its two photographs in a random
colour. 1,400 digits are for training, drawn over other patches in every epoch; the
others are for testing.

    python examples/resnet          test accuracy >= 0.88
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits, load_sample_images

sys.path.insert(0, str(Path(__file__).parents[1]))
from learning_curve import Curve, options

import proa
from proa import nn
from proa.vision import transforms as T
from proa.vision.models import resnet18

TRAIN, BATCH, EPOCHS = 1400, 64, 11


class DigitsOnPhotos(proa.io.Dataset):
    """Digits over patches of photographs: (3, 32, 32) in [-1, 1], and the digit."""

    def __init__(self, first: int, last: int, seed: int) -> None:
        super().__init__()
        digits = load_digits()
        self.shapes = [
            T.resize(image.astype(np.float32) / 16, (32, 32))
            for image in digits.images[first:last]
        ]
        self.labels = digits.target[first:last].astype(np.int64)
        self.photos = [photo / np.float32(255) for photo in load_sample_images().images]
        self.random = np.random.default_rng(seed)
        self.moved = T.RandomCrop(32, padding=2)

    def __getitem__(self, index: int) -> tuple[NDArray[np.float32], np.int64]:
        photo = self.photos[self.random.integers(len(self.photos))]
        top, left = (self.random.integers(size - 32) for size in photo.shape[:2])
        patch = photo[top : top + 32, left : left + 32]
        shape = self.moved(self.shapes[index])[:, :, None]
        # A colour far from the patch's mean, so that the digit can be seen.
        mean = patch.mean((0, 1))
        colour = np.where(mean > 0.5, 0.0, 1.0) + self.random.uniform(-0.25, 0.25, 3)
        image = patch * (1 - shape) + np.clip(colour, 0, 1) * shape
        planes = (image * 2 - 1).transpose(2, 0, 1).astype(np.float32)
        return planes, self.labels[index]

    def __len__(self) -> int:
        return len(self.labels)


@proa.no_grad()
def accuracy(network: nn.Layer, loader: proa.io.DataLoader) -> float:
    """Share of the digits that are read right."""
    network.eval()
    right = [
        (network(images).argmax(axis=1) == labels).numpy() for images, labels in loader
    ]
    network.train()
    return float(np.concatenate(right).mean())


def main() -> int:
    """Train, measure after each epoch, write the curve."""
    arguments = options("resnet", __doc__).parse_args()
    proa.seed(arguments.seed)
    train = proa.io.DataLoader(
        DigitsOnPhotos(0, TRAIN, arguments.seed),
        batch_size=BATCH, shuffle=True, drop_last=True,
    )  # fmt: skip
    # Drawn once, so that measurements differ by the network alone.
    drawn = DigitsOnPhotos(TRAIN, 1797, 1)
    images, labels = zip(*(drawn[i] for i in range(len(drawn))), strict=True)
    test = proa.io.DataLoader(
        proa.io.TensorDataset([np.stack(images), np.stack(labels)]), batch_size=BATCH
    )
    network = resnet18(num_classes=10)
    rate = proa.optimizer.lr.OneCycleLR(
        max_learning_rate=0.04, total_steps=EPOCHS * len(train)
    )
    optimizer = proa.optimizer.Momentum(
        rate, 0.9, network.parameters(), use_nesterov=True, weight_decay=5e-4
    )
    loss_of = nn.CrossEntropyLoss()
    curve = Curve("resnet", "accuracy", 0.88, True, arguments.out)
    step = 0
    for _ in range(EPOCHS):
        losses = []
        for images, labels in train:
            loss = loss_of(network(images), labels)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            rate.step()
            losses.append(float(loss))
            step += 1
        curve.add(step, loss=float(np.mean(losses)), accuracy=accuracy(network, test))
    return curve.finish()


if __name__ == "__main__":
    raise SystemExit(main())
