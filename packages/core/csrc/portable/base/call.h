#pragma once
// The one calling convention of kernels and shape rules: arrays in, arrays out, a plain attribute
// struct.
#include "proa/base/failure.h"
#include "proa/base/status.h"
#include "proa/base/view.h"

namespace proa {

/// A list attribute of at most kMaxRank integers. `count == -1` means None.
struct Ints {
  int64_t count = 0;
  int64_t v[kMaxRank] = {};
  PROA_INLINE int64_t operator[](int i) const { return v[i]; }
};

/// A number and whether it is an integer, so that int64 is exact.
struct Scalar {
  int64_t is_int = 0;
  union {
    int64_t i;
    double f;
  };
  PROA_INLINE double to_double() const { return is_int ? static_cast<double>(i) : f; }
  PROA_INLINE int64_t to_int() const { return is_int ? i : static_cast<int64_t>(f); }
};

/// Runs body(arg, begin, end) over chunks that cover [0, n), each of at least `grain` but the last.
/// The chunks depend on n and grain alone, never on the number of threads.
struct Parallel {
  using Body = void (*)(void* arg, int64_t begin, int64_t end);
  void (*run)(void* pool, int64_t n, int64_t grain, Body body, void* arg) = nullptr;
  void* pool = nullptr;
};

/// How a convolution is computed where several paths apply; another kernel ignores it. Packed
/// weights and the last bits of results depend on it.
enum class Strategy : uint8_t {
  kByRule,  // by the shape of the weights
  kWinograd,
  kImplicitGemm,
  kIm2col,
};
constexpr int kStrategies = 4;

/// One invocation of an op. The caller has checked shapes and owns all memory.
struct Call {
  const View* in = nullptr;
  View* out = nullptr;
  int n_in = 0;
  int n_out = 0;
  const void* attrs = nullptr;   // the op's generated struct (proa/gen/attrs)
  void* scratch = nullptr;       // as many bytes as the op's scratch function returned, 64-aligned
  const void* packed = nullptr;  // the op's prepacked constant input, or nullptr
  Strategy strategy = Strategy::kByRule;
  /// Where the shape rule of a view op stores how many elements the output starts after in[0], if
  /// that is not 0. nullptr: nobody reads it.
  int64_t* view_offset = nullptr;
  Failure* failure = nullptr;          // what a refused call did not meet; nullptr: nobody reads it
  const Parallel* parallel = nullptr;  // nullptr: run on the calling thread

  template <class A>
  PROA_INLINE const A& attr() const {
    return *static_cast<const A*>(attrs);
  }
};

using Kernel = Status (*)(const Call&);
/// Fills rank and shape (dtype is set by the caller from the row) of every output. Dimensions may
/// be kUnknown. For a view op it also sets `stride` and *view_offset, or returns kNotAView; `data`
/// follows from these, see infer().
using ShapeRule = Status (*)(const Call&);
/// Bytes of scratch, or of a prepacked input, that a kernel needs for these shapes.
using SizeRule = size_t (*)(const Call&);
/// Writes the prepacked form of the op's constant input to `packed` (64-aligned).
using Pack = Status (*)(const Call&, void* packed);

/// Calls body(begin, end) over [0, n) in chunks of about `grain`, on the call's pool if it has one.
template <class F>
PROA_INLINE void parallel_for(const Call& call, int64_t n, int64_t grain, F&& body) {
  if (n <= 0) return;
  if (call.parallel == nullptr || n <= grain) {
    for (int64_t b = 0; b < n; b += grain) body(b, b + grain < n ? b + grain : n);
    return;
  }
  auto thunk = [](void* arg, int64_t b, int64_t e) { (*static_cast<F*>(arg))(b, e); };
  call.parallel->run(call.parallel->pool, n, grain, thunk, &body);
}

}  // namespace proa
