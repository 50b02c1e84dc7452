"""Algorithms of PARL learn tasks whose solution is known, with proa as `paddle`."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import proa
from proa import nn
from proa.nn import functional as F

from .published import as_paddle

DISCOUNT = 0.9
#: A corridor of five rooms, whose last ends the walk with a reward of 1.
ROOMS = np.eye(5, dtype=np.float32)


@pytest.fixture(scope="module")
def parl() -> Iterator[Any]:
    packages = ["parl", "parl.core", "parl.core.paddle", "parl.algorithms"]
    absent = ["parl.utils", "parl.algorithms.paddle.impala"]
    with as_paddle("parl", [*packages, "parl.algorithms.paddle"], absent, ".."):
        top: Any = sys.modules["parl"]
        top.Model = importlib.import_module("parl.core.paddle.model").Model
        top.Algorithm = importlib.import_module("parl.core.paddle.algorithm").Algorithm
        yield top


def algorithm(module: str, name: str) -> Any:
    return getattr(importlib.import_module(f"parl.algorithms.paddle.{module}"), name)


def random_walks() -> tuple[Any, ...]:
    """Each step that can be taken: room, direction, reward, next room, end."""
    start = np.repeat(np.arange(4), 2)
    right = np.tile([0, 1], 4)
    end = np.where(right == 1, start + 1, np.maximum(start - 1, 0))
    won = (end == 4).astype(np.float32)[:, None]
    steps = (ROOMS[start], right[:, None], won, ROOMS[end], won)
    return tuple(proa.to_tensor(part) for part in steps)


@pytest.mark.full
@pytest.mark.parametrize(("module", "name"), [("dqn", "DQN"), ("ddqn", "DDQN")])
def test_values_of_steps_are_learned(parl: Any, module: str, name: str) -> None:
    class Values(parl.Model):  # type: ignore[misc]  # known at run time
        def __init__(self) -> None:
            super().__init__()
            self.hidden, self.out = nn.Linear(5, 32), nn.Linear(32, 2)

        def forward(self, rooms: Any) -> Any:
            return self.out(F.tanh(self.hidden(rooms)))

    proa.seed(0)
    learner = algorithm(module, name)(Values(), gamma=DISCOUNT, lr=0.01)
    for step in range(1000):
        learner.learn(*random_walks())
        if step % 20 == 0:
            learner.sync_target()
    got = learner.predict(proa.to_tensor(ROOMS[:4])).numpy()
    best = DISCOUNT ** np.arange(3.0, -1.0, -1.0)
    want = np.stack([DISCOUNT * best[[0, 0, 1, 2]], best], 1)
    np.testing.assert_allclose(got, want, atol=0.03)


@pytest.mark.full
def test_a_policy_prefers_what_is_rewarded(parl: Any) -> None:
    class Policy(parl.Model):  # type: ignore[misc]  # known at run time
        def __init__(self) -> None:
            super().__init__()
            self.out = nn.Linear(2, 3)

        def forward(self, places: Any) -> Any:
            return F.softmax(self.out(places), axis=-1)

    proa.seed(0)
    rng = np.random.default_rng(0)
    learner = algorithm("policy_gradient", "PolicyGradient")(Policy(), lr=0.05)
    for _ in range(150):
        rows = rng.integers(0, 2, 64)
        places = proa.to_tensor(np.eye(2, dtype=np.float32)[rows])
        chances = learner.predict(places).numpy()
        chosen = (rng.random((64, 1)) > chances.cumsum(1)[:, :2]).sum(1)
        # The first place rewards the third choice, the second the first.
        won = np.where(chosen == np.array([2, 0])[rows], 1.0, -0.5).astype(np.float32)
        acts, rewards = (proa.to_tensor(part[:, None]) for part in (chosen, won))
        learner.learn(places, acts, rewards)
    chances = learner.predict(proa.eye(2)).numpy()
    assert chances[0, 2] > 0.9
    assert chances[1, 0] > 0.9


@pytest.mark.full
@pytest.mark.parametrize(
    ("module", "name", "options"),
    [("td3", "TD3", {"policy_freq": 1}), ("sac", "SAC", {"alpha": 0.01})],
)
def test_an_actor_finds_the_act_of_highest_value(
    parl: Any, module: str, name: str, options: dict[str, Any]
) -> None:
    class Network(parl.Model):  # type: ignore[misc]  # known at run time
        def __init__(self, outputs: int, *inputs: int) -> None:
            super().__init__()
            self.net = nn.Sequential(
                nn.Linear(sum(inputs), 32), nn.ReLU(), nn.Linear(32, outputs)
            )

        def forward(self, *parts: Any) -> Any:
            return self.net(proa.concat(list(parts), 1))

    class ActorCritic(parl.Model):  # type: ignore[misc]  # known at run time
        def __init__(self) -> None:
            super().__init__()
            self.actor, self.one = Network(2, 1), Network(1, 1, 1)
            self.two = Network(1, 1, 1)

        def policy(self, place: Any) -> Any:
            mean, spread = proa.split(self.actor(place), 2, axis=1)
            if name == "TD3":
                return proa.tanh(mean)
            return mean, proa.tanh(spread) - 2.5  # of its logarithm

        def value(self, place: Any, act: Any) -> Any:
            return self.one(place, act), self.two(place, act)

        def Q1(self, place: Any, act: Any) -> Any:
            return self.one(place, act)

        def get_actor_params(self) -> Any:
            return self.actor.parameters()

        def get_critic_params(self) -> Any:
            return self.one.parameters() + self.two.parameters()

    proa.seed(0)
    rng = np.random.default_rng(0)
    learner = algorithm(module, name)(
        ActorCritic(), gamma=DISCOUNT, tau=0.05, actor_lr=0.003, critic_lr=0.01,
        **options,
    )  # fmt: skip
    for _ in range(1000):
        place = rng.uniform(-1, 1, (64, 1)).astype(np.float32)
        act = rng.uniform(-1, 1, (64, 1)).astype(np.float32)
        # A walk of one step, best where the act is half the place's opposite.
        won = -((act + place / 2) ** 2)
        ends = np.ones((64, 1), np.float32)
        learner.learn(*map(proa.to_tensor, (place, act, won, place, ends)))
    places = np.linspace(-0.8, 0.8, 9, dtype=np.float32)[:, None]
    found = learner.predict(proa.to_tensor(places)).numpy()
    assert np.abs(found + places / 2).max() < 0.25  # 0.4 where it never acts
