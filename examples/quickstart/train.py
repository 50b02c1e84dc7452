"""LeNet and its recipe: Adam at 1e-3, batches of 128, three epochs, seed 0."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from data import Images

import proa
from proa.hapi.callbacks import Callback
from proa.vision.models import LeNet

EPOCHS = 3
BATCH = 128


@dataclass
class History:
    """What training measured: loss by step, accuracy by epoch, seconds."""

    loss: list[float] = field(default_factory=list)
    accuracy: list[float] = field(default_factory=list)
    seconds: float = 0.0


class _Recorder(Callback):
    def __init__(self, history: History) -> None:
        super().__init__()
        self.history = history

    def on_train_batch_end(self, step: int, logs: dict[str, Any] | None = None) -> None:
        loss = (logs or {}).get("loss", 0.0)
        self.history.loss.append(float(loss[0] if isinstance(loss, list) else loss))

    def on_eval_end(self, logs: dict[str, Any] | None = None) -> None:
        self.history.accuracy.append(float((logs or {}).get("acc", 0.0)))


def input_spec() -> list[proa.static.InputSpec]:
    """One batch of images, the batch size left open."""
    return [proa.static.InputSpec([None, 1, 28, 28], "float32", "image")]


def train(images: Images, folder: Path, fresh: bool) -> tuple[LeNet, History]:
    """Train LeNet, or take up the weights that an earlier run of this recipe left."""
    weights, record = folder / "lenet.pdparams", folder / "history.json"
    recipe = {
        "data": images.name,
        "epochs": EPOCHS,
        "batch": BATCH,
        "proa": proa.__version__,
    }
    proa.seed(0)
    network = LeNet()
    if not fresh and weights.exists() and record.exists():
        stored = json.loads(record.read_text())
        if stored.pop("recipe", None) == recipe:
            print(
                "Training: taking up the weights of an earlier run "
                "(--fresh trains from scratch)"
            )
            network.set_state_dict(proa.load(str(weights)))
            return network, History(**stored)
    history = History()
    model = proa.Model(network)
    model.prepare(
        proa.optimizer.Adam(learning_rate=1e-3, parameters=network.parameters()),
        proa.nn.CrossEntropyLoss(),
        proa.metric.Accuracy(),
    )
    start = time.perf_counter()
    model.fit(
        proa.io.TensorDataset([images.train_x, images.train_y]),
        proa.io.TensorDataset([images.test_x, images.test_y]),
        batch_size=BATCH,
        epochs=EPOCHS,
        verbose=1,
        callbacks=[_Recorder(history)],
    )
    history.seconds = time.perf_counter() - start
    proa.save(network.state_dict(), str(weights))
    part = record.with_suffix(".part")
    part.write_text(json.dumps({**asdict(history), "recipe": recipe}))
    part.replace(record)
    return network, history
