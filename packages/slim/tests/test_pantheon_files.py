"""Knowledge in files: one API, many teachers, batches of the student's size."""

import numpy as np
import pytest
from pantheon_teacher import SAMPLES, images, network

import proa
from proa import nn, static
from proa.errors import (
    AlreadyExistsError,
    InvalidArgumentError,
    NotFoundError,
    PreconditionNotMetError,
)
from proa_slim.pantheon import Student, Teacher

pytest.importorskip("safetensors")


def samples():
    yield from ((row,) for row in images())


def write(folder, program=None, batch_size=7, schema=None, reader=None, **service):
    teacher = Teacher(out_path=folder)
    teacher.start()
    reader = reader or {"sample_generator": samples, "batch_size": batch_size}
    schema = schema or {"logits": ""}
    teacher.start_knowledge_service(
        [0], schema, program or network(1), reader, **service
    )
    return teacher


def student_of(*folders, **strategy):
    student = Student(strategy or None)
    for folder in folders:
        student.register_teacher(in_path=folder)
    student.start()
    return student


@pytest.mark.parametrize(
    ("batch_size", "drop_last"), [(1, False), (16, False), (16, True)]
)
def test_the_student_reads_batches_of_its_own_size(tmp_path, batch_size, drop_last):
    write(tmp_path)
    student = student_of(tmp_path)
    assert student.get_knowledge_desc() == {
        "logits": {"shape": [-1, 3], "dtype": "float32", "lod_level": 0}
    }
    assert student.get_knowledge_qsize() == 8
    got = [b["logits"] for b in student.get_knowledge_generator(batch_size, drop_last)]
    sizes = [16, 16, 16] + ([] if drop_last else [2]) if batch_size == 16 else [1] * 50
    assert [len(b) for b in got] == sizes
    want = network(1)(proa.to_tensor(images())).numpy()
    np.testing.assert_allclose(np.concatenate(got), want[: sum(sizes)], atol=1e-6)
    assert student.get_knowledge_qsize() == 0


@pytest.mark.feature("L490")
def test_knowledge_of_several_teachers_is_merged_and_batched_anew(tmp_path):
    folders = [tmp_path / name for name in "abc"]
    write(folders[0], network(1), 7)
    write(folders[1], network(2), 16)
    write(folders[2], network(2), 9, {"hidden": "1", "probabilities": ""})
    student = student_of(*folders, logits="mean")
    got = list(student.get_knowledge_generator(11))
    x = proa.to_tensor(images())
    both = [network(seed)(x).numpy() for seed in (1, 2)]
    hidden = network(2)[:2](x).numpy()
    for i, batch in enumerate(got):
        own = slice(11 * i, 11 * i + 11)
        np.testing.assert_allclose(batch["logits"], np.mean(both, 0)[own], atol=1e-6)
        np.testing.assert_allclose(batch["hidden"], hidden[own], atol=1e-6)
        np.testing.assert_allclose(batch["probabilities"], both[1][own], atol=1e-6)
    summed = student_of(*folders[:2], logits="sum").get_knowledge_generator(SAMPLES)
    np.testing.assert_allclose(next(summed)["logits"], np.sum(both, 0), atol=1e-6)
    with pytest.raises(InvalidArgumentError, match="a merge_strategy for knowledge"):
        student_of(*folders)
    with pytest.raises(InvalidArgumentError, match="must be 'sum' or 'mean'"):
        Student({"logits": "max"})


def test_teachers_with_fewer_samples_than_others_are_noticed(tmp_path):
    write(tmp_path / "a", network(1), 10)
    reader = {"sample_generator": samples, "batch_size": 15, "drop_last": True}
    write(tmp_path / "b", network(2), schema={"other": ""}, reader=reader)
    student = student_of(tmp_path / "a", tmp_path / "b")
    with pytest.raises(PreconditionNotMetError, match="equally many samples"):
        list(student.get_knowledge_generator(8))


def test_half_precision_halves_the_files(tmp_path):
    wide = nn.Linear(6, 4096)
    whole = write(tmp_path / "a", wide).bytes_written
    half = write(tmp_path / "b", wide, use_fp16=True).bytes_written
    assert 0.5 <= half / whole < 0.51
    a, b = (
        next(student_of(tmp_path / n).get_knowledge_generator(SAMPLES)) for n in "ab"
    )
    assert b["logits"].dtype == np.float32
    np.testing.assert_array_equal(b["logits"], a["logits"].astype(np.float16))
    with pytest.raises(InvalidArgumentError, match="magnitudes up to 65504"):
        reader = {"batch_generator": lambda: iter([(np.full((1, 6), 1e6, "float32"),)])}
        write(tmp_path / "c", nn.Identity(), reader=reader, use_fp16=True)


def test_readers_give_samples_lists_or_batches(tmp_path):
    x = images()

    def lists():
        for begin in range(0, SAMPLES, 8):
            yield [(row,) for row in x[begin : begin + 8]]

    def batches():
        yield from ((x[begin : begin + 8],) for begin in range(0, SAMPLES, 8))

    for name, generator in (("sample_list", lists), ("batch", batches)):
        write(tmp_path / name, reader={f"{name}_generator": generator}, times=2)
        student = student_of(tmp_path / name)
        (got,) = student.get_knowledge_generator(2 * SAMPLES)
        want = network(1)(proa.to_tensor(x)).numpy()
        np.testing.assert_allclose(got["logits"], np.tile(want, (2, 1)), atol=1e-6)


def test_a_static_program_teaches(tmp_path):
    proa.enable_static()
    try:
        proa.seed(5)
        main, startup = static.Program(), static.Program()
        with static.program_guard(main, startup):
            x = static.data("x", [None, 6], "float32")
            logits = static.nn.fc(x, 3)
        exe = static.Executor()
        with static.scope_guard(static.Scope()):
            exe.run(startup)
            (want,) = exe.run(main, {"x": images()}, [logits])
            teacher = Teacher(out_path=tmp_path)
            teacher.start()
            reader = {"sample_generator": samples, "batch_size": 4}
            teacher.start_knowledge_service([x], {"y": logits}, main, reader, exe)
    finally:
        proa.disable_static()
    (got,) = student_of(tmp_path).get_knowledge_generator(SAMPLES)
    np.testing.assert_allclose(got["y"], want, atol=1e-6)


def test_a_killed_teacher_of_files_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr("proa_slim.pantheon.shards._SHARD_BATCHES", 2)
    seen = []

    def failing():
        for i, row in enumerate(images()):
            seen.append(i)
            if len(seen) == 36:
                raise KeyboardInterrupt
            yield (row,)

    with pytest.raises(KeyboardInterrupt):
        write(tmp_path, reader={"sample_generator": failing, "batch_size": 7})
    with pytest.raises(PreconditionNotMetError, match="what a teacher finished"):
        student_of(tmp_path)
    with pytest.raises(AlreadyExistsError, match="resume=True continues"):
        write(tmp_path)
    teacher = Teacher(out_path=tmp_path, resume=True)
    teacher.start()
    reader = {"sample_generator": samples, "batch_size": 7}
    teacher.start_knowledge_service([0], {"logits": ""}, network(1), reader)
    (got,) = student_of(tmp_path).get_knowledge_generator(SAMPLES)
    want = network(1)(proa.to_tensor(images())).numpy()
    np.testing.assert_allclose(got["logits"], want, atol=1e-6)
    (tmp_path / "000001.safetensors").unlink()
    with pytest.raises(InvalidArgumentError, match="expected 4 files of knowledge"):
        list(student_of(tmp_path).get_knowledge_generator(8))


def test_wrong_use_is_refused(tmp_path):
    with pytest.raises(InvalidArgumentError, match="out_path, out_port or both"):
        Teacher()
    with pytest.raises(PreconditionNotMetError, match="before start"):
        Teacher(out_path=tmp_path).start_knowledge_service([0], {}, network(1), {})
    with pytest.raises(InvalidArgumentError, match="reader_config must have one of"):
        write(tmp_path / "a", reader={"generator": samples})
    with pytest.raises(InvalidArgumentError, match="positive batch_size"):
        write(tmp_path / "b", batch_size=0)
    with pytest.raises(NotFoundError, match="schema must name layers"):
        write(tmp_path / "c", schema={"logits": "head"})
    with pytest.raises(PreconditionNotMetError, match="at least one batch"):
        write(tmp_path / "d", reader={"batch_generator": lambda: iter([])})
    with pytest.raises(InvalidArgumentError, match="one row for each sample"):
        reader = {"batch_generator": lambda: iter([(np.float32(1),)])}
        write(tmp_path / "e", nn.Identity(), reader=reader)
    student = Student()
    with pytest.raises(PreconditionNotMetError, match="at least one registered"):
        student.start()
    with pytest.raises(InvalidArgumentError, match="in_path or in_address"):
        student.register_teacher()
    with pytest.raises(PreconditionNotMetError, match="before start"):
        student.get_knowledge_desc()
    student.register_teacher(in_path=tmp_path / "none")
    with pytest.raises(NotFoundError, match="in_path must be a folder"):
        student.start()
    write(tmp_path / "f")
    student = student_of(tmp_path / "f")
    with pytest.raises(InvalidArgumentError, match="batch_size must be positive"):
        student.get_knowledge_generator(0)
    with pytest.raises(InvalidArgumentError, match="a teacher with in_address"):
        student.recv(0)


def test_samples_of_several_shapes_are_batched_by_their_teacher_alone(tmp_path):
    reader = {
        "batch_generator": lambda: iter([(np.ones((2, n), "float32"),) for n in (3, 4)])
    }
    write(tmp_path, nn.Identity(), reader=reader)
    sizes = [b["logits"].shape for b in student_of(tmp_path).get_knowledge_generator(2)]
    assert sizes == [(2, 3), (2, 4)]
    with pytest.raises(InvalidArgumentError, match="let the teacher pad them"):
        list(student_of(tmp_path).get_knowledge_generator(4))
