// The packed form begins with what each column's sum starts from: with VNNI a is offset by 128 to
// be unsigned, which adds 128 * (column sum of b), so the sums start from minus that.
#include "proa/kernels/quant/int8_product.h"

#include <string.h>

namespace proa::PROA_ISA {
namespace {

const bool kOffset = kMicroI8.step == 4;

int64_t units(int64_t k) { return (k + kMicroI8.step - 1) / kMicroI8.step; }
size_t head_bytes(int64_t n) {
  return (static_cast<size_t>(gemm_columns(kMicroI8, n)) * 4 + 63) & ~size_t{63};
}

/// n int8 to the units of the micro-kernel; the last unit is filled up with zeros.
void to_units(const int8_t* from, int64_t n, bool offset, uint8_t* to) {
  if (kMicroI8.step == 4) {
    const uint8_t flip = offset ? 0x80 : 0;
    for (int64_t i = 0; i < n; ++i) to[i] = static_cast<uint8_t>(from[i]) ^ flip;
    for (int64_t i = n; i % 4 != 0; ++i) to[i] = flip;
    return;
  }
  int16_t* wide = reinterpret_cast<int16_t*>(to);
  for (int64_t i = 0; i < n; ++i) wide[i] = from[i];
  if (n % 2 != 0) wide[n] = 0;
}

const void* read_row(const void* ctx, int64_t row, int64_t unit, int64_t count, void* buffer) {
  const Int8Product& p = *static_cast<const Int8Product*>(ctx);
  int8_t piece[kInt8Run];
  const int64_t k = unit * kMicroI8.step, left = p.k - k, all = count * kMicroI8.step;
  const int64_t n = left < all ? left : all;
  to_units(static_cast<const int8_t*>(p.read(p.ctx, row, k, n, piece)), n, kOffset,
           static_cast<uint8_t*>(buffer));
  return buffer;
}

struct ColumnReader {
  const Int8Columns& b;
  int64_t k;
};

const void* read_column(const void* ctx, int64_t column, int64_t unit, int64_t count,
                        void* buffer) {
  const ColumnReader& r = *static_cast<const ColumnReader*>(ctx);
  int8_t piece[kInt8Run];
  const int64_t k = unit * kMicroI8.step, left = r.k - k, all = count * kMicroI8.step;
  const int64_t n = left < all ? left : all;
  const int8_t* from = r.b.data + column * r.b.stride;
  for (int64_t i = 0; i < n; ++i) piece[i] = from[r.b.steps.at(k + i)];
  to_units(piece, n, false, static_cast<uint8_t*>(buffer));
  return buffer;
}

float channel(const View* v, int64_t i) {
  return v->as<const float>()[v->numel() == 1 ? 0 : i * v->stride[v->rank - 1]];
}

/// One row of v from sums; `scale` and `shift` hold the columns' multiplier and bias.
void scale_row(const int32_t* sums, const float* scale, const float* shift, int n, float* v) {
  for (int i = 0; i < n; i += kLanes) {
    const VF product = to_float(load(sums + i)) * load(scale + i);
    store(v + i, product + load(shift + i));
  }
}

void quantize_row(float* v, float scale, int n) {
  for (int i = 0; i < n; i += kLanes) {
    const VF q = round_even(load(v + i) / scale);
    store(v + i, min(splat(127.0f), max(splat(-127.0f), q)));
  }
}

void finish_int8(const void* ctx, void* tile, int64_t ldt, int64_t row, int rows, int64_t col,
                 int cols) {
  constexpr int kWide = kTileVecs * kLanes;
  const Int8Product& p = *static_cast<const Int8Product*>(ctx);
  float scale[kWide] = {}, shift[kWide] = {};
  alignas(64) float v[kWide];
  for (int j = 0; j < cols; ++j) {
    scale[j] = channel(p.multiplier, p.first + col + j);
    if (p.bias != nullptr && p.bias->given()) shift[j] = channel(p.bias, p.first + col + j);
  }
  const int32_t* sums = static_cast<const int32_t*>(tile);
  for (int i = 0; i < rows; ++i, sums += ldt) {
    scale_row(sums, scale, shift, cols, v);
    if (p.act == Act::kRelu) {
      for (int j = 0; j < kWide; j += kLanes) store(v + j, max(VF{}, load(v + j)));
    } else if (p.act != Act::kNone) {
      activate(p.act, v, cols);
    }
    const int64_t at = p.out.rows.at(row + i) + col * p.out.stride;
    if (p.out.dtype == DType::kF32) {
      float* to = static_cast<float*>(p.out.data) + at;
      for (int j = 0; j < cols; ++j) to[j * p.out.stride] = v[j];
    } else {
      quantize_row(v, p.out_scale, cols);
      int8_t* to = static_cast<int8_t*>(p.out.data) + at;
      for (int j = 0; j < cols; ++j) to[j * p.out.stride] = static_cast<int8_t>(v[j]);
    }
  }
}

}  // namespace

size_t int8_scratch(int64_t m, int64_t n, int64_t k) {
  return gemm_scratch(kMicroI8, m, n, units(k), false, true);
}

void int8_multiply(const Call& call, const Int8Product& p, void* scratch) {
  Gemm g = {&kMicroI8, p.m, p.n, units(p.k), {&p, read_row, false}, {}};
  g.init = p.packed;
  g.packed = static_cast<const uint8_t*>(p.packed) + head_bytes(p.n);
  g.finish = finish_int8;
  g.finish_ctx = &p;
  gemm(call, g, scratch);
}

size_t int8_packed_size(int64_t n, int64_t k) {
  return head_bytes(n) + gemm_packed_size(kMicroI8, n, units(k));
}

void int8_pack(const Int8Columns& b, int64_t n, int64_t k, void* packed) {
  int32_t* head = static_cast<int32_t*>(packed);
  memset(head, 0, head_bytes(n));
  if (kOffset) {
    for (int64_t j = 0; j < n; ++j) {
      int32_t sum = 0;
      for (int64_t i = 0; i < k; ++i) sum += b.data[b.steps.at(i) + j * b.stride];
      head[j] = -128 * sum;
    }
  }
  const ColumnReader r = {b, k};
  gemm_pack(kMicroI8, {&r, read_column, false}, n, units(k),
            static_cast<uint8_t*>(packed) + head_bytes(n));
}

}  // namespace proa::PROA_ISA
