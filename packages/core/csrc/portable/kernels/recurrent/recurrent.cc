// A recurrent cell along a sequence: at each step one product of all states with the recurrent
// weight (packed once, or by recurrent_pack if it is a constant), then the gates of each sample.
#include "proa/gen/attrs/recurrent.h"
#include "proa/base/arith.h"
#include "proa/kernels/recurrent/cell.h"

namespace proa::PROA_ISA {
namespace {

template <class C>
struct Work {
  C *gates, *h, *c;  // (batch, gates), (batch, hidden) twice
  C* input;          // (batch, gates): lines of xg that are not contiguous values of C
  uint8_t *packed, *product;
  size_t bytes;
};

template <class C>
struct Step {
  const C* x;  // the input's part of the gates
  C *g, *h, *c;
  int64_t hidden;
};

/// w^T as the right side of h @ w^T.
Product weight_of(const View& w) {
  Product p;
  p.dtype = w.dtype;
  p.widened = true;  // the other side is
  p.n = w.shape[0];
  p.k = w.shape[1];
  p.b = w.data;
  p.b_steps = lines(p.k, w.stride[1]);
  p.b_stride = stride_of(w, 0);
  return p;
}

template <class C>
Product product_of(const Call& c, const CellSizes& s, const Work<C>& work) {
  Product p;
  p.dtype = dtype_of<C>();
  p.m = s.batch;
  p.n = s.gates;
  p.k = s.hidden;
  p.a = work.h;
  p.a_rows = lines(s.batch, s.hidden);
  p.a_steps = lines(s.hidden, 1);
  p.b_steps = lines(s.hidden, s.gates);
  p.packed = c.packed != nullptr ? c.packed : work.packed;
  // While scratch is being counted there is no memory yet; what counts is that there will be.
  if (p.packed == nullptr) p.packed = &c;
  p.bias = optional_input(c, 4);
  p.end.out = rows_in(work.gates, s.batch, s.gates);
  return p;
}

template <class C>
Work<C> carve_workspace(const Call& c, const CellSizes& s, void* memory) {
  Workspace workspace(memory);
  Work<C> w = {};
  w.gates = workspace.take<C>(s.batch * s.gates);
  w.h = workspace.take<C>(s.batch * s.hidden);
  w.c = workspace.take<C>(s.batch * s.hidden);
  w.input = workspace.take<C>(s.batch * s.gates);
  const size_t packed = c.packed != nullptr ? 0 : product_packed_size(weight_of(c.in[1]));
  w.packed = workspace.take<uint8_t>(static_cast<int64_t>(packed));
  w.product = workspace.take<uint8_t>(static_cast<int64_t>(product_scratch(product_of(c, s, w))));
  w.bytes = workspace.bytes();
  return w;
}

template <class C>
void simple(const Step<C>& s, bool relu) {
  using L = Lanes<C>;
  using V = typename L::V;
  for_lanes<C>(s.hidden, [&](int64_t i, int64_t n) {
    const V sum = L::get(s.g + i, n) + L::get(s.x + i, n);
    L::put(s.h + i, relu ? (sum > 0 ? sum : V{}) : tanh(sum), n);
  });
}

/// Leaves i, f, g and o in s.g.
template <class C>
void lstm(const Step<C>& s) {
  using L = Lanes<C>;
  using V = typename L::V;
  const int64_t h = s.hidden;
  for_lanes<C>(h, [&](int64_t j, int64_t n) {
    const auto sum = [&](int64_t k) {
      return L::get(s.g + k * h + j, n) + L::get(s.x + k * h + j, n);
    };
    const V i = sigmoid(sum(0)), f = sigmoid(sum(1)), g = tanh(sum(2)), o = sigmoid(sum(3));
    const V c = f * L::get(s.c + j, n) + i * g;
    L::put(s.g + j, i, n);
    L::put(s.g + h + j, f, n);
    L::put(s.g + 2 * h + j, g, n);
    L::put(s.g + 3 * h + j, o, n);
    L::put(s.c + j, c, n);
    L::put(s.h + j, o * tanh(c), n);
  });
}

/// Leaves r, z and the recurrent part of n in s.g, and n in s.c.
template <class C>
void gru(const Step<C>& s) {
  using L = Lanes<C>;
  using V = typename L::V;
  const int64_t h = s.hidden;
  for_lanes<C>(h, [&](int64_t j, int64_t n) {
    const auto part = [&](const C* from, int64_t k) { return L::get(from + k * h + j, n); };
    const V r = sigmoid(part(s.g, 0) + part(s.x, 0)), z = sigmoid(part(s.g, 1) + part(s.x, 1));
    const V fresh = tanh(part(s.x, 2) + r * part(s.g, 2));
    L::put(s.g + j, r, n);
    L::put(s.g + h + j, z, n);
    L::put(s.c + j, fresh, n);
    L::put(s.h + j, (L::get(s.h + j, n) - fresh) * z + fresh, n);
  });
}

template <class C>
void sample(const Call& call, const CellSizes& s, const Work<C>& work, int64_t t, int64_t b) {
  const View &x = call.in[0], &y = call.out[0], &reserve = call.out[3];
  const int64_t h = s.hidden;
  Step<C> step = {nullptr, work.gates + b * s.gates, work.h + b * h, work.c + b * h, h};
  if (t >= steps_of(optional_input(call, 5), b, s.time)) {
    for (int64_t i = 0; i < s.gates; ++i) step.g[i] = 0;
    write(y, line(y, t, b), h, step.g);
    for (int64_t i = 0; i < s.kept; i += h) {
      write(reserve,
            line(reserve, t, b) +
                i * stride_of(reserve, 2) * static_cast<int64_t>(size_of(reserve.dtype)),
            h, step.g);
    }
    return;
  }
  step.x = read(x, line(x, t, b), s.gates, work.input + b * s.gates);
  if (s.cell == Cell::kLstm) {
    lstm(step);
  } else if (s.cell == Cell::kGru) {
    gru(step);
  } else {
    simple(step, s.cell == Cell::kRelu);
  }
  write(y, line(y, t, b), h, step.h);
  if (s.kept == 0) return;
  uint8_t* const kept = line(reserve, t, b);
  const int64_t part = h * stride_of(reserve, 2) * static_cast<int64_t>(size_of(reserve.dtype));
  if (s.cell == Cell::kLstm) {
    write(reserve, kept, 4 * h, step.g);
    write(reserve, kept + 4 * part, h, step.c);
  } else {
    write(reserve, kept, 2 * h, step.g);
    write(reserve, kept + 2 * part, h, step.c);
    write(reserve, kept + 3 * part, h, step.g + 2 * h);
  }
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
    multiply(c, product, work.product);
    parallel_for(c, s.batch, sample_grain(s), [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) sample(c, s, work, t, b);
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
