"""Models encrypted by AES-256-GCM, which are plain in memory alone."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inference_models import mlp, write_mlp

import proa
from proa.errors import InvalidArgumentError, PreconditionNotMetError, VersionError
from proa.ir import file
from proa.ir.builder import Builder
from proa.runtime import machine
from proa_inference import (
    Config,
    create_predictor,
    decrypt,
    encrypt,
    encrypt_file,
    generate_key,
)
from proa_inference.cli import main

pytest.importorskip("cryptography")
X = np.random.default_rng(0).standard_normal((3, 6)).astype(np.float32)
KEY = bytes(range(32))


def check(predictor):
    for got, want in zip(predictor.run([X]), mlp(X), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_the_container_is_aes_256_gcm_of_the_file(tmp_path):
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    content = write_mlp(tmp_path / "mlp.proa").read_bytes()
    sealed = encrypt(content, KEY)
    assert len(sealed) == len(content) + 40
    header, nonce = sealed[:24], sealed[8:20]
    assert header[:8] == b"PROAENC\x01"
    assert AESGCM(KEY).decrypt(nonce, sealed[24:], header) == content
    result = header + AESGCM(KEY).encrypt(nonce, b"other bytes", header)
    assert decrypt(result, KEY) == b"other bytes"
    assert encrypt(content, KEY)[8:20] != nonce


@pytest.mark.parametrize("optimize", [True, False])
def test_a_predictor_reads_an_encrypted_file_by_a_key_of_a_callback(tmp_path, optimize):
    path, secret = write_mlp(tmp_path / "mlp.proa"), tmp_path / "mlp.secret"
    key, calls = generate_key(), []
    encrypt_file(path, secret, key)
    assert b"linear" not in secret.read_bytes()
    path.unlink()
    before = set(os.listdir(tmp_path))
    config = Config(secret)
    config.switch_ir_optim(optimize)
    with pytest.raises(PreconditionNotMetError, match="set_cipher_key"):
        create_predictor(config)
    config.set_cipher_key(lambda: calls.append(1) or key)
    check(create_predictor(config))
    assert calls == [1]
    assert set(os.listdir(tmp_path)) == before
    memory = Config()
    memory.switch_ir_optim(optimize)
    memory.set_model_buffer(secret.read_bytes())
    memory.set_cipher_key(key)
    check(create_predictor(memory))
    config.set_cipher_key(generate_key())
    with pytest.raises(InvalidArgumentError, match="another key"):
        create_predictor(config)
    for wrong in (b"short", "x" * 32, None):
        with pytest.raises(InvalidArgumentError, match="key must be 32 bytes"):
            encrypt(b"", wrong)


@pytest.mark.parametrize("option", ["enable_save_optim_model", "switch_ir_debug"])
@pytest.mark.parametrize("source", ["file", "bytes"])
def test_options_that_would_write_an_encrypted_model_plain_are_refused(
    tmp_path, monkeypatch, option, source
):
    monkeypatch.chdir(tmp_path)
    path, secret = write_mlp(tmp_path / "mlp.proa"), tmp_path / "mlp.secret"
    encrypt_file(path, secret, KEY)
    path.unlink()
    config = Config(secret) if source == "file" else Config()
    if source == "bytes":
        config.set_model_buffer(secret.read_bytes())
    config.set_cipher_key(KEY)
    config.set_optim_cache_dir(tmp_path / "cache")
    assert config.model_is_encrypted()
    getattr(config, option)()
    with pytest.raises(InvalidArgumentError, match=f"{option}.*encrypted"):
        create_predictor(config)
    assert os.listdir(tmp_path) == ["mlp.secret"]
    getattr(config, option)(False)
    check(create_predictor(config))
    assert os.listdir(tmp_path) == ["mlp.secret"]


def test_a_part_of_an_encrypted_model_for_onnxruntime_is_in_no_file(
    tmp_path, monkeypatch
):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    path, secret = write_mlp(tmp_path / "mlp.proa"), tmp_path / "mlp.secret"
    encrypt_file(path, secret, KEY)
    path.unlink()
    results = []
    for name in ("mkdtemp", "mkstemp"):
        monkeypatch.setattr(f"tempfile.{name}", lambda *_, **__: results.append(1))
    config = Config(secret)
    config.set_cipher_key(KEY)
    config.enable_onnxruntime()
    check(create_predictor(config))
    assert not results
    assert os.listdir(tmp_path) == ["mlp.secret"]


def write_secret_conv(folder: Path) -> Path:
    """An encrypted model of names that can be searched for; the plain one is gone."""
    b = Builder()
    w = np.random.default_rng(1).standard_normal((8, 4, 3, 3)).astype(np.float32)
    steps = {"stride": [1, 1], "padding": [1] * 4, "dilation": [1, 1], "groups": 1}
    x = b.input("secret_input", "float32", (1, 4, 61, 67))
    y = b.conv2d(x, b.parameter("secret_weight", w), **steps)
    y.name = "secret_result"
    b.output(y)
    file.write(b.program, folder / "conv.proa")
    encrypt_file(folder / "conv.proa", folder / "conv.secret", KEY)
    (folder / "conv.proa").unlink()
    return folder / "conv.secret"


def test_tuning_writes_nothing_of_an_encrypted_model_unless_a_folder_is_given(
    tmp_path, monkeypatch
):
    for name in ("home", "cache", "work", "temporary"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    monkeypatch.chdir(tmp_path / "work")
    secret = write_secret_conv(tmp_path)
    content = secret.read_bytes()
    before = set(tmp_path.rglob("*"))
    from_bytes = Config()
    from_bytes.set_model_buffer(content)
    x = np.ones((1, 4, 61, 67), np.float32)
    for config in (Config(secret), from_bytes):
        config.set_cipher_key(KEY)
        config.enable_tuning()
        predictor = create_predictor(config)
        predictor.register_output_hook(lambda *_: None)  # makes another engine
        predictor.run([x])
        assert set(tmp_path.rglob("*")) == before
    plain = Config()
    plain.set_model_buffer(decrypt(content, KEY))
    plain.enable_tuning()
    create_predictor(plain)
    assert len([*(tmp_path / "cache").rglob("*.json")]) == 1


def test_the_cache_of_tuning_has_no_weights_names_or_shapes(tmp_path, monkeypatch):
    config = Config(write_secret_conv(tmp_path))
    config.set_cipher_key(KEY)
    config.enable_tuning(tmp_path / "tuned")
    create_predictor(config)
    (cached,) = (tmp_path / "tuned").iterdir()
    stored = json.loads(cached.read_bytes())
    assert set(stored) == {"made_for", "choices"}
    (choice,) = stored["choices"]
    assert choice in ("", "implicit_gemm", "im2col")
    facts = stored["made_for"]
    assert set(facts) == {"format", "proa", "machine", "threads", "graph"}
    assert len(facts["graph"]) == 64  # a hash
    program = file.from_bytes(config.content())
    names = {v.name for n in program.nodes() for v in (*n.inputs, *n.outputs) if v}
    assert {"secret_input", "secret_weight", "secret_result"} <= names
    assert not any(name in cached.read_text() + cached.name for name in names)
    held = {key: facts[key] for key in ("format", "proa", "machine", "threads")}
    assert held == {"format": 2, "proa": str(proa.__version__), "threads": 0} | {
        "machine": json.loads(json.dumps(machine()))
    }
    monkeypatch.setattr("proa_inference.tuning._measured", None)
    create_predictor(config)  # reads it


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_change_of_the_bytes_is_a_typed_error(data):
    sealed = bytearray(encrypt(b"a model of some bytes", KEY))
    kind = data.draw(st.sampled_from(["flip", "cut", "add"]))
    at = data.draw(st.integers(0, len(sealed) - 1))
    if kind == "flip":
        sealed[at] ^= 1 << data.draw(st.integers(0, 7))
    elif kind == "cut":
        del sealed[at:]
    else:
        sealed += data.draw(st.binary(min_size=1, max_size=20))
    with pytest.raises((InvalidArgumentError, VersionError)):
        decrypt(bytes(sealed), KEY)


def test_the_command_encrypts_a_file(tmp_path, capsys):
    path, secret = write_mlp(tmp_path / "mlp.proa"), tmp_path / "mlp.secret"
    (tmp_path / "key").write_bytes(KEY)
    arguments = ["encrypt", str(path), str(secret), "--key-file"]
    assert main([*arguments, str(tmp_path / "key")]) == 0
    assert decrypt(secret.read_bytes(), KEY) == path.read_bytes()
    (tmp_path / "short").write_bytes(b"x")
    assert main([*arguments, str(tmp_path / "short")]) == 1
    assert "key must be 32 bytes, got 1" in capsys.readouterr().err
