"""A small LSTM learns from a large one to colour Python source.

The task is that of `examples/tagger`: a lexical analysis that needs distant letters
before and after a character. A teacher of width 64 learns it first. Two students of
width 16, with a tenth of its parameters, have tags of two short modules. One learns
from them alone; the other also learns the teacher's scores (`proa_slim.Distill`) of
text without tags, of which there is plenty.

    python examples/tagger_distilled    the distilled student: accuracy >= 0.90
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from learning_curve import Curve, options
from python_tags import TAGS, TEST, TRAIN, Tagger, batches

import proa
from proa import nn
from proa_slim import Distill, DistillLoss
from proa_slim.distill import kl_loss

TEACHER_STEPS, STEPS, EVERY, BATCH = 300, 400, 50, 48
#: Modules whose tags students have.
TAGGED = ("cmd", "heapq")
#: Takes letters, their tags, and other letters.
Loss = Callable[[proa.Tensor, proa.Tensor, proa.Tensor], proa.Tensor]


def learn(
    network: nn.Layer,
    loss_of: Loss,
    steps: int,
    seed: int,
    modules: tuple[str, ...],
    report: Callable[[int, float], None],
) -> None:
    """Adam with one cycle of learning rates; the same batches for the same seed."""
    letters, tags = batches(modules)
    text, _ = batches(TRAIN)
    random = np.random.default_rng(seed)
    rate = proa.optimizer.lr.OneCycleLR(2e-2, steps)
    adam = proa.optimizer.Adam(
        rate, parameters=network.parameters(), grad_clip=nn.ClipGradByGlobalNorm(1.0)
    )
    losses = []
    for step in range(1, steps + 1):
        chosen = random.integers(len(letters), size=BATCH)
        others = text[random.integers(len(text), size=BATCH)]
        loss = loss_of(*map(proa.to_tensor, (letters[chosen], tags[chosen], others)))
        loss.backward()
        adam.step()
        adam.clear_grad()
        rate.step()
        losses.append(float(loss))
        if step % EVERY == 0:
            report(step, float(np.mean(losses)))
            losses = []


@proa.no_grad()
def accuracy(network: nn.Layer) -> float:
    """Share of the characters of other files that get their tag."""
    letters, tags = batches(TEST)
    found = network(proa.to_tensor(letters)).argmax(axis=-1).numpy()
    return float((found == tags).mean())


def entropy_of(network: nn.Layer) -> Loss:
    """The loss of a network that learns from tags alone."""
    entropy = nn.CrossEntropyLoss()
    return lambda letters, tags, _: entropy(network(letters), tags)


def distilled(learner: Distill) -> Loss:
    """The loss from tags, and that from the teacher's scores of other text."""
    entropy = nn.CrossEntropyLoss()

    def loss_of(
        letters: proa.Tensor, tags: proa.Tensor, others: proa.Tensor
    ) -> proa.Tensor:
        distillation: proa.Tensor = learner(others)[2]
        return entropy(learner.student(letters), tags) + distillation

    return loss_of


def divergence(teacher: proa.Tensor, student: proa.Tensor) -> proa.Tensor:
    """KL of each character's scores: rows for the loss, (batch * length, tags)."""
    rows = [-1, len(TAGS)]
    return kl_loss(teacher.reshape(rows), student.reshape(rows), temperature=1.0)


def main() -> int:
    """Train the teacher and both students, write the curve of the distilled one."""
    arguments = options("tagger_distilled", __doc__).parse_args()
    seed: int = arguments.seed
    proa.seed(seed)
    teacher = Tagger()

    def quiet(step: int, loss: float) -> None:
        print(f"teacher, step {step}: loss {loss:.4f}", flush=True)

    learn(teacher, entropy_of(teacher), TEACHER_STEPS, seed, TRAIN, quiet)
    teacher.eval()
    print(f"teacher: accuracy {accuracy(teacher):.4f}")

    proa.seed(seed + 1)
    alone = Tagger(16)
    learn(alone, entropy_of(alone), STEPS, seed, TAGGED, lambda step, loss: None)
    without = accuracy(alone)
    print(f"student alone: accuracy {without:.4f}")

    proa.seed(seed + 1)
    student = Tagger(16)
    curve = Curve("tagger_distilled", "accuracy", 0.90, True, arguments.out)
    learn(
        student,
        distilled(Distill([DistillLoss(divergence)], student, teacher)),
        STEPS,
        seed,
        TAGGED,
        lambda step, loss: curve.add(
            step, loss=loss, accuracy=accuracy(student), alone=without
        ),
    )
    gain = accuracy(student) - without
    print(f"distilled student: {100 * gain:+.2f} points over the one alone")
    return curve.finish() or int(gain <= 0)


if __name__ == "__main__":
    raise SystemExit(main())
