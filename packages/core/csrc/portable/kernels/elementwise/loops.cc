#include "proa/kernels/elementwise/loops.h"

#include <string.h>

#include "proa/base/task_size.h"
#include "proa/kernels/movement/copy.h"
#include "proa/simd/tuning.h"

namespace proa::PROA_ISA {

namespace {

struct Plan {
  Nest nest;
  DenseLoop loop;
  const void* attrs;
  int n, n_out;
  int64_t block;  // elements that fit a buffer
  bool by_rows;   // segments end with the innermost dimension
  bool all_direct;
  uint8_t* data[kMaxOperands];
  DType stored[kMaxOperands], computed[kMaxOperands];
  bool direct[kMaxOperands];    // the loop reads or writes the array itself
  bool constant[kMaxOperands];  // one element for a whole segment
};

/// True if array k of the nest is dense in the order of the loops.
bool is_linear(const Nest& nest, int k) {
  int64_t expect = 1;
  for (int d = nest.rank - 1; d >= 0; --d) {
    if (nest.stride[k][d] != expect) return false;
    expect *= nest.shape[d];
  }
  return true;
}

bool is_constant(const Nest& nest, int k, bool by_rows) {
  for (int d = by_rows ? nest.rank - 1 : 0; d < nest.rank; ++d) {
    if (nest.stride[k][d] != 0) return false;
  }
  return true;
}

/// True if the loop can read and write rows of every array in place.
bool has_dense_rows(const Plan& plan) {
  for (int k = 0; k < plan.n; ++k)
    if (plan.nest.inner_stride(k) != 1 || plan.stored[k] != plan.computed[k]) return false;
  return true;
}

/// The buffers of one thread.
struct Buffers {
  alignas(64) uint8_t operand[kMaxOperands][kLoopBlockBytes];
  alignas(64) uint8_t raw[kLoopBlockBytes];
  const void* filled[kMaxOperands];  // the constant that the whole buffer holds
};

/// Moves m elements of operand k from the cursor on, over several rows, to or from `dense`.
void move_rows(const Plan& plan, int k, Cursor at, uint8_t* dense, int64_t m, bool write) {
  const size_t size = size_of(plan.stored[k]);
  const int64_t inner = plan.nest.inner(), stride = plan.nest.inner_stride(k);
  while (m > 0) {
    const int64_t left = plan.nest.rank > 0 ? inner - at.at[plan.nest.rank - 1] : 1;
    const int64_t step = m < left ? m : left;
    uint8_t* p = plan.data[k] + at.offset[k] * static_cast<int64_t>(size);
    if (write) {
      scatter_row(size, dense, p, stride, step);
    } else {
      gather_row(size, p, stride, dense, step);
    }
    dense += step * static_cast<int64_t>(size);
    at.advance(plan.nest, step);
    m -= step;
  }
}

void fetch(const Plan& plan, int k, const Cursor& at, Buffers* buffers, int64_t m) {
  const bool same = plan.stored[k] == plan.computed[k];
  uint8_t* to = buffers->operand[k];
  if (plan.constant[k]) {
    const void* from = plan.data[k] + at.offset[k] * static_cast<int64_t>(size_of(plan.stored[k]));
    if (buffers->filled[k] == from) return;
    buffers->filled[k] = from;
    alignas(16) uint8_t value[16];
    convert(plan.stored[k], from, plan.computed[k], value, 1);
    fill_row(size_of(plan.computed[k]), value, to, plan.block);
    return;
  }
  const int64_t size = static_cast<int64_t>(size_of(plan.stored[k]));
  if (!same && plan.by_rows && plan.nest.inner_stride(k) == 1) {
    return convert(plan.stored[k], plan.data[k] + at.offset[k] * size, plan.computed[k], to, m);
  }
  uint8_t* raw = same ? to : buffers->raw;
  move_rows(plan, k, at, raw, m, false);
  if (!same) convert(plan.stored[k], raw, plan.computed[k], to, m);
}

void flush(const Plan& plan, int k, const Cursor& at, Buffers* buffers, int64_t m) {
  const bool same = plan.stored[k] == plan.computed[k];
  uint8_t* from = buffers->operand[k];
  if (!same) {
    const int64_t size = static_cast<int64_t>(size_of(plan.stored[k]));
    if (plan.by_rows && plan.nest.inner_stride(k) == 1) {
      return convert(plan.computed[k], from, plan.stored[k], plan.data[k] + at.offset[k] * size, m);
    }
    convert(plan.computed[k], from, plan.stored[k], buffers->raw, m);
    from = buffers->raw;
  }
  move_rows(plan, k, at, from, m, true);
}

void run_direct(const Plan& plan, int64_t begin, int64_t end) {
  Cursor at;
  at.seek(plan.nest, begin);
  const int64_t inner = plan.nest.inner();
  for (int64_t i = begin; i < end;) {
    const int64_t left = plan.nest.rank > 0 ? inner - at.at[plan.nest.rank - 1] : 1;
    const int64_t m = end - i < left ? end - i : left;
    void* p[kMaxOperands];
    for (int k = 0; k < plan.n; ++k) {
      p[k] = plan.data[k] + at.offset[k] * static_cast<int64_t>(size_of(plan.stored[k]));
    }
    plan.loop(p, m, plan.attrs);
    at.advance(plan.nest, m);
    i += m;
  }
}

void run_buffered(const Plan& plan, int64_t begin, int64_t end) {
  Buffers buffers;
  for (int k = 0; k < plan.n; ++k) buffers.filled[k] = nullptr;
  Cursor at;
  at.seek(plan.nest, begin);
  const int64_t inner = plan.nest.inner();
  for (int64_t i = begin; i < end;) {
    int64_t m = end - i < plan.block ? end - i : plan.block;
    if (plan.by_rows && plan.nest.rank > 0) {
      const int64_t left = inner - at.at[plan.nest.rank - 1];
      if (m > left) m = left;
    }
    void* p[kMaxOperands];
    for (int k = 0; k < plan.n; ++k) {
      p[k] = plan.direct[k]
                 ? plan.data[k] + at.offset[k] * static_cast<int64_t>(size_of(plan.stored[k]))
                 : buffers.operand[k];
      if (!plan.direct[k] && k >= plan.n_out) fetch(plan, k, at, &buffers, m);
    }
    plan.loop(p, m, plan.attrs);
    for (int k = 0; k < plan.n_out; ++k) {
      if (!plan.direct[k]) flush(plan, k, at, &buffers, m);
    }
    i += m;
    if (plan.by_rows) {
      at.advance(plan.nest, m);
    } else if (i < end) {
      at.seek(plan.nest, i);
    }
  }
}

// -- transposed operands ------------------------------------------------------------------------
// An array whose elements are contiguous along another dimension than the innermost loop's would be
// read a cache line for each element. So both dimensions are split into tiles, whose cache lines
// are used completely.

constexpr int64_t kAcross = 8;  // shorter dimensions are no matter

/// The dimension along which some transposed input is dense; -1 if there is none.
int across(const Plan& plan) {
  const Nest& nest = plan.nest;
  const int last = nest.rank - 1;
  if (last < 1 || nest.inner() < kAcross) return -1;
  for (int k = plan.n_out; k < plan.n; ++k) {
    const int64_t step = nest.inner_stride(k);
    if (step > -kAcross && step < kAcross) continue;
    for (int d = 0; d < last; ++d)
      if (nest.stride[k][d] == 1 && nest.shape[d] >= kAcross) return d;
  }
  return -1;
}

/// Moves a tile of operand k, which begins at `offset`, to or from `dense` (rows, columns).
void move_tile(const Plan& plan, int k, int d, int64_t offset, int64_t rows, int64_t columns,
               uint8_t* dense, bool write) {
  const size_t bytes = size_of(plan.stored[k]);
  const int64_t size = static_cast<int64_t>(bytes);
  const int64_t down = plan.nest.stride[k][d], right = plan.nest.inner_stride(k);
  uint8_t* p = plan.data[k] + offset * size;
  if (!write && down == 1 && right != 1) {
    return transpose_tile(bytes, p, right, dense, columns, rows, columns);
  }
  const int64_t bytes_of_row = columns * size;
  for (int64_t i = 0; i < rows; ++i, dense += columns * size, p += down * size) {
    // The next tile is prefetched: the hardware prefetcher does not track that many rows.
    if (right == 1 && write)
      copy_prefetching(dense, p, bytes_of_row, dense, p + bytes_of_row);
    else if (right == 1)
      copy_prefetching(p, dense, bytes_of_row, p + bytes_of_row, dense);
    else if (write)
      scatter_row(bytes, dense, p, right, columns);
    else
      gather_row(bytes, p, right, dense, columns);
  }
}

void run_tile(const Plan& plan, int d, const int64_t* offset, int64_t rows, int64_t columns,
              Buffers* buffers) {
  const int64_t m = rows * columns;
  void* p[kMaxOperands];
  for (int k = 0; k < plan.n; ++k) {
    p[k] = buffers->operand[k];
    if (k < plan.n_out) continue;
    const bool same = plan.stored[k] == plan.computed[k];
    uint8_t* raw = same ? buffers->operand[k] : buffers->raw;
    move_tile(plan, k, d, offset[k], rows, columns, raw, false);
    if (!same) convert(plan.stored[k], raw, plan.computed[k], p[k], m);
  }
  plan.loop(p, m, plan.attrs);
  for (int k = 0; k < plan.n_out; ++k) {
    uint8_t* from = buffers->operand[k];
    if (plan.stored[k] != plan.computed[k]) {
      convert(plan.computed[k], from, plan.stored[k], buffers->raw, m);
      from = buffers->raw;
    }
    move_tile(plan, k, d, offset[k], rows, columns, from, true);
  }
}

/// The whole array in tiles of dimensions d and the innermost. Tiles go on within a block whose
/// pages the machine can still translate at once.
void run_tiled(const Call& c, const Plan& plan, int d) {
  const Nest& nest = plan.nest;
  const int last = nest.rank - 1;
  const int64_t height = nest.shape[d], width = nest.shape[last], wide = plan.block / kLoopTileRows;
  const int64_t tall = 16 * kLoopTileRows, broad = 32 * wide;  // a block
  const int64_t down = (height + tall - 1) / tall, right = (width + broad - 1) / broad;
  Nest outer = nest;  // the other dimensions
  outer.shape[d] = outer.shape[last] = 1;
  const int64_t size = (height < tall ? height : tall) * (width < broad ? width : broad);
  parallel_for(
      c, outer.size() * down * right, 1 + kElementTask / size, [&](int64_t begin, int64_t end) {
        Buffers buffers;
        for (int64_t t = begin; t < end; ++t) {
          const int64_t top = t / right % down * tall, left = t % right * broad;
          const int64_t bottom = height - top < tall ? height : top + tall;
          const int64_t stop = width - left < broad ? width : left + broad;
          Cursor at;
          at.seek(outer, t / (down * right));
          for (int64_t i = top; i < bottom; i += kLoopTileRows)
            for (int64_t j = left; j < stop; j += wide) {
              int64_t offset[kMaxOperands];
              for (int k = 0; k < plan.n; ++k)
                offset[k] = at.offset[k] + i * nest.stride[k][d] + j * nest.stride[k][last];
              run_tile(plan, d, offset, bottom - i < kLoopTileRows ? bottom - i : kLoopTileRows,
                       stop - j < wide ? stop - j : wide, &buffers);
            }
        }
      });
}

/// The common case at the least cost: every array dense, of one shape, and computed as stored.
bool run_dense(const Call& c, DenseLoop loop, const Operand* operands, int n, const void* attrs) {
  const View& y = operands[0].view;
  for (int k = 0; k < n; ++k) {
    const View& v = operands[k].view;
    if (v.dtype != operands[k].computed || v.rank != y.rank || !v.contiguous()) return false;
    for (int d = 0; d < y.rank; ++d) {
      if (v.shape[d] != y.shape[d]) return false;
    }
  }
  parallel_for(c, y.numel(), kElementTask, [&](int64_t begin, int64_t end) {
    void* p[kMaxOperands];
    for (int k = 0; k < n; ++k) {
      p[k] = operands[k].view.as<uint8_t>() +
             begin * static_cast<int64_t>(size_of(operands[k].computed));
    }
    loop(p, end - begin, attrs);
  });
  return true;
}

}  // namespace

Status run_loop(const Call& c, DenseLoop loop, const Operand* operands, int n, int n_out,
                const void* attrs) {
  if (loop == nullptr) return Status::kUnimplemented;
  if (run_dense(c, loop, operands, n, attrs)) return Status::kOk;
  Plan plan;
  plan.loop = loop;
  plan.attrs = attrs;
  plan.n = n;
  plan.n_out = n_out;
  plan.nest.set_shape(operands[0].view);
  int64_t widest = 1;
  for (int k = 0; k < n; ++k) {
    plan.nest.add(operands[k].view);
    plan.data[k] = operands[k].view.as<uint8_t>();
    plan.stored[k] = operands[k].view.dtype;
    plan.computed[k] = operands[k].computed;
    const int64_t stored = static_cast<int64_t>(size_of(plan.stored[k]));
    const int64_t computed = static_cast<int64_t>(size_of(plan.computed[k]));
    widest = stored > widest ? stored : widest;
    widest = computed > widest ? computed : widest;
  }
  const int64_t size = plan.nest.size();
  if (size == 0) return Status::kOk;
  plan.nest.simplify();
  plan.block = kLoopBlockBytes / widest;
  const int64_t short_row = has_dense_rows(plan) ? kLoopShortDenseRow : kLoopShortRow;
  plan.by_rows = plan.nest.rank <= 1 || plan.nest.inner() >= short_row;
  plan.all_direct = plan.by_rows;
  for (int k = 0; k < n; ++k) {
    const bool dense = plan.by_rows ? plan.nest.inner_stride(k) == 1 : is_linear(plan.nest, k);
    plan.direct[k] = dense && plan.stored[k] == plan.computed[k];
    plan.constant[k] = k >= n_out && plan.nest.rank > 0 && is_constant(plan.nest, k, plan.by_rows);
    plan.all_direct &= plan.direct[k];
  }
  // Small libraries do without: results are the same.
  const int other = computes(DType::kF64) && size >= kElementTask ? across(plan) : -1;
  if (other >= 0) {
    run_tiled(c, plan, other);
    return Status::kOk;
  }
  parallel_for(c, size, kElementTask, [&](int64_t begin, int64_t end) {
    if (plan.all_direct) {
      run_direct(plan, begin, end);
    } else {
      run_buffered(plan, begin, end);
    }
  });
  return Status::kOk;
}

Computed choose_loop(const Loops& loops, DType t) {
  if (!computes(t)) return {nullptr, t};
  const Computed f64 = {loops.f64, DType::kF64}, i64 = {loops.i64, DType::kI64};
  if (t == DType::kF64) return f64;
  if (t == DType::kBF16 && loops.bf16 != nullptr) return {loops.bf16, t};
  if (is_floating(t)) return loops.f32 != nullptr ? Computed{loops.f32, DType::kF32} : f64;
  if (is_complex(t)) return {loops.c128, DType::kC128};
  if (t == DType::kI64) return i64;
  return loops.i32 != nullptr ? Computed{loops.i32, DType::kI32} : i64;
}

Status elementwise(const Call& c, const Loops& loops, const View* in, int n_in, const void* attrs) {
  const Computed chosen = choose_loop(loops, in[0].dtype);
  Operand operands[kMaxOperands];
  const bool complex = chosen.dtype == DType::kC128;
  operands[0] = {c.out[0], loops.bool_out ? DType::kBool : complex ? loops.c128_out : chosen.dtype};
  for (int i = 0; i < n_in; ++i) operands[i + 1] = {in[i], chosen.dtype};
  return run_loop(c, chosen.loop, operands, n_in + 1, 1, attrs);
}

Status elementwise(const Call& c, const Loops& loops, const void* attrs) {
  return elementwise(c, loops, c.in, c.n_in, attrs);
}

}  // namespace proa::PROA_ISA
