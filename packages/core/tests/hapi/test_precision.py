"""Model in mixed precision: O0, O1, O2 and their settings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import proa
from proa import nn
from proa.errors import InvalidArgumentError

RNG = np.random.RandomState(0)
X = RNG.randn(200, 8).astype(np.float32)
Y = (X @ RNG.randn(8, 3)).argmax(1)[:, None]
DATA = proa.io.TensorDataset([X, Y])


class Seen(nn.Layer):
    """A network that notes the dtype of its product."""

    def __init__(self) -> None:
        super().__init__()
        proa.seed(0)
        self.first, self.norm = nn.Linear(8, 32), nn.LayerNorm(32)
        self.last = nn.Linear(32, 3)
        self.kinds: set[str] = set()

    def forward(self, x: Any) -> Any:
        y = self.last(nn.functional.relu(self.norm(self.first(x))))
        self.kinds.add(y.dtype.name)
        return y


def prepared(configs: Any) -> tuple[proa.Model, Seen]:
    net = Seen()
    model = proa.Model(net)
    adam = proa.optimizer.Adam(0.02, parameters=model.parameters())
    model.prepare(adam, nn.CrossEntropyLoss(), proa.metric.Accuracy(), configs)
    return model, net


@pytest.mark.feature("L118")
@pytest.mark.feature("L275")
@pytest.mark.feature("L135")
@pytest.mark.parametrize(
    ("configs", "kind"),
    [
        ("O0", "float32"),
        (None, "float32"),
        ("O1", "float16"),
        ({"level": "O1", "dtype": "bfloat16"}, "bfloat16"),
        ({"level": "O2", "dtype": "bfloat16"}, "bfloat16"),
        ({"level": "O2", "init_loss_scaling": 128.0}, "float16"),
        ({"custom_black_list": {"linear", "matmul"}, "dtype": "bfloat16"}, "float32"),
    ],
)
def test_training_learns_at_every_level(configs: Any, kind: str) -> None:
    model, net = prepared(configs)
    model.fit(DATA, batch_size=20, epochs=8, verbose=0)
    assert net.kinds == {kind}
    logs = model.evaluate(DATA, batch_size=64, verbose=0)
    assert logs["acc"] > 0.93
    out = model.predict(DATA, batch_size=64, verbose=0, stack_outputs=True)[0]
    assert out.dtype == np.float32
    assert (out.argmax(1) == Y[:, 0]).mean() == pytest.approx(logs["acc"], abs=0.02)
    pure = configs is not None and "O2" in str(configs)
    assert (net.first.weight.dtype.name == kind) == (pure or kind == "float32")
    assert net.norm.weight.dtype.name == "float32"


@pytest.mark.feature("L135")
def test_pure_bfloat16_resumes_from_a_checkpoint(tmp_path: Any) -> None:
    configs = {"level": "O2", "dtype": "bfloat16"}
    model, _ = prepared(configs)
    model.fit(DATA, batch_size=50, epochs=1, verbose=0)
    model.save(str(tmp_path / "c"))
    other, _ = prepared(configs)
    for p, q in zip(other.parameters(), model.parameters(), strict=True):
        p.name = q.name
    other.load(str(tmp_path / "c"))
    for m in (model, other):
        m.train_batch(X, Y)
    for p, q in zip(other.parameters(), model.parameters(), strict=True):
        assert (p == q).all()
    assert len(other._optimizer.state_dict()["master_weights"]) == 4


def test_gradients_are_gathered_in_mixed_precision() -> None:
    one, _ = prepared("O1")
    two, _ = prepared("O1")
    one.train_batch(X, Y)
    two.train_batch(X, Y, update=False)
    assert two._pending
    two.train_batch(X, Y)
    assert not two._pending
    for p, q in zip(one.parameters(), two.parameters(), strict=True):
        np.testing.assert_allclose(p.numpy(), q.numpy(), atol=2e-3)


@pytest.mark.parametrize(
    ("configs", "text"),
    [
        ("O5", "level must be"),
        ({"levels": "O1"}, "must have keys among"),
        ({"dtype": "float64"}, "dtype must be"),
        ({"incr_ratio": 0.5}, "incr_ratio must be"),
    ],
)
def test_invalid_settings_are_rejected(configs: Any, text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=text):
        prepared(configs)
