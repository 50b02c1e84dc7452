#pragma once
// Runs of an engine on tensors; what follows them as a node of the tape.
#include <pybind11/pybind11.h>

#include <utility>
#include <vector>

#include "proa/runtime/engine.h"
#include "python.h"

namespace proa {

/// An output that overwrites no input.
constexpr uint32_t kNoInput = 0xffffffffu;

/// Sets the Python error: its type by the status, its field `node`.
void set_engine_error(const EngineError& error);

/// f(), with Python's exception where a binding function met one.
template <class F>
auto crossing(F&& f) {
  try {
    return f();
  } catch (const bind::PythonError&) {
    throw pybind11::error_already_set();
  }
}

/// How the run of a program with two parts is recorded on the tape.
struct TapePlan {
  TapePlan(size_t results, std::vector<uint32_t> reread_inputs,
           std::vector<uint32_t> reread_results, std::vector<std::pair<uint32_t, uint32_t>> seeds,
           std::vector<uint32_t> parts)
      : results(results),
        reread_inputs(std::move(reread_inputs)),
        reread_results(std::move(reread_results)),
        seeds(std::move(seeds)),
        parts(std::move(parts)) {}

  size_t results;  // the first outputs are what is called for
  std::vector<uint32_t> reread_inputs,
      reread_results;  // inputs and results that the second part reads
  std::vector<std::pair<uint32_t, uint32_t>> seeds;  // (input, result whose gradient it is)
  std::vector<uint32_t> parts;  // outputs that make each gradient: none, one, or rows and values
};

/// What a program makes of tensors, in order, but for outputs that overwrite inputs.
pybind11::list run_whole(Engine& engine, const pybind11::sequence& inputs,
                         const pybind11::sequence& numbers);
/// The results of the first part, on the tape; its backward, which gives the tensors `wanted` their
/// gradients, is the second.
pybind11::list run_on_tape(const pybind11::object& engine, const pybind11::sequence& inputs,
                           const pybind11::sequence& numbers, const pybind11::sequence& wanted,
                           const TapePlan& plan);

}  // namespace proa
