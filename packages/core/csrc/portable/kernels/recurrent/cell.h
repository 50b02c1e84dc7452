#pragma once
// What the forward and the backward pass of recurrent cells share: sizes, lines of arrays in
// compute precision, lanes of floats or doubles, and the order of steps.
#include <math.h>

#include "proa/base/dispatch.h"
#include "proa/base/task_size.h"
#include "proa/simd/gemm/product.h"
#include "proa/simd/math.h"
#include "proa/simd/workspace.h"

namespace proa::PROA_ISA {

/// In the order of the schema's `cell` choices.
enum class Cell : int64_t { kTanh, kRelu, kLstm, kGru };

struct CellSizes {
  Cell cell;
  int64_t time, batch, hidden;
  int64_t gates;     // columns of all gates: a multiple of hidden
  int64_t reserved;  // columns of reserve
};

inline CellSizes cell_sizes(int64_t cell, int64_t time, const View& w, const View& h0) {
  CellSizes s = {static_cast<Cell>(cell), time, h0.shape[0], w.shape[1], w.shape[0], 0};
  if (s.cell == Cell::kLstm) s.reserved = 5 * s.hidden;
  if (s.cell == Cell::kGru) s.reserved = 4 * s.hidden;
  return s;
}

/// Vectors of floats, or single doubles: the same code computes in both.
template <class C>
struct Lanes;
template <>
struct Lanes<float> {
  using V = VF;
  static constexpr int kCount = kLanes;
  static V get(const float* p, int64_t n) { return load_n(p, n); }
  static void put(float* p, V v, int64_t n) { store_n(p, v, n); }
};
template <>
struct Lanes<double> {
  using V = double;
  static constexpr int kCount = 1;
  static V get(const double* p, int64_t) { return *p; }
  static void put(double* p, V v, int64_t) { *p = v; }
};
PROA_INLINE double tanh(double x) { return ::tanh(x); }
PROA_INLINE double sigmoid(double x) {
  const double z = ::exp(-::fabs(x));
  return (x < 0 ? z : 1.0) / (1.0 + z);
}

/// Calls body(i, n) for chunks of [0, count) of at most a vector.
template <class C, class F>
PROA_INLINE void for_lanes(int64_t count, F body) {
  constexpr int kCount = Lanes<C>::kCount;
  for (int64_t i = 0; i < count; i += kCount) body(i, count - i < kCount ? count - i : kCount);
}

inline int64_t stride_of(const View& v, int axis) {
  return v.shape[axis] == 1 ? 1 : v.stride[axis];
}
inline uint8_t* line_at(const View& v, int64_t offset) {
  return v.as<uint8_t>() + offset * static_cast<int64_t>(size_of(v.dtype));
}
/// Where line t, b of a (time, batch, columns) array or line b of a (batch, columns) one begins.
inline uint8_t* line(const View& v, int64_t t, int64_t b) {
  return line_at(v, t * v.stride[0] + b * v.stride[1]);
}
inline uint8_t* line(const View& v, int64_t b) { return line_at(v, b * v.stride[0]); }

/// n elements from `from` on, the stride of v's last axis apart, as C: in place if possible.
template <class C>
const C* read(const View& v, const uint8_t* from, int64_t n, C* buffer) {
  const int64_t stride = stride_of(v, v.rank - 1);
  if (stride == 1 && size_of(v.dtype) == sizeof(C)) return reinterpret_cast<const C*>(from);
  widen(from, v.dtype, stride, n, buffer);
  return buffer;
}
template <class C>
void write(const View& v, uint8_t* to, int64_t n, const C* values) {
  narrow(values, v.dtype, stride_of(v, v.rank - 1), n, to);
}

/// The states (batch, hidden) that a run starts from, or gradients of those it ended with, as C.
template <class C>
void read_states(const View& from, const CellSizes& s, C* to) {
  for (int64_t b = 0; b < s.batch; ++b) {
    widen(line(from, b), from.dtype, stride_of(from, 1), s.hidden, to + b * s.hidden);
  }
}
template <class C>
void write_states(const View& to, const CellSizes& s, const C* from) {
  for (int64_t b = 0; b < s.batch; ++b) write(to, line(to, b), s.hidden, from + b * s.hidden);
}

/// Steps of sample b: length[b] within [0, time], or all.
inline int64_t steps_of(const View* length, int64_t b, int64_t time) {
  if (length == nullptr || !length->given()) return time;
  const int64_t i = b * stride_of(*length, 0);
  const int64_t n = length->dtype == DType::kI64 ? length->as<const int64_t>()[i]
                                                 : length->as<const int32_t>()[i];
  return n < 0 ? 0 : (n < time ? n : time);
}

inline const View* optional_input(const Call& c, int i) {
  return i < c.n_in && c.in[i].given() ? &c.in[i] : nullptr;
}

/// A row-major matrix in scratch as operand or result of a product.
template <class C>
constexpr DType dtype_of() {
  return sizeof(C) == sizeof(double) ? DType::kF64 : DType::kF32;
}
inline CoalescedAxes lines(int64_t count, int64_t step) {
  CoalescedAxes l;
  l.add(count, step);
  return l;
}
template <class C>
MatrixRef rows_in(C* data, int64_t rows, int64_t columns) {
  MatrixRef p;
  p.data = data;
  p.dtype = dtype_of<C>();
  p.rows = lines(rows, columns);
  return p;
}

/// Samples worth a task.
inline int64_t sample_grain(const CellSizes& s) { return 1 + kRecurrentTask / (s.gates + 1); }

}  // namespace proa::PROA_ISA
