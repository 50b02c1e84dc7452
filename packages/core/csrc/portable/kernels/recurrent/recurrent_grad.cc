// Gradient of a recurrent cell along a sequence: the steps in reverse, each with the gradients of
// its gates and one product that hands them to the state before; then one product over all steps
// for the weight. A weight of BF16 is multiplied by pairs where the CPU does, and so are gradients
// and states that are rounded for the products.
#include "proa/base/arith.h"
#include "proa/base/task_size.h"
#include "proa/gen/attrs/recurrent.h"
#include "proa/kernels/recurrent/cell.h"

namespace proa::PROA_ISA {
namespace {

struct Inputs {
  const View *dy, *dh, *dc, *y, *reserve, *w, *h0, *c0, *length;
};

Inputs inputs_of(const Call& c) {
  return {&c.in[0],
          &c.in[1],
          &c.in[2],
          &c.in[3],
          &c.in[4],
          &c.in[5],
          &c.in[6],
          optional_input(c, 7),
          optional_input(c, 8)};
}

template <class C>
struct Work {
  C* dgates;          // (time, batch, gates): of the recurrent part of the gates
  C* previous;        // (time, batch, hidden): the state before each step, 0 where there is no step
  C *dh, *pass, *dc;  // (batch, hidden): passed to the previous step, outside the product, and of c
  bool pairs;         // BF16 is multiplied by pairs: dgates and previous, rounded
  uint16_t *narrow_dgates, *narrow_previous;
  C* lines;  // buffers of a sample
  int64_t line_size;
  uint8_t *packed, *product;
  size_t bytes;
};

/// w as the right side of dgates @ w.
Product weight_of(const CellSizes& s, const View& w) {
  Product p;
  p.dtype = w.dtype;
  p.n = s.hidden;
  p.k = s.gates;
  p.b.data = w.data;
  p.b.steps = lines(s.gates, w.stride[0]);
  p.b.stride = stride_of(w, 1);
  return p;
}

/// dh = dgates of step t @ w + pass.
template <class C>
Product step_product(const CellSizes& s, const Work<C>& work, int64_t t) {
  const int64_t first = t * s.batch * s.gates;
  Product p;
  p.dtype = work.pairs ? DType::kBF16 : dtype_of<C>();
  p.m = s.batch;
  p.n = s.hidden;
  p.k = s.gates;
  p.a.data =
      work.pairs ? static_cast<const void*>(work.narrow_dgates + first) : work.dgates + first;
  p.a.rows = lines(s.batch, s.gates);
  p.a.steps = lines(s.gates, 1);
  p.b.steps = lines(s.gates, s.hidden);
  p.b.packed = work.packed == nullptr ? static_cast<const void*>(&s) : work.packed;
  p.end.out = rows_in(work.dh, s.batch, s.hidden);
  p.end.residual = rows_in(work.pass, s.batch, s.hidden);
  return p;
}

/// dw = dgates^T @ previous over all steps and samples.
template <class C>
Product weight_product(const CellSizes& s, const Work<C>& work, const View& dw) {
  Product p;
  p.dtype = work.pairs ? DType::kBF16 : dtype_of<C>();
  p.m = s.gates;
  p.n = s.hidden;
  p.k = s.time * s.batch;
  p.a.data = work.pairs ? static_cast<const void*>(work.narrow_dgates) : work.dgates;
  p.a.rows = lines(s.gates, 1);
  p.a.steps = lines(p.k, s.gates);
  p.b.data = work.pairs ? static_cast<const void*>(work.narrow_previous) : work.previous;
  p.b.steps = lines(p.k, s.hidden);
  p.end.out = {dw.data, dw.dtype, lines(s.gates, dw.stride[0]), stride_of(dw, 1)};
  return p;
}

template <class C>
Work<C> carve_workspace(const Call& c, const CellSizes& s, void* memory) {
  Workspace workspace(memory);
  Work<C> w = {};
  w.dgates = workspace.take<C>(s.time * s.batch * s.gates);
  w.previous = workspace.take<C>(s.time * s.batch * s.hidden);
  w.pairs = multiplies_bf16_pairs(inputs_of(c).w->dtype);
  if (w.pairs) {
    w.narrow_dgates = workspace.take<uint16_t>(s.time * s.batch * s.gates);
    w.narrow_previous = workspace.take<uint16_t>(s.time * s.batch * s.hidden);
  }
  w.dh = workspace.take<C>(s.batch * s.hidden);
  w.pass = workspace.take<C>(s.batch * s.hidden);
  w.dc = workspace.take<C>(s.batch * s.hidden);
  w.line_size = s.reserved + s.gates + 3 * s.hidden;
  w.lines = workspace.take<C>(s.batch * w.line_size);
  w.packed = workspace.take<uint8_t>(
      static_cast<int64_t>(product_packed_size(weight_of(s, *inputs_of(c).w))));
  const size_t step = product_scratch(step_product(s, w, 0));
  const size_t weight = product_scratch(weight_product(s, w, c.out[1]));
  w.product = workspace.take<uint8_t>(static_cast<int64_t>(step > weight ? step : weight));
  w.bytes = workspace.bytes();
  return w;
}

/// One sample's step. All arrays are lines of `hidden` (or gates, reserved) values.
template <class C>
struct Step {
  const C *dy, *y, *reserve, *previous, *previous_c;
  C *dgates, *dinput;  // of the recurrent and of the input's part; equal but for gru
  C *dh, *pass, *dc;
  int64_t hidden;
};

template <class C>
void simple(const Step<C>& s, bool relu) {
  using L = Lanes<C>;
  using V = typename L::V;
  for_lanes<C>(s.hidden, [&](int64_t i, int64_t n) {
    const V d = L::get(s.dh + i, n) + L::get(s.dy + i, n), y = L::get(s.y + i, n);
    L::put(s.dgates + i, relu ? (y > 0 ? d : V{}) : d * (1 - y * y), n);
    L::put(s.pass + i, V{}, n);
  });
}

template <class C>
void lstm(const Step<C>& s) {
  using L = Lanes<C>;
  using V = typename L::V;
  const int64_t h = s.hidden;
  for_lanes<C>(h, [&](int64_t j, int64_t n) {
    const auto saved = [&](int64_t k) { return L::get(s.reserve + k * h + j, n); };
    const V i = saved(0), f = saved(1), g = saved(2), o = saved(3), t = tanh(saved(4));
    const V dh = L::get(s.dh + j, n) + L::get(s.dy + j, n);
    const V dc = L::get(s.dc + j, n) + dh * o * (1 - t * t);
    L::put(s.dgates + j, dc * g * i * (1 - i), n);
    L::put(s.dgates + h + j, dc * L::get(s.previous_c + j, n) * f * (1 - f), n);
    L::put(s.dgates + 2 * h + j, dc * i * (1 - g * g), n);
    L::put(s.dgates + 3 * h + j, dh * t * o * (1 - o), n);
    L::put(s.dc + j, dc * f, n);
    L::put(s.pass + j, V{}, n);
  });
}

template <class C>
void gru(const Step<C>& s) {
  using L = Lanes<C>;
  using V = typename L::V;
  const int64_t h = s.hidden;
  for_lanes<C>(h, [&](int64_t j, int64_t n) {
    const auto saved = [&](int64_t k) { return L::get(s.reserve + k * h + j, n); };
    const V r = saved(0), z = saved(1), fresh = saved(2), part = saved(3);
    const V dh = L::get(s.dh + j, n) + L::get(s.dy + j, n);
    const V dfresh = dh * (1 - z) * (1 - fresh * fresh);
    const V dr = dfresh * part * r * (1 - r);
    const V dz = dh * (L::get(s.previous + j, n) - fresh) * z * (1 - z);
    L::put(s.dgates + j, dr, n);
    L::put(s.dgates + h + j, dz, n);
    L::put(s.dgates + 2 * h + j, dfresh * r, n);
    L::put(s.dinput + j, dr, n);
    L::put(s.dinput + h + j, dz, n);
    L::put(s.dinput + 2 * h + j, dfresh, n);
    L::put(s.pass + j, dh * z, n);
  });
}

template <class C>
void sample(const Call& c, const CellSizes& s, const Work<C>& work, bool reverse, int64_t t,
            int64_t b) {
  const Inputs in = inputs_of(c);
  const View& dxg = c.out[0];
  const int64_t h = s.hidden, row = t * s.batch + b;
  C* const previous = work.previous + row * h;
  C* buffer = work.lines + b * work.line_size;
  Step<C> step = {};
  step.dgates = work.dgates + row * s.gates;
  step.dh = work.dh + b * h;
  step.pass = work.pass + b * h;
  step.dc = work.dc + b * h;
  step.hidden = h;
  const int64_t count = steps_of(in.length, b, s.time);
  if (t >= count) {  // no step: states and their gradients stay
    for (int64_t i = 0; i < s.gates; ++i) step.dgates[i] = 0;
    for (int64_t i = 0; i < h; ++i) previous[i] = 0;
    for (int64_t i = 0; i < h; ++i) step.pass[i] = step.dh[i];
    write(dxg, line(dxg, t, b), s.gates, step.dgates);
    return;
  }
  const bool first = t == (reverse ? count - 1 : 0);
  const int64_t before = reverse ? t + 1 : t - 1;
  const View& from = first ? *in.h0 : *in.y;
  widen(first ? line(from, b) : line(from, before, b), from.dtype, stride_of(from, from.rank - 1),
        h, previous);
  step.previous = previous;
  step.reserve = read(*in.reserve, line(*in.reserve, t, b), s.reserved, buffer);
  buffer += s.reserved;
  step.dinput = s.cell == Cell::kGru ? buffer : step.dgates;
  buffer += s.gates;
  step.dy = read(*in.dy, line(*in.dy, t, b), h, buffer);
  step.y = read(*in.y, line(*in.y, t, b), h, buffer + h);
  if (s.cell == Cell::kLstm) {
    const View& r = *in.reserve;
    const int64_t part = 4 * h * stride_of(r, 2) * static_cast<int64_t>(size_of(r.dtype));
    step.previous_c = first ? read(*in.c0, line(*in.c0, b), h, buffer + 2 * h)
                            : read(r, line(r, before, b) + part, h, buffer + 2 * h);
    lstm(step);
  } else if (s.cell == Cell::kGru) {
    gru(step);
  } else {
    simple(step, s.cell == Cell::kRelu);
  }
  write(dxg, line(dxg, t, b), s.gates, step.dinput);
}

/// dbias: the sum of dgates over steps and samples, in their order.
template <class C>
void sum_gates(const Call& c, const CellSizes& s, const C* dgates) {
  using L = Lanes<C>;
  const View& to = c.out[2];
  const int64_t rows = s.time * s.batch;
  const int64_t grain = round_up(1 + kReduceTask / (rows + 1), kLanes);
  parallel_for(c, s.gates, grain, [&](int64_t begin, int64_t end) {
    for_lanes<C>(end - begin, [&](int64_t i, int64_t n) {
      typename L::V sum = {};
      for (int64_t r = 0; r < rows; ++r) sum += L::get(dgates + r * s.gates + begin + i, n);
      C values[L::kCount];
      L::put(values, sum, n);
      const int64_t stride = stride_of(to, 0);
      narrow(values, to.dtype, stride, n, line_at(to, (begin + i) * stride));
    });
  });
}

template <class C>
Status run(const Call& c, const CellSizes& s, bool reverse) {
  const Inputs in = inputs_of(c);
  const Work<C> work = carve_workspace<C>(c, s, c.scratch);
  pack_product(weight_of(s, *in.w), work.packed);
  read_states(*in.dh, s, work.dh);
  if (s.cell == Cell::kLstm) read_states(*in.dc, s, work.dc);
  for (int64_t k = s.time - 1; k >= 0; --k) {
    const int64_t t = reverse ? s.time - 1 - k : k;
    parallel_for(c, s.batch, sample_grain(s), [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) sample(c, s, work, reverse, t, b);
    });
    const int64_t first = t * s.batch * s.gates;
    if (work.pairs)
      narrow(work.dgates + first, DType::kBF16, 1, s.batch * s.gates, work.narrow_dgates + first);
    multiply(c, step_product(s, work, t), work.product);
  }
  if (work.pairs)
    narrow(work.previous, DType::kBF16, 1, s.time * s.batch * s.hidden, work.narrow_previous);
  write_states(c.out[3], s, work.dh);
  if (s.cell == Cell::kLstm) write_states(c.out[4], s, work.dc);
  multiply(c, weight_product(s, work, c.out[1]), work.product);
  sum_gates(c, s, work.dgates);
  return Status::kOk;
}

CellSizes sizes_of(const Call& c) {
  return cell_sizes(c.attr<RecurrentGradAttrs>().cell, c.in[0].shape[0], c.in[5], c.in[6]);
}

}  // namespace

Status recurrent_grad(const Call& c) {
  const CellSizes s = sizes_of(c);
  const bool reverse = c.attr<RecurrentGradAttrs>().reverse != 0;
  if (!is_floating(c.in[0].dtype)) return Status::kUnimplemented;
  return is_double(c.in[0].dtype) ? run<double>(c, s, reverse) : run<float>(c, s, reverse);
}

size_t recurrent_grad_scratch(const Call& c) {
  const CellSizes s = sizes_of(c);
  return is_double(c.in[0].dtype) ? carve_workspace<double>(c, s, nullptr).bytes
                                  : carve_workspace<float>(c, s, nullptr).bytes;
}

}  // namespace proa::PROA_ISA
