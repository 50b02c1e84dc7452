"""Products of bfloat16 by pairs of steps, as AVX512_BF16 and AMX compute them.

The tests hold whether products are widened, dots or tiles of the CPU, or emulated; the
last one runs them all again with the emulations.
"""

import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import proa
from proa.nn import functional as F

from ..threads import results_by_threads

RNG = np.random.default_rng(11)
MODE = os.environ.get("PROA_BF16", "")
CPU = Path("/proc/cpuinfo")
FLAGS = CPU.read_text() if CPU.exists() else ""
AVX512 = "avx512f" in FLAGS and os.environ.get("PROA_ISA", "avx512") == "avx512"
NATIVE = MODE != "off" and "avx512_bf16" in FLAGS
DOTS = AVX512 and (NATIVE or MODE == "emulate")
TILES = DOTS and proa._core.build_info()["amx"] != "off"
SUBNORMAL = 2.0**-130


def bf16(array):
    """A bfloat16 tensor and its values in float64."""
    narrow = proa.to_tensor(np.asarray(array, "float32")).astype("bfloat16")
    return narrow, narrow.astype("float64").numpy()


def drawn(*shape):
    return bf16(RNG.standard_normal(shape))


def values(x):
    return x.astype("float64").numpy()


def run(*command, **settings):
    return subprocess.run(
        [sys.executable, *command],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("setting", ["PROA_BF16", "PROA_AMX"])
def test_an_unknown_setting_is_refused(setting):
    done = run("-c", "import proa", **{setting: "always"})
    assert done.returncode != 0
    assert re.search(
        rf"\[{setting}\] expected off, emulate, or native.*always", done.stderr
    )


def windows_of(x, kernel, stride, padding, dilation):
    """(n, c, i, j, p, q) of a float64 image with its border."""
    edge = [(0, 0), (0, 0), (padding, padding), (padding, padding)]
    reach = (kernel - 1) * dilation + 1
    view = np.lib.stride_tricks.sliding_window_view(
        np.pad(x, edge), (reach, reach), axis=(2, 3)
    )
    return view[:, :, ::stride, ::stride, ::dilation, ::dilation]


# batch, channels, outs, edge, kernel, stride, padding, dilation, groups
CONVOLUTIONS = [
    (2, 3, 20, 17, 7, 2, 3, 1, 1),
    (1, 5, 33, 9, 3, 1, 1, 1, 1),
    (3, 16, 40, 8, 1, 1, 0, 1, 1),
    (2, 17, 8, 6, 1, 2, 0, 1, 1),
    (2, 24, 24, 10, 3, 2, 1, 1, 2),
    (2, 9, 6, 7, 3, 1, 1, 1, 3),
    (1, 64, 48, 9, 3, 1, 2, 2, 1),
    (1, 300, 310, 5, 3, 2, 1, 1, 1),
    (1, 301, 310, 5, 3, 2, 1, 1, 1),
    (1, 1024, 16, 4, 1, 1, 0, 1, 1),
    (2, 37, 40, 13, 3, 1, 1, 1, 1),
    (1, 256, 256, 14, 3, 1, 1, 1, 1),
]


def expected(x, w, shape):
    """A convolution and the sums of magnitudes, in float64."""
    _, _, _, _, kernel, stride, padding, dilation, groups = shape
    results = []
    for a, b in ((x, w), (np.abs(x), np.abs(w))):
        parts = [
            np.einsum(
                "ncijpq,ocpq->noij",
                windows_of(u, kernel, stride, padding, dilation),
                v,
                optimize=True,
            )
            for u, v in zip(np.split(a, groups, 1), np.split(b, groups, 0), strict=True)
        ]
        results.append(np.concatenate(parts, 1))
    return results


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("shape", CONVOLUTIONS)
def test_convolutions_are_within_the_bound(shape, last):
    n, channels, outs, edge, kernel, stride, padding, dilation, groups = shape
    x, x_wide = drawn(n, channels, edge, edge)
    w, w_wide = drawn(outs, channels // groups, kernel, kernel)
    bias, b_wide = drawn(outs)
    if last:  # channels are neighbours in memory
        x = bf16(x_wide.transpose(0, 2, 3, 1))[0].transpose([0, 3, 1, 2])
    x.stop_gradient = w.stop_gradient = False
    y = F.conv2d(x, w, bias, stride, padding, dilation, groups)
    want, size = expected(x_wide, w_wide, shape)
    want = want + b_wide[:, None, None]
    steps = channels // groups * kernel**2 + 2
    bound = steps * 2.0**-24 * size + 2.0**-8 * np.abs(want)
    assert (np.abs(values(y) - want) <= bound).all()
    # The gradients: sum(y * dy) is linear in x and in w.
    dy, dy_wide = drawn(*y.shape)
    for got, wide in zip(proa.grad([y], [x, w], [dy]), (x_wide, w_wide), strict=True):
        other, _ = drawn(*wide.shape)
        moved = (values(other), w_wide) if wide is x_wide else (x_wide, values(other))
        products = expected(*moved, shape)
        change = float((products[0] * dy_wide).sum())
        tolerance = float((products[1] * np.abs(dy_wide)).sum())
        assert (
            abs(float((values(got) * values(other)).sum()) - change)
            <= 2.0**-8 * tolerance
        )


def test_a_batch_is_the_same_as_its_parts_for_any_threads():
    x, _ = drawn(9, 30, 11, 11)
    w, _ = drawn(50, 30, 3, 3)
    dense, _ = drawn(30 * 121, 70)

    def compute():
        whole = values(F.conv2d(x, w, stride=2))
        for i in (0, 4, 8):
            part = values(F.conv2d(x[i : i + 1], w, stride=2))
            np.testing.assert_array_equal(part, whole[i : i + 1])
        return whole, values(proa.matmul(x.reshape([9, -1]), dense))

    for one, other in zip(*results_by_threads(compute, (1, 3)), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("steps", [2, 7, 64, 801, 1999])
@pytest.mark.parametrize("columns", [5, 40, 1100])
def test_a_few_rows_are_the_same_as_those_of_many(steps, columns):
    x, y = drawn(40, steps)[1], drawn(steps, columns)[1]
    x[:, ::9] *= 2.0**-120  # some products, and sums of them, are subnormal
    y[::9] *= 2.0**-8
    x[:3, 1:] = 0
    bias, _ = drawn(columns)
    by_rows, transposed = bf16(y)[0], bf16(y.T)[0].t()
    many = values(F.linear(bf16(x)[0], by_rows, bias))
    plain = values(proa.matmul(bf16(x)[0], by_rows))
    for rows in (1, 2, 3, 5, 8, 16):
        few, _ = bf16(x[:rows])
        for b in (by_rows, transposed):
            np.testing.assert_array_equal(values(proa.matmul(few, b)), plain[:rows])
            np.testing.assert_array_equal(values(F.linear(few, b, bias)), many[:rows])


@pytest.mark.parametrize("steps", [1, 2, 7, 64, 801])
def test_what_is_not_finite_stays_where_it_belongs(steps):
    x = RNG.standard_normal((5, steps))
    y = RNG.standard_normal((steps, 40))
    x[1, -1], x[2, 0], y[-1, 3] = np.inf, np.nan, -np.inf
    (a, x), (b, y) = bf16(x), bf16(y)
    with np.errstate(invalid="ignore"):
        want = x @ y
    for left, right in ((a, b), (bf16(x.T)[0].t(), b), (a, bf16(y.T)[0].t())):
        got = values(proa.matmul(left, right))
        np.testing.assert_array_equal(np.isfinite(got), np.isfinite(want))
        np.testing.assert_array_equal(np.isnan(got), np.isnan(want))


def test_neighbours_of_odd_channels_do_not_leak():
    # Pixels are adjacent: the next pixel's first channel follows the last one.
    x = RNG.standard_normal((1, 6, 6, 3)).astype("float32")
    x[0, 3, 3, 0] = np.nan
    image = bf16(x)[0].transpose([0, 3, 1, 2])
    w, _ = drawn(16, 3, 1, 1)
    got = values(F.conv2d(image, w))
    assert np.isnan(got[0, :, 3, 3]).all() and np.isnan(got).sum() == 16


def rounded(x):
    return np.float64(np.float32(x))


def by_pairs(x, y):
    """The sum of products as the instruction is defined; fused steps are exact here."""
    total = 0.0
    for i in range(0, len(x), 2):
        total = rounded(total + x[i + 1] * y[i + 1])
        total = rounded(total + x[i] * y[i])
    return total


def by_tiles(x, y):
    """The same of AMX: a register holds 16 pairs, which are summed from 0."""
    lower = upper = 0.0
    for i in range(0, len(x), 2):
        lower = rounded(lower + x[i] * y[i])
        upper = rounded(upper + x[i + 1] * y[i + 1])
    return rounded(lower + upper)


@pytest.mark.skipif(not DOTS, reason="widened products add in another order")
def test_sums_round_as_the_instruction_does():
    # Taking off its upper bits in the end leaves the lowest, which a result can hold.
    revealed = []
    count, sum_of, gap = (32, by_tiles, np.zeros(31)) if TILES else (14, by_pairs, [])
    for _ in range(40):
        (_, x), (_, y) = drawn(count), drawn(count)
        total = sum_of(x, y)
        high = bf16(total)[1]
        middle = bf16(total - high)[1]
        low = total - high - middle
        left = np.concatenate([x, [-middle], gap, [-high], gap])
        right = np.concatenate([y, [1], gap, [1], gap])
        got = values(proa.matmul(bf16(left[None])[0], bf16(right[:, None])[0]))
        assert got[0, 0] == low
        revealed.append(low)
    assert np.count_nonzero(revealed) > 10


@pytest.mark.skipif(not DOTS, reason="what is widened keeps subnormal numbers")
def test_subnormal_numbers_count_as_zero():
    one, tiny, smallest_normal = (
        bf16([[1.0]])[0],
        bf16([[SUBNORMAL]])[0],
        bf16([[2.0**-126]])[0],
    )
    half = bf16([[0.5]])[0]
    assert values(tiny)[0, 0] == SUBNORMAL
    assert values(proa.matmul(tiny, one))[0, 0] == 0  # taken
    assert values(proa.matmul(one, tiny))[0, 0] == 0
    assert values(proa.matmul(smallest_normal, half))[0, 0] == 0  # and given
    assert values(proa.matmul(smallest_normal, one))[0, 0] == 2.0**-126


def test_recorded_and_eager_have_the_same_bits_and_learn():
    proa.seed(1)
    net = proa.nn.Sequential(
        proa.nn.Conv2D(3, 24, 3, stride=2),
        proa.nn.ReLU(),
        proa.nn.Flatten(),
        proa.nn.Linear(24 * 9, 4),
    )
    optimizer = proa.optimizer.Adam(1e-2, parameters=net.parameters())
    x = proa.to_tensor(RNG.standard_normal((16, 3, 8, 8)).astype("float32"))
    label = proa.to_tensor(RNG.integers(0, 4, 16))
    losses = []
    for _ in range(15):
        with proa.amp.auto_cast(dtype="bfloat16"):
            loss = F.cross_entropy(net(x).astype("float32"), label)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        losses.append(float(loss))
    assert losses[-1] < losses[0] / 3
    net.to(dtype="bfloat16")
    net.eval()
    narrow = x.astype("bfloat16")
    recorded = proa.jit.to_static(net)
    np.testing.assert_array_equal(values(recorded(narrow)), values(net(narrow)))


@pytest.mark.skipif(platform.machine() != "x86_64", reason="x86's instruction")
def test_the_instruction_is_in_the_library():
    if "avx512" not in proa._core.build_info()["built_isas"]:
        pytest.skip("a build without AVX-512")
    (library,) = (Path(proa.__file__).parent / "lib").glob("libproa_runtime.so*")
    # vdpbf16ps zmm, zmm, zmm: EVEX.512.F3.0F38.W0 52
    code = re.findall(rb"\x62..[\x40-\x5f]\x52", library.read_bytes(), re.DOTALL)
    dots = [at for at in code if at[1] & 7 == 2 and at[2] & 0x87 == 6]
    assert len(dots) > 300


@pytest.mark.skipif(
    bool(MODE) or "PROA_AMX" in os.environ, reason="this is the run with a setting"
)
@pytest.mark.parametrize("amx", ["off", "emulate"])
def test_all_of_it_with_the_emulation(amx):
    here = Path(__file__)
    others = [here.with_name(f"test_{n}.py") for n in ("gemm", "bf16_attention")]
    tests = map(str, [here, *others])
    done = run(
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        *tests,
        "-k",
        "not threads_change and (bf16 or bfloat16)",
        PROA_BF16="emulate",
        PROA_AMX=amx,
    )
    assert done.returncode == 0, done.stdout[-3000:]
