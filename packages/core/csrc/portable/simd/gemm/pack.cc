// Panels are transposed in registers: a block of lanes is read along k a vector at a time.
#include "proa/simd/gemm/pack.h"

#include <string.h>

#include "proa/base/dispatch.h"
#include "proa/simd/tuning.h"
#include "proa/simd/vec_transpose.h"

namespace proa::PROA_ISA {
namespace {

/// One vector's worth of lanes into columns [0, kWidth) of a panel.
template <class T>
void pack_lanes(const PackOperand& s, int64_t lane, int lanes, int width, int64_t k0, int64_t k,
                T* panel) {
  constexpr int kWidth = kLanesOf<T>;
  alignas(64) T buffer[kWidth][kPackBlock];
  const T* from[kWidth];
  for (int i = 0; i < lanes; ++i)
    from[i] = static_cast<const T*>(s.read(s.ctx, lane + i, k0, k, buffer[i]));
  if (lanes < kWidth) memset(buffer[lanes], 0, sizeof buffer[lanes]);
  for (int i = lanes; i < kWidth; ++i) from[i] = buffer[lanes];
  int64_t at = 0;
  for (; at + kWidth <= k; at += kWidth) {
#pragma GCC unroll 16
    for (int i = 0; i < kWidth && !kSmallBuild; ++i)
      __builtin_prefetch(from[i] + at + kBlocksAhead * kWidth);
    transpose_block(from, at, width, panel + at * width);
  }
  if (at == k) return;
  SquareBlock<T> block;
  for (int i = 0; i < kWidth; ++i) block.row[i] = load_n(from[i] + at, k - at);
  block.transpose();
  for (int j = 0; at + j < k; ++j) store(panel + (at + j) * width, block.row[j]);
}

/// k rows of `lanes` contiguous elements, `step` apart.
template <class T>
void copy_lanes(const T* from, int64_t step, int lanes, int width, int64_t k, T* panel) {
  constexpr int kWidth = kLanesOf<T>;
  if (lanes == kTileVecs * kWidth && width == lanes) {
    for (int64_t i = 0; i < k; ++i, from += step, panel += width)
#pragma GCC unroll 2
      for (int j = 0; j < kTileVecs; ++j) store(panel + j * kWidth, load(from + j * kWidth));
    return;
  }
  // A vector that sticks out of its row spoils the start of the next one, which is written after.
  for (int64_t i = 0; i < k; ++i, from += step, panel += width)
    for (int j = 0; j < width; j += kWidth) {
      const int left = lanes - j;
      store(panel + j, load_n(from + j, left < kWidth ? (left > 0 ? left : 0) : kWidth));
    }
}

template <class T>
void pack(const PackOperand& s, int64_t lane, int lanes, int width, int64_t k0, int64_t k,
          T* panel) {
  if (s.mn_major && s.direct != nullptr)
    return copy_lanes(static_cast<const T*>(s.direct) + k0 * s.step + lane, s.step, lanes, width, k,
                      panel);
  if (s.mn_major) {
    for (int64_t i = 0; i < k; ++i, panel += width) {
      const void* from = s.read(s.ctx, k0 + i, lane, lanes, panel);
      if (from != panel) memcpy(panel, from, static_cast<size_t>(lanes) * sizeof(T));
      for (int j = lanes; j < width; ++j) panel[j] = 0;
    }
    return;
  }
  constexpr int kWidth = kLanesOf<T>;
  for (int64_t at = 0; at < k; at += kPackBlock) {
    const int64_t n = k - at < kPackBlock ? k - at : kPackBlock;
    T* const to = panel + at * width;
    // From right to left: a vector that sticks out of its row spoils the start of the next one,
    // which is written after it.
    for (int j = (width - 1) / kWidth * kWidth; j >= 0; j -= kWidth) {
      const int some = lanes - j < kWidth ? lanes - j : kWidth;
      pack_lanes(s, lane + j, some > 0 ? some : 0, width, k0 + at, n, to + j);
    }
  }
}

template <class T>
void widen_from(const T* from, int64_t stride, int64_t n, Compute<T>* to) {
  constexpr int kWidth = kLanesOf<T>;
  int64_t i = 0;
  if (stride == 1) {
    for (; i + kWidth <= n; i += kWidth) store(to + i, load(from + i));
    if (i < n) store_n(to + i, load_n(from + i, n - i), n - i);
    return;
  }
  for (; i < n; ++i) to[i] = static_cast<Compute<T>>(from[i * stride]);
}

template <class T>
void narrow_to(const Compute<T>* from, int64_t stride, int64_t n, T* to) {
  int64_t i = 0;
  if (stride == 1) {
    for (; i + kLanesOf<T> <= n; i += kLanesOf<T>) store(to + i, load(from + i));
    if (i < n) store_n(to + i, load_n(from + i, n - i), n - i);
    return;
  }
  for (; i < n; ++i) to[i * stride] = static_cast<T>(from[i]);
}

template <class T>
const void* read_matrix(const void* ctx, int64_t line, int64_t begin, int64_t count, void* buffer) {
  const MatrixOperand& m = *static_cast<const MatrixOperand*>(ctx);
  const T* from = static_cast<const T*>(m.data) + m.lines.at(line) + begin * m.stride;
  if (sizeof(T) == sizeof(Compute<T>) && m.stride == 1) return from;
  // Consecutive lines of a packed block may be on different pages.
  if (!kSmallBuild && m.lines.rank == 1) __builtin_prefetch(from + kLinesAhead * m.lines.step());
  widen_from(from, m.stride, count, static_cast<Compute<T>*>(buffer));
  return buffer;
}

}  // namespace

void pack_panel(const PackOperand& s, int size, int64_t lane, int lanes, int width, int64_t k0,
                int64_t k, void* panel) {
  if (s.pack != nullptr) return s.pack(s.ctx, lane, lanes, width, k0, k, panel);
  if (computes(DType::kF64) && size == 8)
    pack(s, lane, lanes, width, k0, k, static_cast<int64_t*>(panel));
  else
    pack(s, lane, lanes, width, k0, k, static_cast<int32_t*>(panel));
}

void pack_rows_of_steps(const PackOperand& s, int64_t lane, int lanes, int64_t k0, int64_t k,
                        int64_t pitch, void* rows) {
  const int32_t zero[kMaxTileRows] = {};
  alignas(64) int32_t lines[kLanes][kMaxTileRows];
  for (int64_t at = 0; at < k; at += kLanes) {
    const int32_t* from[kLanes];
    for (int64_t i = 0; i < kLanes; ++i) {
      from[i] = zero;
      if (at + i >= k) continue;
      const void* line = s.read(s.ctx, k0 + at + i, lane, lanes, lines[i]);
      if (line != lines[i]) memcpy(lines[i], line, static_cast<size_t>(lanes) * 4);
      from[i] = lines[i];
    }
    for (int64_t row = 0; row < lanes; row += kLanes) {
      auto* const to = reinterpret_cast<int32_t*>(static_cast<uint8_t*>(rows) + row * pitch);
      transpose_block(from, row, static_cast<int>(pitch / 4), to + at);
    }
  }
}

PackOperand matrix_operand(MatrixOperand* ctx, const void* data, DType dtype,
                           const CoalescedAxes& lanes, const CoalescedAxes& steps) {
  // Read along the contiguous axis, if there is one.
  const bool mn_major = !steps.uniform() || (lanes.uniform() && lanes.step() == 1 &&
                                             !(steps.rank == 1 && steps.step() == 1));
  *ctx = {data, mn_major ? steps : lanes, mn_major ? lanes.step() : steps.step(), 0};
  PackOperand s = {ctx, read_matrix<float>, mn_major};
  const bool native = dtype == DType::kF32 || is_double(dtype);
  if (native && ctx->stride == 1 && ctx->lines.uniform()) {
    s.direct = data;
    s.step = ctx->lines.step();
  }
  if (is_double(dtype)) s.read = read_matrix<double>;
  if (computes(DType::kF16) && dtype == DType::kF16) s.read = read_matrix<F16>;
  if (computes(DType::kBF16) && dtype == DType::kBF16) s.read = read_matrix<BF16>;
  return s;
}

void widen(const void* from, DType dtype, int64_t stride, int64_t n, void* to) {
  switch (dtype) {
    case DType::kF64:
      if constexpr (computes(DType::kF64))
        return widen_from(static_cast<const double*>(from), stride, n, static_cast<double*>(to));
      return;
    case DType::kF16:
      if constexpr (computes(DType::kF16))
        return widen_from(static_cast<const F16*>(from), stride, n, static_cast<float*>(to));
      return;
    case DType::kBF16:
      if constexpr (computes(DType::kBF16))
        return widen_from(static_cast<const BF16*>(from), stride, n, static_cast<float*>(to));
      return;
    default:
      return widen_from(static_cast<const float*>(from), stride, n, static_cast<float*>(to));
  }
}

void narrow(const void* from, DType dtype, int64_t stride, int64_t n, void* to) {
  switch (dtype) {
    case DType::kF64:
      if constexpr (computes(DType::kF64))
        return narrow_to(static_cast<const double*>(from), stride, n, static_cast<double*>(to));
      return;
    case DType::kF16:
      if constexpr (computes(DType::kF16))
        return narrow_to(static_cast<const float*>(from), stride, n, static_cast<F16*>(to));
      return;
    case DType::kBF16:
      if constexpr (computes(DType::kBF16))
        return narrow_to(static_cast<const float*>(from), stride, n, static_cast<BF16*>(to));
      return;
    default:
      return narrow_to(static_cast<const float*>(from), stride, n, static_cast<float*>(to));
  }
}

}  // namespace proa::PROA_ISA
