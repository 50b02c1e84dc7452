// Discrete Fourier transforms of any length along one axis, in double. A length with small prime
// factors takes Stockham's self-sorting passes (Swarztrauber, 1984); another one is a convolution
// with a chirp, computed by transforms of a power of two (Bluestein, 1970).
#include "proa/gen/attrs/fft.h"
#include "proa/kernels/linalg/dense.h"
#include "proa/kernels/movement/copy.h"
#include "proa/kernels/reduce/reducer.h"

namespace proa::PROA_ISA {

namespace {

constexpr int64_t kLargestPrime = 13;
constexpr double kTwoPi = 6.283185307179586;

struct Factors {
  int64_t of[64];
  int count = 0;
  bool small = true;  // no prime factor beyond kLargestPrime
  explicit Factors(int64_t n) {
    while (n % 4 == 0) take(4, &n);
    for (int64_t p = 2; p <= kLargestPrime && n > 1; ++p) {
      while (n % p == 0) take(p, &n);
    }
    small = n <= 1;
  }
  void take(int64_t p, int64_t* n) {
    of[count++] = p;
    *n /= p;
  }
};

/// What a length needs: tables made once a call, then a work space for each slot.
struct Layout {
  int64_t n, inner;  // inner: the length of the passes, n itself or a power of two
  bool chirp;
  explicit Layout(int64_t n_) : n(n_), inner(n_), chirp(!Factors(n_).small) {
    if (!chirp) return;
    inner = 1;
    while (inner < 2 * n - 1) inner *= 2;
  }
  int64_t tables() const { return inner + (chirp ? n + inner : 0); }
  int64_t work() const { return 2 * inner; }
};

C128 root(int64_t k, int64_t n) {
  const double angle = kTwoPi * static_cast<double>(k) / static_cast<double>(n);
  return {::cos(angle), -::sin(angle)};
}

void butterfly2(const C128* a, C128* b) {
  b[0] = a[0] + a[1];
  b[1] = a[0] - a[1];
}
void butterfly4(const C128* a, C128* b) {
  const C128 s = a[0] + a[2], d = a[0] - a[2], t = a[1] + a[3], e = a[1] - a[3];
  const C128 rotated = {e.im, -e.re};  // -i e
  b[0] = s + t;
  b[1] = d + rotated;
  b[2] = s - t;
  b[3] = d - rotated;
}
void butterfly(const C128* a, C128* b, int64_t p, const C128* roots, int64_t n) {
  const int64_t step = n / p;
  for (int64_t t = 0; t < p; ++t) {
    C128 total = a[0];
    for (int64_t k = 1; k < p; ++k) total += a[k] * roots[k * t % p * step];
    b[t] = total;
  }
}

/// Transforms x of n numbers, with y as scratch; returns the one that holds the result.
C128* transform(C128* x, C128* y, int64_t n, const Factors& factors, const C128* roots) {
  int64_t left = n, s = 1;
  for (int f = 0; f < factors.count; ++f) {
    const int64_t p = factors.of[f], m = left / p;
    for (int64_t j = 0; j < m; ++j) {
      C128 twiddle[kLargestPrime + 1];
      for (int64_t t = 1; t < p; ++t) twiddle[t] = roots[j * t * s];
      const C128* from = x + s * j;
      C128* to = y + s * p * j;
      for (int64_t q = 0; q < s; ++q) {
        C128 a[kLargestPrime + 1], b[kLargestPrime + 1] = {};
        for (int64_t k = 0; k < p; ++k) a[k] = from[q + s * m * k];
        if (p == 4) {
          butterfly4(a, b);
        } else if (p == 2) {
          butterfly2(a, b);
        } else {
          butterfly(a, b, p, roots, n);
        }
        to[q] = b[0];
        for (int64_t t = 1; t < p; ++t) to[q + s * t] = b[t] * twiddle[t];
      }
    }
    C128* held = x;
    x = y;
    y = held;
    left = m;
    s *= p;
  }
  return x;
}

struct Tables {
  C128 *roots, *chirp, *filter;
  Tables(C128* memory, const Layout& l)
      : roots(memory), chirp(memory + l.inner), filter(memory + l.inner + l.n) {}
};

/// `work` has room for l.inner numbers.
void make_tables(const Layout& l, const Factors& factors, Tables t, C128* work) {
  for (int64_t k = 0; k < l.inner; ++k) t.roots[k] = root(k, l.inner);
  if (!l.chirp) return;
  int64_t square = 0;  // k * k modulo 2 n
  for (int64_t k = 0; k < l.n; ++k) {
    t.chirp[k] = root(square, 2 * l.n);
    square = (square + 2 * k + 1) % (2 * l.n);
  }
  fill(t.filter, l.inner, 0);
  for (int64_t k = 0; k < l.n; ++k) {
    t.filter[k] = conj_of(t.chirp[k]);
    if (k > 0) t.filter[l.inner - k] = t.filter[k];
  }
  const C128* done = transform(t.filter, work, l.inner, factors, t.roots);
  if (done != t.filter) __builtin_memcpy(t.filter, done, sizeof(C128) * (size_t)l.inner);
}

/// The transform of the n numbers in x; y has room for l.inner, as has x.
C128* run_line(const Layout& l, const Factors& factors, const Tables& t, C128* x, C128* y) {
  if (!l.chirp) return transform(x, y, l.n, factors, t.roots);
  for (int64_t k = 0; k < l.n; ++k) x[k] *= t.chirp[k];
  fill(x + l.n, l.inner - l.n, 0);
  C128* z = transform(x, y, l.inner, factors, t.roots);
  C128* other = z == x ? y : x;
  // Conjugated before and after, this is the inverse transform.
  for (int64_t k = 0; k < l.inner; ++k) z[k] = conj_of(z[k] * t.filter[k]);
  C128* back = transform(z, other, l.inner, factors, t.roots);
  const double share = 1.0 / static_cast<double>(l.inner);
  for (int64_t k = 0; k < l.n; ++k) back[k] = scaled(conj_of(back[k]), share) * t.chirp[k];
  return back;
}

int64_t length_of(const Call& c) {
  const View& x = c.in[0];
  return x.shape[normalize_axis(c.attr<FftAttrs>().axis, x.rank)];
}
int64_t coalesce_axes(const Call& c) {
  const int64_t n = length_of(c);
  return n > 0 ? c.in[0].numel() / n : 0;
}

}  // namespace

size_t fft_scratch(const Call& c) {
  if (c.in[0].rank == 0 || coalesce_axes(c) == 0) return 0;
  const Layout l(length_of(c));
  return static_cast<size_t>(l.tables() + l.work() * slots_of(coalesce_axes(c))) * sizeof(C128);
}
Status fft(const Call& c) {
  const View &x = c.in[0], &y = c.out[0];
  if (x.rank == 0) return copy(c, x, y);
  const auto& attrs = c.attr<FftAttrs>();
  const int axis = normalize_axis(attrs.axis, x.rank);
  const int64_t n = length_of(c), count = coalesce_axes(c), slots = slots_of(count);
  if (count == 0) return Status::kOk;
  const Layout l(n);
  const Factors factors(l.inner);
  C128* memory = static_cast<C128*>(c.scratch);
  const Tables tables(memory, l);
  C128* work = memory + l.tables();
  make_tables(l, factors, tables, work);
  const bool back = attrs.inverse != 0;
  const double size = static_cast<double>(n);
  const double scale = attrs.norm == 0 ? 1 : attrs.norm == 1 ? 1 / ::sqrt(size) : 1 / size;
  const Split lines = split_axes(x, 1u << axis, y);
  parallel_for(c, slots, 1, [&](int64_t begin, int64_t end) {
    for (int64_t slot = begin; slot < end; ++slot) {
      C128 *a = work + slot * l.work(), *b = a + l.inner;
      for (int64_t i = count * slot / slots; i < count * (slot + 1) / slots; ++i) {
        Cursor at;
        at.seek(lines.parallel, i);
        read(x, at.offset[0], n, x.stride[axis], 1, 0, a);
        if (back) {
          for (int64_t k = 0; k < n; ++k) a[k] = conj_of(a[k]);
        }
        C128* done = run_line(l, factors, tables, a, b);
        for (int64_t k = 0; k < n; ++k) {
          done[k] = scaled(back ? conj_of(done[k]) : done[k], scale);
        }
        write(done, y, at.offset[1], n, y.stride[axis], 1, 0);
      }
    }
  });
  return Status::kOk;
}

}  // namespace proa::PROA_ISA
