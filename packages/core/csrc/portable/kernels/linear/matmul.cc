// z = x @ y over the last two axes, by the packed product; where y is one matrix the batch of x
// becomes rows. Integers take a plain loop.
#include "proa/base/task_size.h"
#include "proa/kernels/linear/matrix_batch.h"
#include "proa/simd/gemm/unpacked.h"
#include "proa/simd/tuning.h"

namespace proa::PROA_ISA {
namespace {

bool takes_products(DType t) { return is_floating(t) || is_complex(t); }

void set_y(Product* p, const View& y) {
  p->dtype = y.dtype;
  p->k = y.shape[y.rank - 2];
  p->n = y.shape[y.rank - 1];
  p->b.data = y.data;
  p->b.steps = coalesce_axes(y, y.rank - 2, y.rank - 1);
  p->b.stride = p->n == 1 ? 1 : y.stride[y.rank - 1];
}

/// The product of one pair of matrices, or of all of x with the one matrix y.
Product product_of(const Call& c, bool folded) {
  const View &x = c.in[0], &z = c.out[0];
  Product p;
  set_y(&p, c.in[1]);
  const int first = folded ? 0 : x.rank - 2, first_z = folded ? 0 : z.rank - 2;
  p.m = 1;
  for (int d = first; d + 1 < x.rank; ++d) p.m *= x.shape[d];
  p.a.data = x.data;
  p.a.rows = coalesce_axes(x, first, x.rank - 1);
  p.a.steps = coalesce_axes(x, x.rank - 1, x.rank);
  p.end.out = {z.data, z.dtype, coalesce_axes(z, first_z, z.rank - 1),
               p.n == 1 ? 1 : z.stride[z.rank - 1]};
  if (folded) p.b.packed = c.packed;
  return p;
}

const void* shifted(const void* p, int64_t elements, DType t) {
  return static_cast<const uint8_t*>(p) + elements * static_cast<int64_t>(size_of(t));
}

int64_t slots_of(const Product& p, int64_t count) {
  if (p.m * p.n * p.k >= kSplitMacs) return 1;
  return count < kBatchSlots ? count : kBatchSlots;
}

void multiply_small_batch(const Call& c, const Product& p) {
  const UnpackedGemm s = unpacked_gemm(p);
  const Batch batch = batch_of(c);
  const int64_t grain = 1 + kSmallMTaskMacs / (p.m * p.n * p.k + kCallMacs);
  int64_t ahead[2] = {};  // bytes from a matrix to the next
  for (int v = 0; v < 2 && batch.rank > 0; ++v)
    ahead[v] = batch.stride[v][batch.rank - 1] * static_cast<int64_t>(size_of(p.dtype));
  parallel_for(c, batch.count, grain, [&](int64_t begin, int64_t end) {
    UnpackedGemm one = s;
    BatchIterator batch_item(batch, begin);
    for (int64_t i = begin; i < end; ++i, batch_item.next()) {
      one.a.data = shifted(s.a.data, batch_item.offset[0], p.dtype);
      one.b.data = shifted(s.b.data, batch_item.offset[1], p.dtype);
      one.c = const_cast<void*>(shifted(s.c, batch_item.offset[2], p.dtype));
      prefetch_next(p.dtype, ahead[0], ahead[1], &one);
      multiply_unpacked(p.dtype, one);
    }
  });
}

void multiply_batch(const Call& c) {
  const Product p = product_of(c, false);
  if (is_unpacked(p, kUnpackedBatchMacs)) return multiply_small_batch(c, p);
  const Batch batch = batch_of(c);
  if (batch.count == 0) return;
  const int64_t slots = slots_of(p, batch.count);
  const size_t bytes = (product_scratch(p) + 63) & ~size_t{63};
  Call serial = c;
  if (slots > 1) serial.parallel = nullptr;
  auto run = [&](int64_t slot) {
    const int64_t begin = slot * batch.count / slots, end = (slot + 1) * batch.count / slots;
    Product one = p;
    BatchIterator batch_item(batch, begin);
    for (int64_t i = begin; i < end; ++i, batch_item.next()) {
      one.a.data = shifted(p.a.data, batch_item.offset[0], p.dtype);
      one.b.data = shifted(p.b.data, batch_item.offset[1], p.dtype);
      one.end.out.data =
          const_cast<void*>(shifted(p.end.out.data, batch_item.offset[2], p.end.out.dtype));
      multiply(serial, one, static_cast<uint8_t*>(c.scratch) + static_cast<size_t>(slot) * bytes);
    }
  };
  if (slots == 1) return run(0);
  const int64_t grain = 1 + kSmallMTaskMacs * slots / (batch.count * (p.m * p.n * p.k + kCallMacs));
  parallel_for(c, slots, grain, [&](int64_t begin, int64_t end) {
    for (int64_t slot = begin; slot < end; ++slot) run(slot);
  });
}

// -- the plain loop --------------------------------------------------------------------------
template <class T>
PROA_INLINE void add_product(T& z, T x, T y) {
  z += x * y;
}
PROA_INLINE void add_product(int32_t& z, int32_t x, int32_t y) {  // wraps, as NumPy does
  z = static_cast<int32_t>(static_cast<uint32_t>(z) +
                           static_cast<uint32_t>(x) * static_cast<uint32_t>(y));
}
PROA_INLINE void add_product(int64_t& z, int64_t x, int64_t y) {
  z = static_cast<int64_t>(static_cast<uint64_t>(z) +
                           static_cast<uint64_t>(x) * static_cast<uint64_t>(y));
}
template <class T>
void plain(const Call& c) {
  const View &x = c.in[0], &y = c.in[1], &z = c.out[0];
  const Batch batch = batch_of(c);
  const int64_t m = x.shape[x.rank - 2], k = x.shape[x.rank - 1], n = y.shape[y.rank - 1];
  const int64_t xs = x.stride[x.rank - 2], xk = x.stride[x.rank - 1], yk = y.stride[y.rank - 2],
                ys = y.stride[y.rank - 1], zr = z.stride[z.rank - 2], zs = z.stride[z.rank - 1];
  const int64_t grain = 1 + kIntegerTaskMacs / (n * k + 1);
  parallel_for(c, batch.count * m, grain, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const BatchIterator batch_item(batch, r / m);
      const T* a = x.as<T>() + batch_item.offset[0] + r % m * xs;
      T* to = z.as<T>() + batch_item.offset[2] + r % m * zr;
      for (int64_t j = 0; j < n; ++j) to[j * zs] = T{};
      for (int64_t p = 0; p < k; ++p) {
        const T* b = y.as<T>() + batch_item.offset[1] + p * yk;
        const T factor = a[p * xk];
        if (ys == 1 && zs == 1)
          for (int64_t j = 0; j < n; ++j) add_product(to[j], factor, b[j]);
        else
          for (int64_t j = 0; j < n; ++j) add_product(to[j * zs], factor, b[j * ys]);
      }
    }
  });
}

}  // namespace

Status matmul(const Call& c) {
  switch (c.in[0].dtype) {
    case DType::kI32:
      plain<int32_t>(c);
      return Status::kOk;
    case DType::kI64:
      plain<int64_t>(c);
      return Status::kOk;
    default:
      break;
  }
  if (!takes_products(c.in[0].dtype)) return Status::kUnimplemented;
  if (one_matrix(c.in[1]))
    multiply(c, product_of(c, true), c.scratch);
  else
    multiply_batch(c);
  return Status::kOk;
}

size_t matmul_scratch(const Call& c) {
  if (!takes_products(c.in[0].dtype)) return 0;
  if (one_matrix(c.in[1])) return product_scratch(product_of(c, true));
  const Product p = product_of(c, false);
  if (is_unpacked(p, kUnpackedBatchMacs)) return 0;
  const size_t slots = static_cast<size_t>(slots_of(p, batch_of(c).count));
  return slots * ((product_scratch(p) + 63) & ~size_t{63});
}

size_t matmul_pack_size(const Call& c) {
  if (!is_floating(c.in[1].dtype) || !one_matrix(c.in[1])) return 0;
  Product p;
  set_y(&p, c.in[1]);
  return product_packed_size(p);
}

Status matmul_pack(const Call& c, void* packed) {
  Product p;
  set_y(&p, c.in[1]);
  pack_product(p, packed);
  return Status::kOk;
}

}  // namespace proa::PROA_ISA
