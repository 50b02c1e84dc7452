// With real and imaginary parts interleaved, as stored, row i of a is 2 k floats, and a row of c 2
// n. Step 2 p of b is row p as stored, and step 2 p + 1 that row times i: (re, im) becomes (-im,
// re).
#include "proa/simd/gemm/complex.h"

namespace proa::PROA_ISA {
namespace {

/// A matrix whose element (line, j) is at lines.at(line) + j * stride.
struct Pairs {
  const void* data;
  CoalescedAxes lines;
  int64_t stride;
};

/// What becomes of (re, im).
enum class Form { kSame, kTimesI, kConjugate, kSwapped };

template <class T, Form kForm>
void copy_as(const T* from, int64_t stride, int64_t n, T* to) {
  constexpr bool kSwaps = kForm == Form::kTimesI || kForm == Form::kSwapped;
  for (int64_t j = 0; j < n; ++j, from += 2 * stride, to += 2) {
    const T re = from[0], im = from[1];
    to[0] = kForm == Form::kTimesI ? -im : kSwaps ? im : re;
    to[1] = kForm == Form::kConjugate ? -im : kSwaps ? re : im;
  }
}

/// Units [begin, begin + count) of a line, both of which are even, as `kForm`.
template <class T, Form kForm>
const void* read_as(const Pairs& m, int64_t line, int64_t begin, int64_t count, void* buffer) {
  const T* from = static_cast<const T*>(m.data) + 2 * (m.lines.at(line) + begin / 2 * m.stride);
  if (kForm == Form::kSame && m.stride == 1) return from;
  if (m.stride == 1)  // known to the compiler, it makes vectors of it
    copy_as<T, kForm>(from, 1, count / 2, static_cast<T*>(buffer));
  else
    copy_as<T, kForm>(from, m.stride, count / 2, static_cast<T*>(buffer));
  return buffer;
}

template <class T>
const void* read_a(const void* ctx, int64_t lane, int64_t k, int64_t count, void* buffer) {
  return read_as<T, Form::kSame>(*static_cast<const Pairs*>(ctx), lane, k, count, buffer);
}
template <class T>
const void* read_rows(const void* ctx, int64_t k, int64_t lane, int64_t count, void* buffer) {
  const Pairs& m = *static_cast<const Pairs*>(ctx);
  return k % 2 == 0 ? read_as<T, Form::kSame>(m, k / 2, lane, count, buffer)
                    : read_as<T, Form::kTimesI>(m, k / 2, lane, count, buffer);
}
template <class T>
const void* read_columns(const void* ctx, int64_t lane, int64_t k, int64_t count, void* buffer) {
  const Pairs& m = *static_cast<const Pairs*>(ctx);
  return lane % 2 == 0 ? read_as<T, Form::kConjugate>(m, lane / 2, k, count, buffer)
                       : read_as<T, Form::kSwapped>(m, lane / 2, k, count, buffer);
}

/// GemmOutput::epilogue for columns of c that are not contiguous; ctx is a MatrixRef.
template <class T>
void write_pairs(const void* ctx, void* tile, int64_t ldt, int64_t row, int rows, int64_t col,
                 int cols) {
  const MatrixRef& out = *static_cast<const MatrixRef*>(ctx);
  const T* from = static_cast<const T*>(tile);
  for (int i = 0; i < rows; ++i, from += ldt) {
    T* to = static_cast<T*>(out.data) + 2 * (out.rows.at(row + i) + col / 2 * out.stride);
    for (int j = 0; j < cols; j += 2, to += 2 * out.stride) to[0] = from[j], to[1] = from[j + 1];
  }
}

const Micro& parts_micro(const Product& p) {
  return micro_kernel(p.dtype == DType::kC128 ? DType::kF64 : DType::kF32);
}

bool writes_straight(const Product& p) { return p.end.out.stride == 1 && p.end.out.rows.uniform(); }

template <class T>
void run(const Call& call, const Product& p, void* scratch) {
  const Micro& micro = parts_micro(p);
  const Pairs a = {p.a.data, p.a.rows, p.a.steps.step()};
  const bool transposed = p.b.stride != 1 && p.b.steps.step() == 1;
  CoalescedAxes columns;
  columns.add(p.n, p.b.stride);
  const Pairs b = {p.b.data, transposed ? columns : p.b.steps, transposed ? 1 : p.b.stride};
  Gemm g = {&micro, p.m, 2 * p.n, 2 * p.k, {&a, read_a<T>, false}, {&b, read_rows<T>, true}};
  if (transposed) g.b = {&b, read_columns<T>, false};
  if (p.a.steps.step() == 1 && p.a.rows.uniform()) {
    g.a.direct = p.a.data;
    g.a.step = 2 * p.a.rows.step();
  }
  if (writes_straight(p)) {
    g.out.c = p.end.out.data;
    g.out.ldc = 2 * p.end.out.rows.step();
  } else {
    g.out.epilogue = write_pairs<T>;
    g.out.epilogue_ctx = &p.end.out;
  }
  gemm(call, g, scratch);
}

}  // namespace

size_t complex_scratch(const Product& p) {
  return gemm_scratch(parts_micro(p), p.m, 2 * p.n, 2 * p.k, writes_straight(p), false);
}

void multiply_complex(const Call& call, const Product& p, void* scratch) {
  p.dtype == DType::kC128 ? run<double>(call, p, scratch) : run<float>(call, p, scratch);
}

}  // namespace proa::PROA_ISA
