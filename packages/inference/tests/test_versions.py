"""Models of other versions of operators, in a predictor."""

import struct
import zlib

import pytest
from inference_models import batch, check_mlp

from proa.errors import VersionError
from proa.ir import converts, file, operator_versions, versions
from proa_inference import Config, create_predictor
from proa_inference.cli import main


def with_version(content, op, version):
    """The file with another version of an operator, as FORMAT.md has it."""
    raw = bytearray(content)
    graph = 8 + int.from_bytes(raw[:8], "little")
    ops, _ = struct.unpack_from("<II", raw, graph + 48)
    index = list(operator_versions(content)).index(op)
    struct.pack_into("<I", raw, graph + ops + 8 * index + 4, version)
    struct.pack_into("<I", raw, graph + 32, 0)
    struct.pack_into("<I", raw, graph + 32, zlib.crc32(raw))
    return bytes(raw)


@pytest.fixture
def registry():
    """Converters that a test registers end with it."""
    before = dict(versions.CONVERTERS)
    yield
    versions.CONVERTERS.clear()
    versions.CONVERTERS.update(before)


@pytest.fixture
def fused(path, tmp_path):
    """The model after its graph passes, which write operators for this engine."""
    main(["optimize", str(path), str(tmp_path / "fused.proa")])
    assert "linear_act" in operator_versions((tmp_path / "fused.proa").read_bytes())
    return tmp_path / "fused.proa"


def config_of(content, optimize):
    config = Config()
    config.switch_ir_optim(optimize)
    config.set_model_buffer(content)
    return config


@pytest.mark.feature("L525")
@pytest.mark.parametrize("optimize", [True, False], ids=["passes", "plain"])
def test_fused_operators_have_versions_as_others_do(fused, optimize, registry):
    content = fused.read_bytes()
    check_mlp(create_predictor(config_of(content, optimize)).run([batch(3)]), batch(3))
    later = with_version(content, "linear_act", 2)
    with pytest.raises(VersionError, match="version"):
        create_predictor(config_of(later, optimize))
    earlier = with_version(content, "linear_act", 0)
    with pytest.raises(VersionError, match="nothing converts version 0"):
        create_predictor(config_of(earlier, optimize))

    @converts("linear_act", version=0)
    def _(program, node):
        node.attrs = {"act": "relu" if node.attrs["act"] == "tanh" else "none"}
        return ()

    program = file.from_bytes(content)
    for node in program.nodes():
        if node.op == "linear_act":
            assert node.attrs["act"] == "relu"
            node.attrs = {"act": "tanh"}
    meant = with_version(file.to_bytes(program), "linear_act", 0)
    check_mlp(create_predictor(config_of(meant, optimize)).run([batch(3)]), batch(3))


@pytest.mark.feature("L524")
def test_a_file_of_an_earlier_version_is_written_anew(path, tmp_path, registry, capsys):
    old, new = tmp_path / "old.proa", tmp_path / "new.proa"
    old.write_bytes(with_version(path.read_bytes(), "relu", 0))
    assert main(["optimize", str(old), str(new)]) == 1
    assert "relu must have version 1, got 0" in capsys.readouterr().err
    converts("relu", version=0)(lambda program, node: ())
    config = Config(old)
    config.switch_ir_optim(False)
    check_mlp(create_predictor(config).run([batch(2)]), batch(2))
    assert main(["optimize", str(old), str(new)]) == 0
    assert set(operator_versions(new.read_bytes()).values()) == {1}
    check_mlp(create_predictor(Config(new)).run([batch(2)]), batch(2))
