#pragma once
// The one driver of elementwise ops. An op has, for each type it computes in, a loop over
// dense elements; the driver brings everything into that form: it iterates strided and broadcast
// arrays, splits the work over threads, and gathers, converts and scatters in blocks that stay in
// L1. 16-bit floats are computed in float, small integers and bool in int32, complex in double: all
// of it exact in the narrow type, and one loop less per type.
#include "proa/kernels/elementwise/convert.h"
#include "proa/kernels/elementwise/nest.h"
#include "proa/simd/vec.h"

namespace proa::PROA_ISA {

/// p[0] .. are the outputs, then the inputs: n dense elements each. An output may be an input.
using DenseLoop = void (*)(void* const* p, int64_t n, const void* attrs);

/// An op's loops; null where the type is not computed in (float may then be computed in double,
/// int32 in int64), or not in this build.
struct Loops {
  DenseLoop f32, f64, i32, i64, c128;
  DenseLoop bf16 = nullptr;  // of BF16 as it is, without a copy in float
  DType c128_out;            // what the complex loop writes
  bool bool_out = false;     // the loops write uint8_t 0 or 1

  constexpr Loops(DenseLoop f32_, DenseLoop f64_ = nullptr, DenseLoop i32_ = nullptr,
                  DenseLoop i64_ = nullptr, DenseLoop c128_ = nullptr,
                  DType c128_out_ = DType::kC128)
      : f32(f32_),
        f64(computes(DType::kF64) || f32_ == nullptr ? f64_ : nullptr),
        i32(i32_),
        i64(computes(DType::kI64) || i32_ == nullptr ? i64_ : nullptr),
        c128(computes(DType::kC64) || computes(DType::kC128) ? c128_ : nullptr),
        c128_out(c128_out_) {}

  constexpr Loops with_bf16(DenseLoop loop) const {
    Loops all = *this;
    all.bf16 = computes(DType::kBF16) ? loop : nullptr;
    return all;
  }
};

/// The dtype that `loops` computes elements of dtype `t` in, and the loop; null if there is none.
struct Computed {
  DenseLoop loop;
  DType dtype;
};
Computed choose_loop(const Loops& loops, DType t);

/// Runs an op: broadcasts the inputs to out[0]'s shape. All inputs have the dtype of the first.
Status elementwise(const Call& c, const Loops& loops, const void* attrs = nullptr);
Status elementwise(const Call& c, const Loops& loops, const View* in, int n_in,
                   const void* attrs = nullptr);

/// An array and the dtype its elements have inside the loop.
struct Operand {
  View view;
  DType computed;
};
/// The general form: outputs first; all are broadcast to the shape of the first.
Status run_loop(const Call& c, DenseLoop loop, const Operand* operands, int n, int n_out,
                const void* attrs);

// -- dense loops from a function of vectors or numbers ------------------------------------------
template <class T, class F>
void unary_loop(void* const* p, int64_t n, const void* attrs) {
  const F f(attrs);
  T* y = static_cast<T*>(p[0]);
  const T* x = static_cast<const T*>(p[1]);
  int64_t i = 0;
  for (; i + kLanesOf<T> <= n; i += kLanesOf<T>) {
    prefetch_ahead(x + i);
    prefetch_ahead(y + i);
    store(y + i, f(load(x + i)));
  }
  if (i < n) store_n(y + i, f(load_n(x + i, n - i)), n - i);
}
template <class T, class F>
void binary_loop(void* const* p, int64_t n, const void* attrs) {
  const F f(attrs);
  T* z = static_cast<T*>(p[0]);
  const T *x = static_cast<const T*>(p[1]), *y = static_cast<const T*>(p[2]);
  int64_t i = 0;
  for (; i + kLanesOf<T> <= n; i += kLanesOf<T>) {
    prefetch_ahead(z + i);
    store(z + i, f(load(x + i), load(y + i)));
  }
  if (i < n) store_n(z + i, f(load_n(x + i, n - i), load_n(y + i, n - i)), n - i);
}
/// Like the above for functions of single numbers.
template <class T, class Out, class F>
void plain_unary_loop(void* const* p, int64_t n, const void* attrs) {
  const F f(attrs);
  Out* y = static_cast<Out*>(p[0]);
  const T* x = static_cast<const T*>(p[1]);
  for (int64_t i = 0; i < n; ++i) y[i] = f(x[i]);
}
template <class T, class Out, class F>
void plain_binary_loop(void* const* p, int64_t n, const void* attrs) {
  const F f(attrs);
  Out* z = static_cast<Out*>(p[0]);
  const T *x = static_cast<const T*>(p[1]), *y = static_cast<const T*>(p[2]);
  for (int64_t i = 0; i < n; ++i) z[i] = f(x[i], y[i]);
}

}  // namespace proa::PROA_ISA
