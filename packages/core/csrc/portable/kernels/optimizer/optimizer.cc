// Optimizer steps: one pass over all arrays of a parameter, in at.
#include "proa/gen/attrs/optimizer.h"
#include "proa/base/task_size.h"
#include "proa/kernels/elementwise/functions.h"
#include "proa/kernels/movement/copy.h"

namespace proa::PROA_ISA {

namespace {

// Each step is written once for vectors V of floats or doubles. p: outputs, then inputs.
template <class V>
struct Sgd {
  static constexpr int kOut = 1, kIn = 2;
  V lr, decay;
  explicit Sgd(const SgdAttrs& a) : lr(constant<V>(a.lr)), decay(constant<V>(a.weight_decay)) {}
  PROA_INLINE void operator()(V* out, const V* in) const {
    const V param = in[0], grad = in[1];
    out[0] = param - lr * (grad + decay * param);
  }
};

template <class V>
struct SgdRows {
  static constexpr int kOut = 1, kIn = 2;
  V lr;
  explicit SgdRows(const SgdRowsAttrs& a) : lr(constant<V>(a.lr)) {}
  PROA_INLINE void operator()(V* out, const V* in) const { out[0] = in[0] - lr * in[1]; }
};

template <class V>
struct Momentum {
  static constexpr int kOut = 2, kIn = 3;
  V lr, mu, decay;
  bool nesterov;
  explicit Momentum(const MomentumAttrs& a)
      : lr(constant<V>(a.lr)),
        mu(constant<V>(a.mu)),
        decay(constant<V>(a.weight_decay)),
        nesterov(a.nesterov != 0) {}
  PROA_INLINE void operator()(V* out, const V* in) const {
    const V param = in[0], grad = in[1] + decay * param;
    const V velocity = mu * in[2] + grad;
    out[1] = velocity;
    out[0] = param - lr * (nesterov ? grad + mu * velocity : velocity);
  }
};

PROA_INLINE VD sqrt(VD x) {
  for (int i = 0; i < kLanesOf<double>; ++i) x[i] = ::sqrt(x[i]);
  return x;
}
PROA_INLINE VF sqrt(VF x) { return proa::PROA_ISA::sqrt(x); }

PROA_INLINE VD max(VD a, VD b) {
  for (int i = 0; i < kLanesOf<double>; ++i) a[i] = a[i] > b[i] ? a[i] : b[i];
  return a;
}
PROA_INLINE VF max(VF a, VF b) { return proa::PROA_ISA::max(a, b); }

template <class V>
struct Adam {
  static constexpr int kOut = 3, kIn = 4;
  V beta1, rest1, beta2, rest2, rate, epsilon, decay, shrink;
  explicit Adam(const AdamAttrs& a) {
    const double step = static_cast<double>(a.step);
    const double correction = ::sqrt(1 - ::pow(a.beta2, step));
    beta1 = constant<V>(a.beta1);
    rest1 = constant<V>(1 - a.beta1);
    beta2 = constant<V>(a.beta2);
    rest2 = constant<V>(1 - a.beta2);
    rate = constant<V>(a.lr * correction / (1 - ::pow(a.beta1, step)));
    epsilon = constant<V>(a.epsilon * correction);
    decay = constant<V>(a.decoupled != 0 ? 0 : a.weight_decay);
    shrink = constant<V>(a.decoupled != 0 ? 1 - a.lr * a.weight_decay : 1);
  }
  PROA_INLINE void operator()(V* out, const V* in) const {
    const V param = in[0] * shrink, grad = in[1] + decay * in[0];
    const V m = beta1 * in[2] + rest1 * grad;
    const V v = beta2 * in[3] + rest2 * (grad * grad);
    out[0] = param - rate * m / (sqrt(v) + epsilon);
    out[1] = m;
    out[2] = v;
  }
};

template <class V>
struct Adagrad {
  static constexpr int kOut = 2, kIn = 3;
  V lr, epsilon, decay;
  explicit Adagrad(const AdagradAttrs& a)
      : lr(constant<V>(a.lr)),
        epsilon(constant<V>(a.epsilon)),
        decay(constant<V>(a.weight_decay)) {}
  PROA_INLINE void operator()(V* out, const V* in) const {
    const V grad = in[1] + decay * in[0];
    out[1] = in[2] + grad * grad;
    out[0] = in[0] - lr * grad / (sqrt(out[1]) + epsilon);
  }
};

template <class V>
struct Adamax {
  static constexpr int kOut = 3, kIn = 4;
  V beta1, rest1, beta2, rate, epsilon, decay;
  explicit Adamax(const AdamaxAttrs& a)
      : beta1(constant<V>(a.beta1)),
        rest1(constant<V>(1 - a.beta1)),
        beta2(constant<V>(a.beta2)),
        rate(constant<V>(a.lr / (1 - ::pow(a.beta1, static_cast<double>(a.step))))),
        epsilon(constant<V>(a.epsilon)),
        decay(constant<V>(a.weight_decay)) {}
  PROA_INLINE void operator()(V* out, const V* in) const {
    const V grad = in[1] + decay * in[0];
    const V decayed = beta2 * in[3] + epsilon;
    out[1] = beta1 * in[2] + rest1 * grad;
    out[2] = max(max(grad, -grad), decayed);
    out[0] = in[0] - rate * out[1] / out[2];
  }
};

template <class V>
struct RmsProp {
  static constexpr int kOut = 4, kIn = 5;
  V lr, rho, rest, epsilon, momentum, decay;
  bool centered;
  explicit RmsProp(const RmspropAttrs& a)
      : lr(constant<V>(a.lr)),
        rho(constant<V>(a.rho)),
        rest(constant<V>(1 - a.rho)),
        epsilon(constant<V>(a.epsilon)),
        momentum(constant<V>(a.momentum)),
        decay(constant<V>(a.weight_decay)),
        centered(a.centered != 0) {}
  PROA_INLINE void operator()(V* out, const V* in) const {
    const V grad = in[1] + decay * in[0];
    const V square = rho * in[2] + rest * (grad * grad);
    const V mean = centered ? rho * in[4] + rest * grad : in[4];
    const V spread = centered ? square - mean * mean : square;
    const V velocity = momentum * in[3] + lr * grad / sqrt(spread + epsilon);
    out[0] = in[0] - velocity;
    out[1] = square;
    out[2] = velocity;
    out[3] = mean;
  }
};

template <class V>
struct Adadelta {
  static constexpr int kOut = 3, kIn = 4;
  V lr, rho, rest, epsilon, decay;
  explicit Adadelta(const AdadeltaAttrs& a)
      : lr(constant<V>(a.lr)),
        rho(constant<V>(a.rho)),
        rest(constant<V>(1 - a.rho)),
        epsilon(constant<V>(a.epsilon)),
        decay(constant<V>(a.weight_decay)) {}
  PROA_INLINE void operator()(V* out, const V* in) const {
    const V grad = in[1] + decay * in[0];
    const V square = rho * in[2] + rest * (grad * grad);
    const V change = grad * sqrt((in[3] + epsilon) / (square + epsilon));
    out[0] = in[0] - lr * change;
    out[1] = square;
    out[2] = rho * in[3] + rest * (change * change);
  }
};

// out[0] is the direction; its length is set by the caller, who knows both norms.
template <class V>
struct Lamb {
  static constexpr int kOut = 3, kIn = 5;
  V beta1, rest1, beta2, rest2, scale1, scale2, epsilon, decay;
  explicit Lamb(const LambAttrs& a) {
    const double step = static_cast<double>(a.step);
    beta1 = constant<V>(a.beta1);
    rest1 = constant<V>(1 - a.beta1);
    beta2 = constant<V>(a.beta2);
    rest2 = constant<V>(1 - a.beta2);
    scale1 = constant<V>(1 / (1 - ::pow(a.beta1, step)));
    scale2 = constant<V>(1 / (1 - ::pow(a.beta2, step)));
    epsilon = constant<V>(a.epsilon);
    decay = constant<V>(a.weight_decay);
  }
  PROA_INLINE void operator()(V* out, const V* in) const {
    const V m = beta1 * in[1] + rest1 * in[4];
    const V v = beta2 * in[2] + rest2 * (in[4] * in[4]);
    out[0] = scale1 * m / (sqrt(scale2 * v) + epsilon) + decay * in[3];
    out[1] = m;
    out[2] = v;
  }
};

template <class T, template <class> class Step, class Attrs>
void step_loop(void* const* p, int64_t n, const void* attrs) {
  using V = Vec<T>;
  using S = Step<V>;
  const S step(*static_cast<const Attrs*>(attrs));
  for (int64_t i = 0; i < n; i += kLanesOf<T>) {
    const int64_t m = n - i < kLanesOf<T> ? n - i : kLanesOf<T>;
    V in[S::kIn], out[S::kOut];
    for (int k = 0; k < S::kIn; ++k) {
      const T* x = static_cast<const T*>(p[S::kOut + k]) + i;
      in[k] = m == kLanesOf<T> ? load(x) : load_n(x, m);
    }
    step(out, in);
    for (int k = 0; k < S::kOut; ++k) {
      T* y = static_cast<T*>(p[k]) + i;
      if (m == kLanesOf<T>) {
        store(y, out[k]);
      } else {
        store_n(y, out[k], m);
      }
    }
  }
}

// Computes in double for double parameters, else in float: gradients and parameters may have 16
// bits.
template <template <class> class Step, class Attrs>
Status update(const Call& c) {
  const bool wide = c.in[0].dtype == DType::kF64;
  const DType t = wide ? DType::kF64 : DType::kF32;
  Operand operands[kMaxOperands];
  int n = 0;
  for (int i = 0; i < c.n_out; ++i) operands[n++] = {c.out[i], t};
  for (int i = 0; i < c.n_in; ++i) operands[n++] = {c.in[i], t};
  const DenseLoop loop = wide ? step_loop<double, Step, Attrs> : step_loop<float, Step, Attrs>;
  return run_loop(c, loop, operands, n, c.n_out, c.attrs);
}

/// Row i of an array.
View row_of(const View& x, int64_t i) {
  View row = x;
  row.data =
      static_cast<uint8_t*>(x.data) + i * x.stride[0] * static_cast<int64_t>(size_of(x.dtype));
  --row.rank;
  for (int d = 0; d < row.rank; ++d) {
    row.shape[d] = x.shape[d + 1];
    row.stride[d] = x.stride[d + 1];
  }
  return row;
}

/// Steps of a table's rows in [low, high), in the order of `rows`.
struct RowSteps {
  View table, rows, values;
  const void* attrs;
  int64_t width;
  bool dense;  // float rows, their elements side by side

  int64_t row(int64_t i) const {
    const int64_t at = i * rows.stride[0];
    const int64_t r =
        rows.dtype == DType::kI64 ? rows.as<const int64_t>()[at] : rows.as<const int32_t>()[at];
    return r < 0 ? r + table.shape[0] : r;
  }

  bool inside() const {
    for (int64_t i = 0; i < rows.shape[0]; ++i) {
      const int64_t r = row(i);
      if (r < 0 || r >= table.shape[0]) return false;
    }
    return true;
  }

  Status run(int64_t low, int64_t high) const {
    const SgdRows<VF> sgd(*static_cast<const SgdRowsAttrs*>(attrs));
    // A row is updated after the rows that follow it have been prefetched.
    constexpr int64_t kLooked = 256, kAhead = kTableRowsAhead;
    RowIndex met[kAhead + kLooked];
    int64_t waiting = 0;
    for (int64_t begin = 0; begin < rows.shape[0]; begin += kLooked) {
      const int64_t end = begin + kLooked < rows.shape[0] ? begin + kLooked : rows.shape[0];
      int64_t n = waiting;
      for (int64_t i = begin; i < end; ++i) {
        const int64_t r = row(i);
        met[n] = {r, i};
        n += (r >= low) & (r < high);
      }
      waiting = end < rows.shape[0] && n > kAhead ? kAhead : end < rows.shape[0] ? n : 0;
      for (int64_t k = 0; k < n - waiting; ++k) {
        if (!dense) {
          PROA_TRY(step(row_of(table, met[k].row), row_of(values, met[k].value)));
          continue;
        }
        if (k + kAhead < n) prefetch_row(met[k + kAhead].row);
        step_dense(sgd, met[k]);
      }
      for (int64_t k = 0; k < waiting; ++k) met[k] = met[n - waiting + k];
    }
    return Status::kOk;
  }

  struct RowIndex {
    int64_t row, value;
  };

  /// Prefetches what the hardware does not predict: where the row begins.
  void prefetch_row(int64_t r) const {
    constexpr int64_t kLine = 64 / sizeof(float), kMaxParts = 8 * kLine;
    const float* const p = table.as<float>() + r * table.stride[0];
    for (int64_t k = 0; k < width && k < kMaxParts; k += kLine) prefetch(p + k);
  }

  void step_dense(const SgdRows<VF>& sgd, const RowIndex& at) const {
    float* const p = table.as<float>() + at.row * table.stride[0];
    const float* const value = values.as<const float>() + at.value * values.stride[0];
    VF in[2] = {}, out[1];
    if (width == 1) {  // the rest of a vector may be in another page
      in[0][0] = *p;
      in[1][0] = *value;
      sgd(out, in);
      *p = out[0][0];
      return;
    }
    for (int64_t i = 0; i < width; i += kLanes) {
      const int64_t n = width - i < kLanes ? width - i : kLanes;
      in[0] = n == kLanes ? load(p + i) : load_n(p + i, n);
      in[1] = n == kLanes ? load(value + i) : load_n(value + i, n);
      sgd(out, in);
      n == kLanes ? store(p + i, out[0]) : store_n(p + i, out[0], n);
    }
  }

  /// The general form, in this thread: a row may occur again.
  Status step(const View& param, const View& grad) const {
    const bool wide = param.dtype == DType::kF64;
    const DType t = wide ? DType::kF64 : DType::kF32;
    const Operand operands[3] = {{param, t}, {param, t}, {grad, t}};
    const DenseLoop loop =
        wide ? step_loop<double, SgdRows, SgdRowsAttrs> : step_loop<float, SgdRows, SgdRowsAttrs>;
    return run_loop(Call(), loop, operands, 3, 1, attrs);
  }
};

bool has_float_rows(const View& x) {
  int64_t step = 1;
  for (int d = x.rank - 1; d > 0; --d) {
    if (x.shape[d] != 1 && x.stride[d] != step) return false;
    step *= x.shape[d];
  }
  return x.dtype == DType::kF32;
}

}  // namespace

Status sgd_rows_(const Call& c) {
  RowSteps steps{c.out[0], c.in[1], c.in[2], c.attrs, 1, false};
  steps.dense = has_float_rows(steps.table) && has_float_rows(steps.values);
  for (int d = 1; d < steps.table.rank; ++d) steps.width *= steps.table.shape[d];
  if (!steps.inside()) return Status::kOutOfRange;
  PROA_TRY(copy(c, c.in[0], c.out[0]));
  // Every part looks at all rows, so few rows have few parts.
  constexpr int64_t kMaxParts = 8;
  const int64_t height = steps.table.shape[0], work = steps.width * c.in[1].shape[0];
  if (work < kReduceTask) return steps.run(0, height);
  const int64_t parts = work < 32 * kReduceTask ? 2 : kMaxParts;
  Status status[kMaxParts] = {};
  parallel_for(c, parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      status[p] = steps.run(height * p / parts, height * (p + 1) / parts);
    }
  });
  for (const Status s : status) PROA_TRY(s);
  return Status::kOk;
}
Status sgd_(const Call& c) { return update<Sgd, SgdAttrs>(c); }
Status momentum_(const Call& c) { return update<Momentum, MomentumAttrs>(c); }
Status adam_(const Call& c) { return update<Adam, AdamAttrs>(c); }
Status adagrad_(const Call& c) { return update<Adagrad, AdagradAttrs>(c); }
Status adamax_(const Call& c) { return update<Adamax, AdamaxAttrs>(c); }
Status rmsprop_(const Call& c) { return update<RmsProp, RmspropAttrs>(c); }
Status adadelta_(const Call& c) { return update<Adadelta, AdadeltaAttrs>(c); }
Status lamb_(const Call& c) { return update<Lamb, LambAttrs>(c); }

}  // namespace proa::PROA_ISA
