"""Files that are replaced: links, modes, kinds of file, full disks, kills."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proa
from proa import nn
from proa.base import files
from proa.errors import (
    Error,
    FileError,
    InvalidArgumentError,
    NotFoundError,
)
from proa.static import InputSpec

from ..processes import run_python

SPEC = [InputSpec([None, 2], "float32", "x")]


def save_state(path: Path) -> None:
    proa.save({"x": proa.ones([4])}, path)


def save_program(path: Path) -> None:
    proa.jit.save(nn.Linear(2, 2), path, SPEC)


def save_model(path: Path) -> None:
    net = nn.Linear(2, 2)
    proa.Model(net).save(os.fspath(path).removesuffix(".pdparams"))


#: Every way of writing a file, and the suffix that it needs.
WRITERS: dict[str, tuple[Callable[[Path], None], str]] = {
    "save": (save_state, ""),
    "jit.save": (save_program, ".proa"),
    "Model.save": (save_model, ".pdparams"),
}


@pytest.fixture(params=WRITERS)
def writer(request: pytest.FixtureRequest) -> tuple[Callable[[Path], None], str]:
    return WRITERS[request.param]


def remains(folder: Path) -> list[str]:
    return [p.name for p in folder.iterdir() if p.name.endswith(".part")]


def test_a_link_stays_and_its_target_is_replaced(writer: Any, tmp_path: Path) -> None:
    write, suffix = writer
    (tmp_path / "disk").mkdir()
    target, link = tmp_path / "disk" / f"real{suffix}", tmp_path / f"link{suffix}"
    target.write_bytes(b"old")
    (tmp_path / f"middle{suffix}").symlink_to(target)
    link.symlink_to(f"middle{suffix}")
    write(link)
    assert link.is_symlink()
    assert target.is_file()
    assert not target.is_symlink()
    assert target.read_bytes() == link.read_bytes() != b"old"
    assert proa.load(link) is not None
    assert remains(tmp_path) == remains(tmp_path / "disk") == []


def test_a_link_to_nothing_yet_gets_its_target(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "new" / "file")
    save_state(link)
    assert link.is_symlink()
    assert (tmp_path / "new" / "file").is_file()


def test_links_in_a_circle_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(FileError, match=r"\[save\].*symbolic links") as caught:
        save_state(tmp_path / "a")
    assert caught.value.errno == errno.ELOOP


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o755])
def test_an_existing_file_keeps_its_mode(
    mode: int, writer: Any, tmp_path: Path
) -> None:
    write, suffix = writer
    path = tmp_path / f"x{suffix}"
    path.write_bytes(b"old")
    path.chmod(mode)
    write(path)
    assert stat.S_IMODE(path.stat().st_mode) == mode


@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_a_new_file_has_the_mode_of_the_umask(mask: int, tmp_path: Path) -> None:
    before = os.umask(mask)
    try:
        save_state(tmp_path / "x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == 0o666 & ~mask


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives files away")
def test_an_existing_file_keeps_its_owner(tmp_path: Path) -> None:
    save_state(tmp_path / "x")
    os.chown(tmp_path / "x", 1234, 2345)
    save_state(tmp_path / "x")
    status = (tmp_path / "x").stat()
    assert (status.st_uid, status.st_gid) == (1234, 2345)


def test_directories_fifos_and_sockets_are_refused(writer: Any, tmp_path: Path) -> None:
    write, suffix = writer
    (tmp_path / f"folder{suffix}").mkdir()
    os.mkfifo(tmp_path / f"fifo{suffix}")
    for name, kind in [("folder", "a directory"), ("fifo", "a FIFO")]:
        path = tmp_path / (name + suffix)
        with pytest.raises(InvalidArgumentError, match=f"regular file, got.*{kind}"):
            write(path)
        assert not path.is_file()
        with pytest.raises(InvalidArgumentError, match=f"regular file, got.*{kind}"):
            files.read(path)
    assert remains(tmp_path) == []


def test_devices_are_refused(tmp_path: Path) -> None:
    for path in (Path("/dev/null"), tmp_path / "link"):
        if path.name == "link":
            path.symlink_to("/dev/null")
        with pytest.raises(InvalidArgumentError, match="a character device"):
            save_state(path)
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


@pytest.mark.skipif(os.getuid() != 0, reason="only root makes devices")
def test_a_device_node_is_not_replaced(tmp_path: Path) -> None:
    node = tmp_path / "node"
    try:
        os.mknod(node, 0o600 | stat.S_IFCHR, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("this container makes no devices")
    with pytest.raises(InvalidArgumentError, match="a character device"):
        save_state(node)
    assert stat.S_ISCHR(node.lstat().st_mode)


def test_a_parent_that_is_a_file_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(FileError, match=r"\[save\].*file"):
        save_state(tmp_path / "file" / "x")
    with pytest.raises(NotFoundError, match=r"no such file"):
        files.read(tmp_path / "nothing")


def test_long_names_have_room_for_a_temporary_file(tmp_path: Path) -> None:
    for letter in ("x", "é", "模"):
        name = letter * (255 // len(letter.encode()))
        save_state(tmp_path / name)
        assert proa.load(tmp_path / name)["x"].shape == [4]


AS_USER = """
import os, sys
import proa
from proa.errors import FileError
save, state = proa.save, {"x": proa.ones([4])}  # another user may not import
os.setgid(65534); os.setuid(65534)
try:
    save(state, sys.argv[1])
except FileError as error:
    assert isinstance(error, OSError) and error.errno == 13, error
    assert str(error).startswith("[save] "), error
    print("refused")
"""


@pytest.mark.skipif(os.getuid() != 0, reason="root becomes another user")
def test_a_file_that_may_not_be_written_is_not_replaced(tmp_path: Path) -> None:
    folder = Path("/tmp") / f"proa-files-{os.getpid()}"
    folder.mkdir()
    try:
        (folder / "x").write_bytes(b"old")
        (folder / "x").chmod(0o444)
        os.chown(folder, 65534, 65534)
        assert run(AS_USER, folder / "x") == "refused"
        assert (folder / "x").read_bytes() == b"old"
        folder.chmod(0o555)
        assert run(AS_USER, folder / "new") == "refused"
    finally:
        shutil.rmtree(folder)


def run(program: str, *arguments: object) -> str:
    done = run_python(program, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


# -- full disks ------------------------------------------------------------------------


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def test_a_file_that_grows_too_large_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "x"
    save_state(path)
    old = path.read_bytes()
    with largest_file(1 << 16), pytest.raises(FileError) as caught:
        proa.save({"x": proa.ones([1 << 16])}, path)
    assert caught.value.errno == errno.EFBIG
    assert str(caught.value).startswith("[save] ")
    assert path.read_bytes() == old
    assert os.listdir(tmp_path) == ["x"]


def test_a_full_disk_leaves_the_old_file_and_nothing_else(small_disk: Path) -> None:
    path = small_disk / "x"
    proa.save({"x": proa.ones([1000])}, path)
    old = path.read_bytes()
    with pytest.raises(OSError, match=r"\[save\].*No space left") as caught:
        proa.save({"x": proa.ones([1 << 18])}, path)
    assert isinstance(caught.value, Error)
    assert caught.value.errno == errno.ENOSPC
    assert path.read_bytes() == old
    assert os.listdir(small_disk) == ["x"]


# -- other programs --------------------------------------------------------------------


def test_a_file_that_changes_while_it_is_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x"
    save_state(path)
    aligned = files._aligned

    def cut_then(size: int, *rest: Any) -> memoryview:
        os.truncate(path, 20)  # what `cp new old` does first
        return aligned(size, *rest)

    monkeypatch.setattr(files, "_aligned", cut_then)
    with pytest.raises(InvalidArgumentError, match="stays as it is while it is read"):
        files.read(path)


def test_what_was_read_is_aligned_and_remains(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"abc" * 5)
    data = files.read(tmp_path / "x")
    (tmp_path / "x").write_bytes(b"")
    assert data == b"abc" * 5
    assert np.frombuffer(data, np.uint8).ctypes.data % 64 == 0


def test_abandoned_temporary_files_go_and_living_ones_stay(tmp_path: Path) -> None:
    dead = tmp_path / f".old.{'0' * 16}.proa.part"
    dead.write_bytes(b"half")
    others = [tmp_path / ".x.part", tmp_path / f".{'0' * 16}.proa.part.d"]
    for other in others:
        other.write_bytes(b"theirs")

    def chunks() -> Iterator[bytes]:
        (living,) = set(remains(tmp_path)) - {dead.name, ".x.part"}
        save_state(tmp_path / "second")
        assert set(remains(tmp_path)) == {living, ".x.part"}
        yield b"whole"

    files.replace(tmp_path / "first", chunks())
    assert (tmp_path / "first").read_bytes() == b"whole"
    names = {"first", "second", *(other.name for other in others)}
    assert set(os.listdir(tmp_path)) == names


OVERWRITE_WHILE_OPEN = """
import os, sys
import numpy as np
import proa
from proa import _core
from proa.base import safetensors
from proa.errors import InvalidArgumentError
path, other = sys.argv[1:3]
x = np.ones((3, 600), "f4")

def engine():
    made = _core.Engine.load(path)
    return lambda: made.run([x])[0]

def layer():
    made = proa.jit.load(path)
    return lambda: made(proa.to_tensor(x)).numpy()

def program():
    made = proa.ir.read(path)
    return lambda: sum(value.data.sum() for value in made.constants())

def tensors():
    made = safetensors.read(path).tensors
    return lambda: sum(tensor.array.sum() for tensor in made.values())

whole = open(path, "rb").read()
for load in (engine, layer, program, tensors):
    for new in (b"", whole[:5000], open(other, "rb").read()):
        first = load()()
        use = load()
        with open(path, "wb") as file:  # in place, as cp does
            file.write(new)
        np.testing.assert_array_equal(use(), first)
        if len(new) < 6000:
            try:
                load()
            except InvalidArgumentError:
                pass
            else:
                raise AssertionError("a cut file was read")
        with open(path, "wb") as file:
            file.write(whole)
print("alive")
"""


def test_a_model_that_is_open_may_be_overwritten(tmp_path: Path) -> None:
    for name, width in (("a", 7100), ("b", 7)):
        proa.jit.save(nn.Linear(600, width), tmp_path / name, [InputSpec([None, 600])])
    paths = [tmp_path / "a.proa", tmp_path / "b.proa"]
    assert run(OVERWRITE_WHILE_OPEN, *paths) == "alive"


WRITE_FOR_EVER = """
import sys
import numpy as np
import proa
print("ready", flush=True)
for k in range(10**9):
    proa.save({"k": k, "x": np.full(200_000, k)}, sys.argv[1])
"""


def kill_while_saving(folder: Path, delay: float) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITE_FOR_EVER, folder / "x"], stdout=subprocess.PIPE
    )
    assert writer.stdout is not None
    assert writer.stdout.readline() == b"ready\n"
    time.sleep(delay)
    writer.kill()
    writer.wait()
    writer.stdout.close()
    if (folder / "x").exists():
        state = proa.load(folder / "x", return_numpy=True)
        np.testing.assert_array_equal(state["x"], np.full(200_000, state["k"]))
    save_state(folder / "y")
    assert remains(folder) == []


def test_a_writer_killed_at_any_time_leaves_a_whole_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for _ in range(2):
        kill_while_saving(tmp_path, rng.uniform(0.0, 0.1))


@pytest.mark.full
def test_fifty_writers_killed_leave_whole_files(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    for _ in range(50):
        kill_while_saving(tmp_path, rng.uniform(0.0, 0.3))
