#pragma once
// One step of a recurrent cell, after the product of the states.
#include "proa/kernels/recurrent/cell.h"

namespace proa::PROA_ISA {

template <class C>
struct StepWork {
  C *gates, *h, *c;  // (batch, gates), (batch, hidden) twice
  C* input;          // (batch, gates): lines of xg that are not contiguous values of C
};

template <class C>
void take_steps(const CellSizes& s, Workspace* workspace, StepWork<C>* w) {
  w->gates = workspace->take<C>(s.batch * s.gates);
  w->h = workspace->take<C>(s.batch * s.hidden);
  w->c = workspace->take<C>(s.batch * s.hidden);
  w->input = workspace->take<C>(s.batch * s.gates);
}

template <class C>
struct Step {
  const C* x;  // the input's part of the gates
  C *g, *h, *c;
  int64_t hidden;
};

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

/// Step t of sample b, whose recurrent product is in work.gates: the new states, and the rows of
/// the outputs y and, if s.reserved > 0, reserve.
template <class C>
void sample(const Call& call, const CellSizes& s, const View* length, const StepWork<C>& work,
            int64_t t, int64_t b) {
  const View &x = call.in[0], &y = call.out[0];
  const int64_t h = s.hidden;
  Step<C> step = {nullptr, work.gates + b * s.gates, work.h + b * h, work.c + b * h, h};
  if (t >= steps_of(length, b, s.time)) {
    for (int64_t i = 0; i < s.gates; ++i) step.g[i] = 0;
    write(y, line(y, t, b), h, step.g);
    for (int64_t i = 0; i < s.reserved; i += h) {
      const View& reserve = call.out[3];
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
  if (s.reserved == 0) return;
  const View& reserve = call.out[3];
  uint8_t* const row = line(reserve, t, b);
  const int64_t part = h * stride_of(reserve, 2) * static_cast<int64_t>(size_of(reserve.dtype));
  if (s.cell == Cell::kLstm) {
    write(reserve, row, 4 * h, step.g);
    write(reserve, row + 4 * part, h, step.c);
  } else {
    write(reserve, row, 2 * h, step.g);
    write(reserve, row + 2 * part, h, step.c);
    write(reserve, row + 3 * part, h, step.g + 2 * h);
  }
}

}  // namespace proa::PROA_ISA
