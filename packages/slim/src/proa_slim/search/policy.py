"""Reinforcement learning: an LSTM that writes the tokens, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import proa
from proa import nn
from proa.errors import InvalidArgumentError
from proa_slim.search.controllers import Constraint, Controller


class _Policy(nn.Layer):
    """p(tokens) = prod p(token_i | tokens before it), by an LSTM cell.

    Args:
        ranges: How many values each token has.
        hidden: Size of the cell.
        rng: Generator of the first parameters, uniform in [-0.1, 0.1].
    """

    def __init__(
        self, ranges: Sequence[int], hidden: int, rng: np.random.Generator
    ) -> None:
        super().__init__()
        self.ranges = list(ranges)
        # Row 0 is before the first token; each token has rows of its own.
        self.offsets = [1 + sum(ranges[:i]) for i in range(len(ranges))]
        self.embedding = nn.Embedding(1 + sum(ranges), hidden)
        self.cell = nn.LSTMCell(hidden, hidden)
        self.heads = nn.LayerList([nn.Linear(hidden, count) for count in ranges])
        for parameter in self.parameters():
            values = rng.uniform(-0.1, 0.1, parameter.shape).astype("float32")
            parameter.set_value(values)

    def forward(self, choose: Any) -> tuple[list[int], Any, Any]:
        """Tokens, the logarithm of their probability, and the entropy.

        Args:
            choose: Takes the token's number and its probabilities, returns its value.
        """
        row, state, tokens = 0, None, []
        log_probability: Any = 0.0
        entropy: Any = 0.0
        for i, head in enumerate(self.heads):
            x = self.embedding(proa.to_tensor(np.array([row], "int64")))
            h, state = self.cell(x, state)
            logs = nn.functional.log_softmax(head(h))[0]
            share = proa.exp(logs)
            tokens.append(int(choose(i, share.numpy().astype("float64"))))
            log_probability = log_probability + logs[tokens[-1]]
            entropy = entropy - (share * logs).sum()
            row = self.offsets[i] + tokens[-1]
        return tokens, log_probability, entropy


class Reinforce(Controller):
    """REINFORCE (Williams, 1992) with a moving average of rewards as baseline b: Adam
    on -(r - b) log p(tokens) - w H, H the entropy of the policy (Zoph and Le, 2017).

    Args:
        learning_rate: Learning rate of Adam.
        hidden: Size of the LSTM.
        baseline_decay: Share of the old value in b, in [0, 1).
        entropy_weight: w, in units of the reward's scale.
        attempts: To find tokens that are new and allowed.
        seed: Seed of all that is drawn.

    Raises:
        InvalidArgumentError: If a number is out of its range.
    """

    def __init__(
        self,
        learning_rate: float = 0.02,
        hidden: int = 32,
        baseline_decay: float = 0.8,
        entropy_weight: float = 0.01,
        attempts: int = 100,
        seed: int = 0,
    ) -> None:
        super().__init__(seed)
        if learning_rate <= 0 or hidden < 1 or not 0 <= baseline_decay < 1:
            raise InvalidArgumentError(
                "[Reinforce] expected a positive learning_rate and hidden, and "
                f"baseline_decay in [0, 1), got {learning_rate}, {hidden} and "
                f"{baseline_decay}"
            )
        self.learning_rate, self.hidden = learning_rate, hidden
        self.baseline_decay, self.entropy_weight = baseline_decay, entropy_weight
        self.attempts = attempts
        self.baseline: float | None = None
        self._scale = 0.0

    def begin(
        self,
        ranges: Sequence[int],
        initial: Sequence[int],
        constraint: Constraint | None = None,
    ) -> None:
        """Make the policy of this space."""
        super().begin(ranges, initial, constraint)
        state = proa.get_rng_state()  # what the user draws stays the same
        self.policy = _Policy(ranges, self.hidden, self.rng(0, 2))
        proa.set_rng_state(state)
        self._adam = proa.optimizer.Adam(
            self.learning_rate, parameters=self.policy.parameters()
        )

    def propose(self, number: int) -> list[int]:
        """Tokens drawn from the policy."""
        rng = self.rng(number)

        def draw(attempt: int) -> list[int]:
            with proa.no_grad():
                chosen = self.policy(lambda i, p: rng.choice(len(p), p=p / p.sum()))
            tokens: list[int] = chosen[0]
            return tokens

        return self.first_allowed(draw, self.attempts)

    def best_guess(self) -> list[int]:
        """The most probable value of each token, given those before it."""
        with proa.no_grad():
            tokens: list[int] = self.policy(lambda i, p: p.argmax())[0]
        return tokens

    def observe(self, tokens: Sequence[int], reward: float) -> None:
        """One step of Adam. Advantages are divided by their mean magnitude so far."""
        self.seen.add(tuple(tokens))
        if self.baseline is None:
            self.baseline = reward
            return
        advantage = reward - self.baseline
        keep = self.baseline_decay
        self.baseline = keep * self.baseline + (1 - keep) * reward
        known = self._scale or abs(advantage)
        self._scale = keep * known + (1 - keep) * abs(advantage)
        weight = advantage / (self._scale or 1.0)
        _, log_probability, entropy = self.policy(lambda i, p: tokens[i])
        loss = -(log_probability * weight) - entropy * self.entropy_weight
        loss.backward()
        self._adam.step()
        self._adam.clear_grad()
