"""jit.save writes all static methods of a Layer; jit.load returns them as methods."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proa
from proa import jit, nn
from proa.errors import InvalidArgumentError, MissingFileError, NotFoundError
from proa.jit import InputSpec, to_static


class Coder(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.Linear(4, 2), nn.Linear(2, 4)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x: Any) -> Any:
        return self.decode(self.encode(x))

    @to_static(input_spec=[InputSpec([None, 4])])
    def encode(self, x: Any) -> Any:
        return self.dropout(self.encoder(x)).tanh()

    @to_static
    def decode(self, z: Any) -> Any:
        if z.sum() > 0:
            z = z + 1
        return {"decoded": self.decoder(z)}


def draw(*shape: int) -> Any:
    rng = np.random.default_rng(1)
    return proa.to_tensor(rng.standard_normal(shape).astype(np.float32))


@pytest.fixture
def saved(tmp_path: Path) -> tuple[Coder, Path]:
    coder, path = Coder(), tmp_path / "coder"
    coder.decode(draw(3, 2))
    jit.save(coder, path, [InputSpec([None, 4])])
    return coder, path


def test_loaded_methods_compute_what_the_layers_do(saved: Any) -> None:
    coder, path = saved
    loaded = jit.load(path)
    coder.eval()
    x, z = draw(5, 4), draw(3, 2)
    with proa.no_grad():
        want_z = np.tanh(
            x.numpy() @ coder.encoder.weight.numpy() + coder.encoder.bias.numpy()
        )
        np.testing.assert_allclose(loaded.encode(x).numpy(), want_z, rtol=1e-5)
        np.testing.assert_allclose(
            loaded.decode(z)["decoded"].numpy(),
            coder.decode(z)["decoded"].numpy(),
            rtol=1e-6,
        )
        np.testing.assert_allclose(
            loaded(x)["decoded"].numpy(), coder(x)["decoded"].numpy(), rtol=1e-6
        )


def test_methods_share_their_weights(saved: Any) -> None:
    loaded = jit.load(saved[1])
    assert sorted(loaded.state_dict()) == [
        "decoder.bias",
        "decoder.weight",
        "encoder.bias",
        "encoder.weight",
    ]
    loaded.train()
    loaded.encode(draw(5, 4)).sum().backward()
    weight = loaded.state_dict()["encoder.weight"]
    assert weight.grad is not None
    loaded.set_state_dict({"encoder.weight": proa.zeros([4, 2])})
    loaded.set_state_dict({"encoder.bias": proa.zeros([2])})
    loaded.eval()
    with proa.no_grad():
        assert not loaded.encode(draw(5, 4)).numpy().any()
        np.testing.assert_allclose(
            loaded(draw(5, 4))["decoded"].numpy(),
            np.tile(loaded.state_dict()["decoder.bias"].numpy(), (5, 1)),
            rtol=1e-6,
        )


def test_each_method_is_a_model_file_of_its_own(saved: Any) -> None:
    coder, path = saved
    names = {p.name for p in path.parent.iterdir()}
    assert names == {"coder.proa", "coder.encode.proa", "coder.decode.proa"}
    coder.eval()
    x = draw(5, 4)
    with proa.no_grad():
        alone = jit.load(path.parent / "coder.encode.proa")(x)
        np.testing.assert_allclose(alone.numpy(), coder.encode(x).numpy(), rtol=1e-6)


def test_programs_have_the_names_of_methods(saved: Any) -> None:
    loaded = jit.load(saved[1])
    assert [v.name for v in loaded.program("encode").main.inputs] == ["x"]
    with pytest.raises(InvalidArgumentError, match=r"\['forward', .*got 'code'"):
        loaded.program("code")
    with pytest.raises(AttributeError, match=r"'encode'.*got 'code'"):
        _ = loaded.code
    assert {"encode", "decode"} < set(dir(loaded))


def test_methods_of_unknown_inputs_are_left_out(tmp_path: Path) -> None:
    jit.save(Coder(), tmp_path / "coder", [InputSpec([None, 4])])
    assert not hasattr(jit.load(tmp_path / "coder"), "decode")


def test_a_loaded_method_takes_as_many_tensors_as_it_has_inputs(saved: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"TranslatedLayer.encode.* got 2"):
        jit.load(saved[1]).encode(draw(1, 4), draw(1, 4))


@pytest.mark.parametrize("name", ["none", "none.proa"])
def test_a_missing_path_is_an_error_that_callers_catch(
    name: str, tmp_path: Path
) -> None:
    for kind in (ValueError, FileNotFoundError, NotFoundError, MissingFileError):
        with pytest.raises(kind, match=r"no such file: .*none\.proa"):
            jit.load(tmp_path / name)


def test_a_missing_method_file_names_it(saved: Any) -> None:
    path = saved[1].parent / "coder.encode.proa"
    path.unlink()
    with pytest.raises(MissingFileError, match=r"no such file: .*coder\.encode\.proa"):
        jit.load(saved[1])
