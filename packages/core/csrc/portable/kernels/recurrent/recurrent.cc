// A recurrent cell along a sequence: at each step one product of all states with the recurrent
// weight (packed once, or by recurrent_pack if it is a constant), then the gates of each sample.
// A weight of BF16 is multiplied by pairs where the CPU does: the states are rounded for the
// product alone. Peak: a step of a few samples reads the weight once, from the cache that holds it.
#include "proa/gen/attrs/recurrent.h"
#include "proa/base/arith.h"
#include "proa/kernels/recurrent/step.h"

namespace proa::PROA_ISA {
namespace {

template <class C>
struct Work : StepWork<C> {
  bool pairs;          // BF16 is multiplied by pairs:
  uint16_t* narrowed;  // h, rounded
  uint8_t *packed, *product;
  size_t bytes;
};

/// w^T as the right side of h @ w^T.
Product weight_of(const View& w) {
  Product p;
  p.dtype = w.dtype;
  p.n = w.shape[0];
  p.k = w.shape[1];
  p.b.data = w.data;
  p.b.steps = lines(p.k, w.stride[1]);
  p.b.stride = stride_of(w, 0);
  return p;
}

template <class C>
Product product_of(const Call& c, const CellSizes& s, const Work<C>& work) {
  Product p;
  p.dtype = work.pairs ? DType::kBF16 : dtype_of<C>();
  p.m = s.batch;
  p.n = s.gates;
  p.k = s.hidden;
  p.a.data = work.pairs ? static_cast<const void*>(work.narrowed) : work.h;
  p.a.rows = lines(s.batch, s.hidden);
  p.a.steps = lines(s.hidden, 1);
  p.b.steps = lines(s.hidden, s.gates);
  p.b.packed = c.packed != nullptr ? c.packed : work.packed;
  // While scratch is being counted there is no memory yet; what counts is that there will be.
  if (p.b.packed == nullptr) p.b.packed = &c;
  p.bias = optional_input(c, 4);
  p.end.out = rows_in(work.gates, s.batch, s.gates);
  return p;
}

template <class C>
Work<C> carve_workspace(const Call& c, const CellSizes& s, void* memory) {
  Workspace workspace(memory);
  Work<C> w = {};
  take_steps(s, &workspace, &w);
  w.pairs = multiplies_bf16_pairs(c.in[1].dtype);
  if (w.pairs) w.narrowed = workspace.take<uint16_t>(s.batch * s.hidden);
  const size_t packed = c.packed != nullptr ? 0 : product_packed_size(weight_of(c.in[1]));
  w.packed = workspace.take<uint8_t>(static_cast<int64_t>(packed));
  w.product = workspace.take<uint8_t>(static_cast<int64_t>(product_scratch(product_of(c, s, w))));
  w.bytes = workspace.bytes();
  return w;
}

template <class C>
Status run(const Call& c, const CellSizes& s, bool reverse) {
  const Work<C> work = carve_workspace<C>(c, s, c.scratch);
  if (c.packed == nullptr) pack_product(weight_of(c.in[1]), work.packed);
  read_states(c.in[2], s, work.h);
  if (s.cell == Cell::kLstm) read_states(c.in[3], s, work.c);
  const Product product = product_of(c, s, work);
  for (int64_t k = 0; k < s.time; ++k) {
    const int64_t t = reverse ? s.time - 1 - k : k;
    if (work.pairs) narrow(work.h, DType::kBF16, 1, s.batch * s.hidden, work.narrowed);
    multiply(c, product, work.product);
    parallel_for(c, s.batch, sample_grain(s), [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) sample(c, s, optional_input(c, 5), work, t, b);
    });
  }
  write_states(c.out[1], s, work.h);
  if (s.cell == Cell::kLstm) write_states(c.out[2], s, work.c);
  return Status::kOk;
}

CellSizes sizes_of(const Call& c) {
  return cell_sizes(c.attr<RecurrentAttrs>().cell, c.in[0].shape[0], c.in[1], c.in[2]);
}

}  // namespace

Status recurrent(const Call& c) {
  const CellSizes s = sizes_of(c);
  const bool reverse = c.attr<RecurrentAttrs>().reverse != 0;
  if (!is_floating(c.in[0].dtype)) return Status::kUnimplemented;
  return is_double(c.in[0].dtype) ? run<double>(c, s, reverse) : run<float>(c, s, reverse);
}

size_t recurrent_scratch(const Call& c) {
  const CellSizes s = sizes_of(c);
  return is_double(c.in[0].dtype) ? carve_workspace<double>(c, s, nullptr).bytes
                                  : carve_workspace<float>(c, s, nullptr).bytes;
}

size_t recurrent_pack_size(const Call& c) { return product_packed_size(weight_of(c.in[1])); }
Status recurrent_pack(const Call& c, void* packed) {
  pack_product(weight_of(c.in[1]), packed);
  return Status::kOk;
}

}  // namespace proa::PROA_ISA
