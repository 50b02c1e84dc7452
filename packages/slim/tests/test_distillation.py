"""Losses of distillation by their formulas, merged programs, and distilled layers."""

import numpy as np
import pytest
from scipy.special import log_softmax, softmax

import proa
from proa import nn, static
from proa.errors import (
    InvalidArgumentError,
    NotFoundError,
    PreconditionNotMetError,
    ShapeError,
)
from proa_slim import DML, Distill, DistillLoss, dist
from proa_slim.distill import (
    attention_loss,
    dkd_loss,
    fsp_loss,
    kl_loss,
    l2_loss,
    merge,
    soft_label_loss,
)

RNG = np.random.default_rng(11)
T, S = (RNG.standard_normal((6, 5)).astype(np.float32) * 2 for _ in range(2))


def value(function, *arrays, **options):
    return float(function(*map(proa.to_tensor, arrays), **options))


def kl(p, q):
    return (p * (np.log(p) - np.log(q))).sum(-1).mean()


def test_soft_labels_are_cross_entropy_at_two_temperatures():
    got = value(soft_label_loss, T, S, teacher_temperature=2.0, student_temperature=3.0)
    want = -(softmax(T / 2, -1) * log_softmax(S / 3, -1)).sum(-1).mean()
    assert got == pytest.approx(want, rel=1e-5)


def test_divergence_has_the_weight_of_the_paper():
    want = 16 * kl(softmax(T / 4, -1), softmax(S / 4, -1))
    assert value(kl_loss, T, S, temperature=4.0) == pytest.approx(want, rel=1e-4)


def test_hints_are_mean_squares():
    assert value(l2_loss, T, S) == pytest.approx(((S - T) ** 2).mean(), rel=1e-5)


def test_flow_matrices_are_inner_products_over_positions():
    t1, t2 = RNG.standard_normal((2, 3, 4, 5)), RNG.standard_normal((2, 6, 4, 5))
    s1, s2 = RNG.standard_normal((2, 3, 2, 2)), RNG.standard_normal((2, 6, 2, 2))
    gt = np.einsum("nahw,nbhw->nab", t1, t2) / 20
    gs = np.einsum("nahw,nbhw->nab", s1, s2) / 4
    arrays = [x.astype(np.float32) for x in (t1, t2, s1, s2)]
    want = ((gs - gt) ** 2).mean()
    assert value(fsp_loss, *arrays) == pytest.approx(want, rel=1e-4)
    with pytest.raises(ShapeError, match="agree in h and w"):
        value(fsp_loss, *arrays[::2], *arrays[::2])


def test_attention_maps_are_normalised():
    t, s = RNG.standard_normal((2, 7, 4, 4)), RNG.standard_normal((2, 3, 4, 4))

    def attention(x):
        a = (x**2).sum(1).reshape(2, -1)
        return a / np.linalg.norm(a, axis=1, keepdims=True)

    want = ((attention(s) - attention(t)) ** 2).mean()
    got = value(attention_loss, t.astype(np.float32), s.astype(np.float32))
    assert got == pytest.approx(want, rel=1e-4)


def test_decoupled_parts_are_those_of_the_paper():
    label = np.array([0, 4, 2, 2, 1, 3])
    temperature = 2.5
    p, q = softmax(T / temperature, -1), softmax(S / temperature, -1)
    rows = np.arange(6)
    b_p = np.stack([p[rows, label], 1 - p[rows, label]], -1)
    b_q = np.stack([q[rows, label], 1 - q[rows, label]], -1)
    others = np.array([[c for c in range(5) if c != k] for k in label])
    p_hat = softmax(np.take_along_axis(T, others, 1) / temperature, -1)
    q_hat = softmax(np.take_along_axis(S, others, 1) / temperature, -1)
    want = temperature**2 * (0.7 * kl(b_p, b_q) + 3.0 * kl(p_hat, q_hat))
    got = value(
        lambda t, s: dkd_loss(
            t, s, None, temperature, 0.7, 3.0, label=proa.to_tensor(label)
        ),
        T,
        S,
    )
    assert got == pytest.approx(want, rel=1e-4)
    # Both parts together, NCKD with the teacher's certainty as weight, are plain KL.
    whole = kl_loss(proa.to_tensor(T), proa.to_tensor(S))
    weight = 1 - p[rows, label]
    assert float(whole) > 0 and weight.min() > 0


@pytest.mark.parametrize("loss", [soft_label_loss, kl_loss, l2_loss, dkd_loss])
def test_gradients_flow_to_the_student_alone(loss):
    t, s = proa.to_tensor(T), proa.to_tensor(S)
    t.stop_gradient = s.stop_gradient = False
    loss(t, s).backward()
    assert t.grad is None
    got = s.grad.numpy()
    step = 1e-2
    for place in ((0, 0), (3, 4)):
        values = []
        for sign in (1, -1):
            moved = S.astype(np.float64)
            moved[place] += sign * step
            values.append(value(loss, T.astype(np.float64), moved))
        want = (values[0] - values[1]) / (2 * step)
        assert got[place] == pytest.approx(want, rel=1e-2, abs=1e-4)


def test_wrong_losses_are_refused():
    with pytest.raises(ShapeError, match="an adapter may give it"):
        value(l2_loss, T, S[:, :3])
    with pytest.raises(InvalidArgumentError, match="temperature must be positive"):
        value(kl_loss, T, S, temperature=0)
    with pytest.raises(InvalidArgumentError, match="loss must be one of soft_label"):
        DistillLoss("hint")


# -- dynamic networks ------------------------------------------------------------------


def net(width, seed):
    proa.seed(seed)
    return nn.Sequential(
        nn.Conv2D(1, width, 3, padding=1), nn.ReLU(), nn.Flatten(),
        nn.Linear(width * 16, 3),
    )  # fmt: skip


X = RNG.standard_normal((8, 1, 4, 4)).astype(np.float32)


def test_a_layer_distils_features_by_path():
    teacher, student = net(6, 1), net(2, 2)
    adapter = nn.Conv2D(2, 6, 1)
    terms = [
        DistillLoss("kl", options={"temperature": 4.0}),
        DistillLoss("l2", "1", weight=0.5, adapter=adapter),
        {"loss": "attention", "student": "1", "teacher": "1", "weight": 2.0},
    ]
    distill = Distill(terms, student, teacher)
    names = {id(p) for p in distill.parameters()}
    assert names == {id(p) for p in (*student.parameters(), *adapter.parameters())}
    x = proa.to_tensor(X)
    got, given, total = distill(x)
    np.testing.assert_array_equal(given.numpy(), teacher(x).numpy())
    np.testing.assert_array_equal(got.numpy(), student(x).numpy())
    features = [n[1](n[0](x)) for n in (teacher, student)]
    want = kl_loss(given, got, temperature=4.0)
    want = want + l2_loss(features[0], adapter(features[1])) * 0.5
    want = want + attention_loss(*features) * 2.0
    assert float(total) == pytest.approx(float(want), rel=1e-6)
    total.backward()
    assert adapter.weight.grad is not None
    assert all(p.grad is None for p in teacher.parameters())


def test_distilling_brings_the_student_to_the_teacher():
    teacher, student = net(4, 1), net(4, 2)
    distill = Distill([DistillLoss("l2")], student, teacher, return_model_outputs=False)
    adam = proa.optimizer.Adam(0.02, parameters=distill.parameters())
    values = []
    for _ in range(60):
        loss = distill(proa.to_tensor(X))
        loss.backward()
        adam.step()
        adam.clear_grad()
        values.append(float(loss))
    assert values[-1] < 0.02 * values[0]


def test_several_teachers_have_terms_of_their_own():
    first, second, student = net(2, 1), net(3, 2), net(2, 3)
    terms = [DistillLoss("l2", teacher_index=0), DistillLoss("l2", teacher_index=1)]
    y, given, total = Distill(terms, student, [first, second])(proa.to_tensor(X))
    want = sum(float(l2_loss(t, y)) for t in given)
    assert float(total) == pytest.approx(want, rel=1e-6)
    with pytest.raises(InvalidArgumentError, match="teacher_index must be in"):
        Distill([DistillLoss("l2", teacher_index=1)], student, first)
    with pytest.raises(NotFoundError, match="path of a layer of the student, got '7'"):
        Distill([DistillLoss("l2", "7")], student, first)


def test_networks_learn_from_each_other():
    networks = [net(2, 1), net(3, 2), net(2, 3)]
    mutual = DML(networks)
    logits = mutual(proa.to_tensor(X))
    labels = proa.to_tensor(np.arange(8) % 3)
    arrays = [x.numpy().astype(np.float64) for x in logits]
    for i, got in enumerate(mutual.loss(logits, labels)):
        log_q = log_softmax(arrays[i], -1)
        want = -log_q[np.arange(8), np.arange(8) % 3].mean()
        others = [softmax(a, -1) for j, a in enumerate(arrays) if j != i]
        want += np.mean([kl(p, np.exp(log_q)) for p in others])
        assert float(got) == pytest.approx(want, rel=1e-4)
    optimizer = mutual.opt(
        [proa.optimizer.Adam(0.02, parameters=n.parameters()) for n in networks]
    )
    first = [float(v) for v in mutual.loss(logits, labels)]
    for _ in range(40):
        optimizer.minimize(mutual.loss(mutual(proa.to_tensor(X)), labels))
    last = [float(v) for v in mutual.loss(mutual(proa.to_tensor(X)), labels)]
    assert all(b < 0.5 * a for a, b in zip(first, last, strict=True))
    with pytest.raises(InvalidArgumentError, match="expected 3 optimizers, got 1"):
        mutual.opt([None])


# -- static programs -------------------------------------------------------------------


@pytest.fixture
def static_mode():
    proa.enable_static()
    yield
    proa.disable_static()


def built(width, data_name, seed):
    """A program with a network: (main, startup, feature, logits)."""
    proa.seed(seed)
    main, startup = static.Program(), static.Program()
    with static.program_guard(main, startup):
        x = static.data(data_name, [None, 1, 4, 4], "float32")
        conv = static.nn.conv2d(x, width, 3, padding=1, bias_attr=False)
        feature = static.nn.batch_norm(conv, act="relu")
        feature = nn.functional.dropout(feature, 0.5)
        logits = static.nn.fc(feature, 3)
    return main, startup, feature, logits


@pytest.mark.usefixtures("static_mode")
def test_a_merged_teacher_teaches_a_static_student():
    exe = static.Executor()
    teacher, teacher_startup, t_feature, t_logits = built(4, "image", 1)
    student, startup, feature, logits = built(4, "x", 2)
    teacher_scope = static.Scope()
    with static.scope_guard(teacher_scope):
        exe.run(teacher_startup)
        tested = teacher.clone(for_test=True)
        (want,) = exe.run(tested, {"image": X}, [t_logits])
    scope = static.Scope()
    with static.scope_guard(scope):
        exe.run(startup)
        merge(teacher, student, {"image": "x"}, None, None, teacher_scope)
        with static.program_guard(student, startup):
            names = f"teacher_{t_logits.name}", logits.name
            soft = dist.soft_label(*names, student)
            hint = dist.l2(f"teacher_{t_feature.name}", feature.name, student)
            own = dist.loss(lambda a, b: l2_loss(a, b), student, a=names[0], b=names[1])
            total = soft + hint + own
            assert all("teacher" not in p.name for p in student.all_parameters())
            before = [v.name for v in scope_values(student)]
            pairs = proa.optimizer.Adam(0.01).minimize(total)[1]
        exe.run(startup)
        assert pairs and before
        held = {n: np.array(scope.find_var(n).get_tensor()) for n in before}
        values = []
        for _ in range(40):
            got, value_ = exe.run(student, {"x": X}, [names[0], total])
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
            values.append(float(value_))
        for name in before:
            if name.startswith("teacher_"):
                np.testing.assert_array_equal(
                    np.array(scope.find_var(name).get_tensor()), held[name]
                )
    assert values[-1] < values[0]


def scope_values(program):
    return [v for v in program.list_vars() if v.persistable]


@pytest.mark.usefixtures("static_mode")
def test_wrong_merges_are_refused():
    exe = static.Executor()
    teacher, startup, *_ = built(2, "image", 1)
    student, *_ = built(2, "x", 2)
    with static.scope_guard(static.Scope()):
        with pytest.raises(PreconditionNotMetError, match="in the teacher's scope"):
            merge(teacher, student, {"image": "x"})
        student, *_ = built(2, "x", 2)
        exe.run(startup)
        with pytest.raises(NotFoundError, match="without 'image'"):
            merge(teacher, student, {})
        merge(teacher, student, {}, merge_feed=False)
        assert "teacher_image" in student.data
        with pytest.raises(PreconditionNotMetError, match="not in use"):
            merge(teacher, student, {"image": "x"})


@pytest.mark.usefixtures("static_mode")
def test_a_teacher_with_sizes_that_only_runs_know_is_merged():
    teacher, startup = static.Program(), static.Program()
    with static.program_guard(teacher, startup):
        x = static.data("image", [None, 2, 3], "float32")
        y = proa.reshape(x, [x.shape[0] * 2, 3])
    student = static.Program()
    with static.program_guard(student):
        static.data("other", [None, 2, 3], "float32")
    exe = static.Executor()
    merge(teacher, student, {"image": "other"})
    for n in (3, 5):
        array = RNG.standard_normal((n, 2, 3)).astype(np.float32)
        (got,) = exe.run(student, {"other": array}, [f"teacher_{y.name}"])
        np.testing.assert_array_equal(got, array.reshape(-1, 3))
