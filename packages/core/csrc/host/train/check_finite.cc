// The search for NaN and infinity in results: a scan without branches that stops at the first block
// with one; only then are elements counted.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <mutex>

#include "proa/base/half.h"
#include "proa/base/task_size.h"
#include "proa/runtime/error.h"
#include "proa/runtime/pool.h"
#include "proa/shapes/layout.h"
#include "proa/train/dispatch.h"
#include "proa/train/watch.h"

namespace proa {

std::atomic<uint32_t> watch_flags{0};

void set_watch(Watch what, bool on) {
  if (on) {
    watch_flags.fetch_or(what);
  } else {
    watch_flags.fetch_and(~static_cast<uint32_t>(what));
  }
}

namespace {

std::atomic<int64_t> g_searched{0};

thread_local int t_unchecked = 0;
thread_local int t_backward = 0;

std::mutex g_mutex;
std::shared_ptr<const FiniteCheck> g_check;  // made at its first use

std::shared_ptr<const FiniteCheck> settings() {
  const std::lock_guard<std::mutex> lock(g_mutex);
  if (g_check == nullptr) g_check = std::make_shared<FiniteCheck>();
  return g_check;
}

constexpr int64_t kBlock = 2048;  // elements between two tests for an early exit

// An exponent of all ones, plus the exponent's lowest bit, carries into the sign.
template <class Bits, int kMantissa>
bool block_finite(const Bits* x, int64_t n) {
  constexpr Bits kLow = Bits{1} << kMantissa;
  constexpr Bits kSign = Bits{1} << (sizeof(Bits) * 8 - 1);
  constexpr Bits kExponent = static_cast<Bits>(kSign - kLow);
  Bits seen = 0;
  if (n == kBlock) {
    for (int64_t i = 0; i < kBlock; ++i) {
      seen = static_cast<Bits>(seen | static_cast<Bits>((x[i] & kExponent) + kLow));
    }
  } else {
    for (int64_t i = 0; i < n; ++i) {
      seen = static_cast<Bits>(seen | static_cast<Bits>((x[i] & kExponent) + kLow));
    }
  }
  return (seen & kSign) == 0;
}

template <class Bits, int kMantissa>
bool all_finite(const void* data, int64_t n) {
  const auto* x = static_cast<const Bits*>(data);
  const auto scan = [x](int64_t from, int64_t to) {
    for (int64_t i = from; i < to; i += kBlock) {
      if (!block_finite<Bits, kMantissa>(x + i, std::min(kBlock, to - i))) return false;
    }
    return true;
  };
  if (n <= kReduceTask) return scan(0, n);
  std::atomic<bool> found{false};
  Call call;
  call.parallel = ThreadPool::global().parallel();
  parallel_for(call, n, kReduceTask, [&](int64_t from, int64_t to) {
    if (!found.load(std::memory_order_relaxed) && !scan(from, to)) found.store(true);
  });
  return !found.load();
}

bool dense_finite(const void* data, int64_t n, DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return all_finite<uint16_t, 10>(data, n);
    case DType::kBF16:
      return all_finite<uint16_t, 7>(data, n);
    case DType::kF32:
      return all_finite<uint32_t, 23>(data, n);
    case DType::kC64:
      return all_finite<uint32_t, 23>(data, 2 * n);
    case DType::kF64:
      return all_finite<uint64_t, 52>(data, n);
    case DType::kC128:
      return all_finite<uint64_t, 52>(data, 2 * n);
    default:
      return true;
  }
}

struct Counts {
  int64_t nan = 0, inf = 0, normal = 0;
  double minimum = std::numeric_limits<double>::infinity(), maximum = -minimum, sum = 0;

  void add(double value) {
    if (std::isnan(value)) {
      ++nan;
    } else if (std::isinf(value)) {
      ++inf;
    } else {
      ++normal;
      sum += value;
      minimum = std::min(minimum, value);
      maximum = std::max(maximum, value);
    }
  }
  void add(double re, double im) {
    const bool bad = !std::isfinite(re) || !std::isfinite(im);
    add(bad ? (std::isnan(re) || std::isnan(im) ? std::nan("") : INFINITY) : std::hypot(re, im));
  }
};

void count_one(const View& v, int64_t at, Counts* c) {
  switch (v.dtype) {
    case DType::kF16:
      return c->add(static_cast<float>(v.as<const F16>()[at]));
    case DType::kBF16:
      return c->add(static_cast<float>(v.as<const BF16>()[at]));
    case DType::kF32:
      return c->add(v.as<const float>()[at]);
    case DType::kF64:
      return c->add(v.as<const double>()[at]);
    case DType::kC64:
      return c->add(v.as<const C64>()[at].re, v.as<const C64>()[at].im);
    case DType::kC128:
      return c->add(v.as<const C128>()[at].re, v.as<const C128>()[at].im);
    default:
      return;
  }
}

Counts count_all(const View& v) {
  Counts counts;
  int64_t index[kMaxRank] = {};
  const int64_t n = v.numel();
  int64_t at = 0;
  for (int64_t i = 0; i < n; ++i) {
    count_one(v, at, &counts);
    for (int axis = v.rank - 1; axis >= 0; --axis) {
      at += v.stride[axis];
      if (++index[axis] < v.shape[axis]) break;
      at -= v.stride[axis] * v.shape[axis];
      index[axis] = 0;
    }
  }
  return counts;
}

bool floating(DType dtype) { return is_floating(dtype) || is_complex(dtype); }

bool view_finite(const View& v) {
  if (!floating(v.dtype) || v.data == nullptr) return true;
  g_searched.fetch_add(v.numel(), std::memory_order_relaxed);
  if (is_dense(v)) return dense_finite(v.data, v.numel(), v.dtype);
  const Counts counts = count_all(v);
  return counts.nan + counts.inf == 0;
}

bool skips(const FiniteCheck& check, const OpInfo& op) {
  if (t_unchecked > 0) return true;
  // Filled with a requested value, or not filled at all.
  const uint32_t arrays = op.n_in == kVariadic ? 1u : (1u << op.n_in) - 1;
  if ((op.shape_only & arrays) == arrays) return true;
  if (op.mutates ? check.skip_updates : t_backward > 0 ? check.skip_backward : check.skip_forward) {
    return true;
  }
  return op.id < check.skip_ops.size() && check.skip_ops[op.id] != 0;
}

std::string number_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

std::string report(const OpInfo& op, const View& v, int i, const Tensor* out) {
  const Counts c = count_all(v);
  std::string name = std::string(op.name) + "." + output_name(op, i);
  if (out != nullptr && *out && (*out)->extras != nullptr && !(*out)->extras->name.empty()) {
    name += " (" + (*out)->extras->name + ")";
  }
  std::string text = std::string("[") + op.name + "] results must be finite, got " +
                     std::to_string(c.nan) + " NaN and " + std::to_string(c.inf) +
                     " infinite among " + std::to_string(v.numel()) + " elements of output " +
                     name + ", " + name_of(v.dtype) + " of shape " + shape_text(v);
  if (c.normal > 0) {
    text += "; the other " + std::to_string(c.normal) + " are in [" + number_text(c.minimum) +
            ", " + number_text(c.maximum) + "], their mean is " +
            number_text(c.sum / static_cast<double>(c.normal));
  }
  return text + (t_backward > 0 ? " (in a backward pass)" : "");
}

}  // namespace

void set_finite_check(bool on, FiniteCheck check) {
  {
    const std::lock_guard<std::mutex> lock(g_mutex);
    g_check = std::make_shared<FiniteCheck>(std::move(check));
  }
  set_watch(kWatchFinite, on);
}

int64_t searched_elements() { return g_searched.load(std::memory_order_relaxed); }

void check_finite(const OpInfo& op, const Call& call, const Tensor* out) {
  const auto check = settings();
  if (skips(*check, op)) return;
  for (int i = 0; i < call.n_out; ++i) {
    if (view_finite(call.out[i])) continue;
    const auto number = static_cast<uint32_t>(op.id) * kMaxOutputs + static_cast<uint32_t>(i);
    if (std::binary_search(check->skip_outputs.begin(), check->skip_outputs.end(), number)) {
      continue;
    }
    const std::string text = report(op, call.out[i], i, out == nullptr ? nullptr : &out[i]);
    if (!check->warn) throw Error(ErrorKind::kPreconditionNotMet, text);
    std::fprintf(stderr, "Warning: %s\n", text.c_str());
  }
}

Unchecked::Unchecked(bool wanted) : on(wanted) {
  if (on) ++t_unchecked;
}
Unchecked::~Unchecked() {
  if (on) --t_unchecked;
}
bool Unchecked::here() { return t_unchecked > 0; }
void Unchecked::add(int by) { t_unchecked += by; }

BackwardScope::BackwardScope() { ++t_backward; }
BackwardScope::~BackwardScope() { --t_backward; }

}  // namespace proa
