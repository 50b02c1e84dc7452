// An int8 product whose left side is rounded here, by numbers that are taken from it: those of each
// row, or of the whole array.
#include <string.h>

#include "proa/base/task_size.h"
#include "proa/gen/attrs/quant.h"
#include "proa/kernels/quant/int8_product.h"
#include "proa/simd/workspace.h"

namespace proa::PROA_ISA {
namespace {

constexpr int64_t kPadding = kTileVecs * kLanes;  // past the last column
constexpr int64_t kBlock = 256;                   // elements that are gathered at once

struct Range {
  float low, high;  // with 0 between them
};
/// x is about (q - zero) * scale; q and zero in int8.
struct RowNumbers {
  float scale;
  int32_t zero;
};

int64_t rows_of(const View& x) {
  int64_t m = 1;
  for (int d = 0; d + 1 < x.rank; ++d) m *= x.shape[d];
  return m;
}

/// Calls body(elements, first, count) for blocks of a row.
template <class F>
void for_each_block(const float* from, int64_t stride, int64_t n, F body) {
  alignas(64) float block[kBlock];
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t some = n - i < kBlock ? n - i : kBlock;
    if (stride == 1) {
      body(from + i, i, some);
      continue;
    }
    for (int64_t k = 0; k < some; ++k) block[k] = from[(i + k) * stride];
    body(block, i, some);
  }
}

Range range_of(const float* row, int64_t stride, int64_t n) {
  VF low = {}, high = {};
  for_each_block(row, stride, n, [&](const float* x, int64_t, int64_t some) {
    for (int64_t k = 0; k < some; k += kLanes) {
      const VF v = load_n(x + k, some - k < kLanes ? some - k : kLanes);
      low = min(v, low);
      high = max(v, high);
    }
  });
  Range r = {0.0f, 0.0f};
  for (int i = 0; i < kLanes; ++i) {
    r.low = low[i] < r.low ? low[i] : r.low;
    r.high = high[i] > r.high ? high[i] : r.high;
  }
  return r;
}

RowNumbers numbers_of(const Range& r, bool symmetric) {
  const float width = symmetric ? (r.high > -r.low ? r.high : -r.low) : r.high - r.low;
  float scale = width / (symmetric ? 127.0f : 255.0f);
  if (!(scale > 0.0f)) scale = 1.0f;
  if (symmetric) return {scale, 0};
  const VF zero = min(splat(255.0f), max(VF{}, round_even(splat(-r.low / scale))));
  return {scale, static_cast<int32_t>(zero[0]) - 128};
}

/// A row as steps of the left side.
void round_row(const float* row, int64_t stride, int64_t n, const RowNumbers& numbers,
               bool symmetric, Int8Step* __restrict to) {
  const VF scale = splat(numbers.scale), low = splat(symmetric ? -127.0f : -128.0f);
  const VF zero = splat(static_cast<float>(numbers.zero));
  for_each_block(row, stride, n, [&](const float* x, int64_t first, int64_t some) {
    alignas(64) int8_t whole[kBlock];
    for (int64_t k = 0; k < some; k += kLanes) {
      const VF v = load_n(x + k, some - k < kLanes ? some - k : kLanes);
      const VF q = min(splat(127.0f), max(low, round_even(v / scale) + zero));
      const VI8 bytes = to_int8(round_to_int(q));
      memcpy(whole + k, &bytes, sizeof bytes);
    }
    for (int64_t k = 0; k < some; ++k)
      to[first + k] = static_cast<Int8Step>(whole[k] ^ kInt8Offset);
  });
}

struct Work {
  float *scale, *bias;  // of the columns, with room for whole vectors
  RowNumbers* numbers;
  Range* ranges;
  Int8Step* rows;
  uint8_t* packed;
  size_t bytes;
};

size_t sums_bytes(const Int8Kernels& w) {
  return (static_cast<size_t>(w.outs + kPadding) * sizeof(int32_t) + 63) & ~size_t{63};
}
/// The sums of the columns, and then what int8_pack writes.
size_t packed_bytes(const Int8Kernels& w) { return sums_bytes(w) + int8_packed_size(w); }

void pack_with_sums(const View& v, void* packed) {
  const Int8Kernels w = int8_matrix(v);
  int32_t* const sums = static_cast<int32_t*>(packed);
  memset(sums, 0, sums_bytes(w));
  for (int64_t k = 0; k < w.depth; ++k)
    for (int64_t o = 0; o < w.outs; ++o) sums[o] += w.data[k * w.step + o * w.out];
  int8_pack(w, static_cast<uint8_t*>(packed) + sums_bytes(w));
}

Work carve_workspace(const Call& c, void* memory) {
  const Int8Kernels w = int8_matrix(c.in[1]);
  const int64_t m = rows_of(c.in[0]);
  Workspace workspace(memory);
  Work work = {};
  work.scale = workspace.take<float>(w.outs + kPadding);
  work.bias = workspace.take<float>(w.outs + kPadding);
  work.numbers = workspace.take<RowNumbers>(m);
  work.ranges = workspace.take<Range>(m);
  work.rows = reinterpret_cast<Int8Step*>(
      workspace.take<uint8_t>(static_cast<int64_t>(int8_rows_bytes(m, w.depth))));
  const size_t packed = c.packed != nullptr ? 0 : packed_bytes(w);
  work.packed = workspace.take<uint8_t>(static_cast<int64_t>(packed));
  work.bytes = workspace.bytes();
  return work;
}

void copy_columns(const View* v, int64_t n, float* to) {
  memset(to, 0, static_cast<size_t>(n + kPadding) * sizeof(float));
  if (v == nullptr || !v->given()) return;
  for (int64_t i = 0; i < n; ++i) to[i] = v->as<const float>()[i * v->stride[0]];
}

/// Rounds the rows of x into work.rows.
void round_rows(const Call& c, const Work& work) {
  const auto& a = c.attr<LinearDynamicAttrs>();
  const View& x = c.in[0];
  const CoalescedAxes lines = coalesce_axes(x, 0, x.rank - 1);
  const int64_t m = rows_of(x), k = x.shape[x.rank - 1], stride = x.stride[x.rank - 1];
  const int64_t pitch = int8_pitch(k), grain = 1 + kElementTask / (k + 1);
  const bool symmetric = a.symmetric != 0, per_row = a.per_row != 0;
  const float* const data = x.as<const float>();
  RowNumbers whole = {1.0f, 0};
  if (!per_row) {
    parallel_for(c, m, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        work.ranges[i] = range_of(data + lines.at(i), stride, k);
    });
    Range all = {0.0f, 0.0f};
    for (int64_t i = 0; i < m; ++i) {
      all.low = work.ranges[i].low < all.low ? work.ranges[i].low : all.low;
      all.high = work.ranges[i].high > all.high ? work.ranges[i].high : all.high;
    }
    whole = numbers_of(all, symmetric);
  }
  parallel_for(c, m, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const float* const row = data + lines.at(i);
      work.numbers[i] = per_row ? numbers_of(range_of(row, stride, k), symmetric) : whole;
      round_row(row, stride, k, work.numbers[i], symmetric, work.rows + i * pitch);
    }
  });
}

struct DynamicEpilogue {
  const float *scale, *bias;
  const int32_t* sums;  // of the weight's columns
  const RowNumbers* numbers;
  MatrixRef out;
  Act act;
};

/// act((acc - zero * sums) * (scale * row's scale) + bias).
void finish_dynamic(const void* ctx, void* tile, int64_t ldt, int64_t row, int rows, int64_t col,
                    int cols) {
  const DynamicEpilogue& end = *static_cast<const DynamicEpilogue*>(ctx);
  const int32_t* acc = static_cast<const int32_t*>(tile);
  constexpr int kPart = kTileVecs * kLanes;
  for (int i = 0; i < rows; ++i, acc += ldt) {
    const RowNumbers& numbers = end.numbers[row + i];
    const VF step = splat(numbers.scale);
    const VI zero = splat<int32_t>(numbers.zero);
    float* const line = static_cast<float*>(end.out.data) + end.out.rows.at(row + i);
    for (int j = 0; j < cols; j += kPart) {
      const int some = cols - j < kPart ? cols - j : kPart;
      alignas(64) float v[kPart];
      for (int k = 0; k < some; k += kLanes) {
        const int64_t at = col + j + k;
        const VI whole = load(acc + j + k) - zero * load(end.sums + at);
        store(v + k, to_float(whole) * (load(end.scale + at) * step) + load(end.bias + at));
      }
      if (end.act != Act::kNone) activate(end.act, v, some);
      if (end.out.stride == 1) {
        memcpy(line + col + j, v, static_cast<size_t>(some) * sizeof(float));
      } else {
        for (int k = 0; k < some; ++k) line[(col + j + k) * end.out.stride] = v[k];
      }
    }
  }
}

}  // namespace

Status linear_dynamic(const Call& c) {
  const View& y = c.out[0];
  const Int8Kernels w = int8_matrix(c.in[1]);
  const Work work = carve_workspace(c, c.scratch);
  const void* packed = c.packed;
  if (packed == nullptr) {
    pack_with_sums(c.in[1], work.packed);
    packed = work.packed;
  }
  copy_columns(&c.in[2], w.outs, work.scale);
  copy_columns(c.n_in > 3 ? &c.in[3] : nullptr, w.outs, work.bias);
  round_rows(c, work);
  const DynamicEpilogue end = {
      work.scale,
      work.bias,
      static_cast<const int32_t*>(packed),
      work.numbers,
      {y.data, y.dtype, coalesce_axes(y, 0, y.rank - 1), y.stride[y.rank - 1]},
      static_cast<Act>(c.attr<LinearDynamicAttrs>().act)};
  const void* const panels = static_cast<const uint8_t*>(packed) + sums_bytes(w);
  PatchGemm p = int8_rows_product(w, panels, work.rows, rows_of(c.in[0]));
  p.g.out.epilogue = finish_dynamic;
  p.g.out.epilogue_ctx = &end;
  if (p.g.m > 0 && p.g.n > 0) implicit_gemm(c, p);
  return Status::kOk;
}

size_t linear_dynamic_scratch(const Call& c) { return carve_workspace(c, nullptr).bytes; }
size_t linear_dynamic_pack_size(const Call& c) { return packed_bytes(int8_matrix(c.in[1])); }
Status linear_dynamic_pack(const Call& c, void* packed) {
  pack_with_sums(c.in[1], packed);
  return Status::kOk;
}

}  // namespace proa::PROA_ISA
