"""Controllers and searches on the space of 1,500 networks that were trained once."""

import numpy as np
import pytest
from tabulated import EPOCHS, Table, space

import proa
from proa.errors import (
    InvalidArgumentError,
    PreconditionNotMetError,
    UnavailableError,
)
from proa_slim import search
from proa_slim.search import Reinforce, Search, SimulatedAnnealing


@pytest.fixture(scope="module")
def table():
    return Table()


def rewards(table):
    return lambda trial: table.accuracy(trial.tokens)


@pytest.mark.feature("L481")
@pytest.mark.parametrize("controller", ["annealing", "evolution", "reinforce"])
@pytest.mark.parametrize("seed", range(3))
def test_64_evaluations_find_one_of_the_best_five_percent(table, controller, seed):
    found = Search(space(), controller, seed=seed).run(rewards(table), 64, 1, False)
    assert table.share_better(found.reward) < 0.05


def test_samplers_of_optuna_search_too(table):
    import optuna

    sampler = optuna.samplers.TPESampler(seed=0)
    found = Search(space(), sampler).run(rewards(table), 64, progress=False)
    assert table.share_better(found.reward) < 0.05


def test_annealing_accepts_worse_tokens_as_often_as_the_formula_says():
    accepted = 0
    for seed in range(2000):
        annealing = SimulatedAnnealing(init_temperature=0.5, reduce_rate=0.8, seed=seed)
        annealing.begin([2, 2], [0, 0])
        annealing.observe([0, 0], 1.0)
        annealing.observe([0, 1], 0.9)
        accepted += annealing.current == [0, 1]
    # exp(-0.1 / T) with T = 0.5 * 0.8 ** 2 at the second decision
    expected = np.exp(-0.1 / (0.5 * 0.64))
    assert accepted / 2000 == pytest.approx(expected, abs=0.04)


def test_annealing_changes_one_token_of_the_current_ones():
    annealing = SimulatedAnnealing(seed=1)
    annealing.begin([5] * 6, [2] * 6)
    assert annealing.propose(0) == [2] * 6
    annealing.observe([2] * 6, 0.5)
    for number in range(1, 10):
        tokens = annealing.propose(number)
        assert sum(t != 2 for t in tokens) == 1


@pytest.mark.feature("L485")
def test_a_policy_that_is_rewarded_for_tokens_learns_to_write_them():
    wanted = [2, 0, 3, 1]
    policy = Reinforce(attempts=1)
    policy.begin([4] * 4, [0] * 4)
    rewards = []
    for number in range(200):
        tokens = policy.propose(number)
        rewards.append(float(np.mean(np.equal(tokens, wanted))))
        policy.observe(tokens, rewards[-1])
    assert policy.best_guess() == wanted
    assert np.mean(rewards[:20]) < 0.6 < 0.9 < np.mean(rewards[-20:])


@pytest.mark.feature("L485")
def test_a_strategy_of_ones_own_is_a_controller(table):
    class Greedy(search.Controller):
        best, tokens = -1.0, None

        def propose(self, number):
            if self.tokens is None:
                return self.initial
            return self.mutated(self.tokens, 1, self.rng(number))

        def observe(self, tokens, reward):
            if reward > self.best:
                self.best, self.tokens = reward, list(tokens)

    rlnas = search.RLNAS(Greedy(), [space()])
    for _ in range(20):
        rlnas.next_archs()
        rlnas.reward(table.accuracy(rlnas.tokens))
    best = rlnas.current_info()
    assert best["best_reward"] > table.accuracy(space().init_tokens())
    (network,) = rlnas.final_archs()
    assert network.plan == tuple(b for b in space().plan(best["best_tokens"]) if b)


def test_every_trial_satisfies_a_constraint():
    def few(tokens):
        return sum(tokens) <= 6

    for controller in ("annealing", "evolution", "reinforce", "random"):
        found = Search(space(), controller, constraint=few)
        found.run(lambda trial: float(sum(trial.tokens)), 20, progress=False)
        assert all(few(record.tokens) for record in found.trials)


def test_a_constraint_that_nothing_meets_is_an_error():
    impossible = Search(space(), constraint=lambda tokens: False)
    with pytest.raises(PreconditionNotMetError, match="constraint that some architec"):
        impossible.ask()


def test_the_users_random_numbers_stay_the_same():
    proa.seed(5)
    expected = proa.randn([3]).numpy()
    proa.seed(5)
    rlnas = search.RLNAS("lstm", [space()], hidden=8)
    rlnas.next_archs()
    state = proa.get_rng_state()
    proa.seed(5)
    assert state == proa.get_rng_state() or rlnas.trial is not None
    assert (proa.randn([3]).numpy() == expected).all()


@pytest.mark.feature("L483")
@pytest.mark.parametrize(
    ("controller", "stop"),
    [
        ("evolution", lambda: search.median_stop(3)),
        ("random", lambda: search.asha_stop(3, 4)),
    ],
)
def test_early_stop_saves_40_percent_of_epochs_and_finds_one_of_the_best(
    table, controller, stop
):
    def evaluate(trial):
        for value in table.curve(trial.tokens):
            trial.report(value)
        return value

    stopping = Search(space(), controller, early_stop=stop())
    best = stopping.run(evaluate, 64, progress=False)
    used = sum(record.epochs for record in stopping.trials)
    assert used <= 0.6 * 64 * EPOCHS
    assert any(record.stopped for record in stopping.trials) and not best.stopped
    assert table.share_better(best.reward) < 0.05


@pytest.mark.feature("L483")
def test_median_stop_is_bad_below_the_median_of_the_others():
    sanas = search.SANAS([space()], save_checkpoint=None, search_steps=5)
    stop = search.MedianStop(sanas, start_epoch=1)
    states = []
    for step, curve in enumerate(([1, 2, 3], [1, 4, 5], [1, 1, 1], [1, 3, 9])):
        sanas.next_archs()
        for epoch, value in enumerate(curve):
            states.append(stop.get_status(step, value, epoch))
            if states[-1] == "BAD":
                break
        sanas.reward(value)
    # The first is never stopped; the third has 1 where the others have 2 and 4.
    assert states == ["GOOD"] * 6 + ["GOOD", "BAD"] + ["GOOD"] * 3
    with pytest.raises(InvalidArgumentError, match="maximize or minimize"):
        search.MedianStop(sanas, 1, "best")


@pytest.mark.feature("L481")
def test_sanas_is_used_as_paddle_slim_s(table):
    sanas = search.SANAS([space()], search_steps=10, save_checkpoint=None)
    with pytest.raises(PreconditionNotMetError, match="next_archs before"):
        sanas.reward(1.0)
    seen = []
    for _ in range(10):
        (network,) = sanas.next_archs()
        assert isinstance(network, proa.nn.Layer)
        tokens = sanas.current_info()["current_tokens"]
        seen.append(table.accuracy(tokens))
        assert sanas.reward(seen[-1]) == (seen[-1] > max([0, *seen[:-1]]))
    info = sanas.current_info()
    assert info["best_reward"] == max(seen)
    assert table.accuracy(info["best_tokens"]) == max(seen)
    with pytest.raises(PreconditionNotMetError, match="search_steps=10"):
        sanas.next_archs()
    with pytest.raises(InvalidArgumentError, match=r"'block2' in \[0, 5\), got 9"):
        sanas.tokens2arch([0, 9, 0, 0, 0])


def test_arguments_are_checked():
    with pytest.raises(InvalidArgumentError, match="controller must be one of anneal"):
        Search(space(), "gradient")
    with pytest.raises(InvalidArgumentError, match="early_stop must be median, asha"):
        Search(space(), early_stop="never")
    with pytest.raises(InvalidArgumentError, match="init_temperature must be positive"):
        search.SANAS([space()], init_temperature=0.0, save_checkpoint=None)
    with pytest.raises(InvalidArgumentError, match="reduce_rate must be in"):
        SimulatedAnnealing(reduce_rate=1.5)
    with pytest.raises(InvalidArgumentError, match="max_try_times must be positive"):
        SimulatedAnnealing(max_try_times=0)
    with pytest.raises(InvalidArgumentError, match="population above 1"):
        search.Evolution(population=1)
    with pytest.raises(InvalidArgumentError, match="positive learning_rate"):
        Reinforce(learning_rate=0)
    with pytest.raises(InvalidArgumentError, match="lstm or a Controller"):
        search.RLNAS("gru", [space()])
    with pytest.raises(InvalidArgumentError, match="a config of a space, got none"):
        search.SANAS([])
    with pytest.raises(InvalidArgumentError, match="positive steps and workers"):
        Search(space()).run(lambda trial: 0.0, 0)
    with pytest.raises(InvalidArgumentError, match="storage that 2 workers share"):
        Search(space()).run(lambda trial: 0.0, 4, workers=2)
    with pytest.raises(InvalidArgumentError, match="finite reward, got nan for"):
        Search(space()).run(lambda trial: float("nan"), 4)


def test_without_optuna_the_extra_is_named(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(UnavailableError, match=r"proa-slim\[search\]"):
        Search(space())
