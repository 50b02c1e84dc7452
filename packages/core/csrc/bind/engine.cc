// proa._core.Engine.
#include "engine.h"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <array>
#include <cstring>
#include <optional>

#include "engine_run.h"
#include "proa/base/winograd.h"
#include "proa/runtime/checksum.h"
#include "proa/runtime/engine.h"
#include "proa/runtime/strategies.h"
#include "proa/train/run.h"
#include "proa/train/watch.h"
#include "python.h"

namespace py = pybind11;

namespace proa {

namespace {

constexpr const char* kNames[kDTypeCount] = {"bool",    "uint8",   "int8",      "int16",
                                             "int32",   "int64",   "float16",   "bfloat16",
                                             "float32", "float64", "complex64", "complex128"};
// NumPy has no bfloat16: its bits travel as uint16.
constexpr const char* kNumpy[kDTypeCount] = {"?",  "u1", "i1", "i2", "i4", "i8",
                                             "f2", "u2", "f4", "f8", "c8", "c16"};
constexpr char kKinds[kDTypeCount] = {'b', 'u', 'i', 'i', 'i', 'i', 'f', 'u', 'f', 'f', 'c', 'c'};

// NumPy's types, made once: to look one up by its name takes longer than a small run.
const py::dtype& numpy_type(DType dtype) {
  static const auto* types = [] {
    auto* dtypes = new std::vector<py::dtype>;
    for (const char* name : kNumpy) dtypes->emplace_back(name);
    return dtypes;
  }();
  return (*types)[static_cast<size_t>(dtype)];
}

/// The array as a view; `spec` names the input and settles what uint16 means.
View view_of(const py::array& array, const IoSpec& spec) {
  View v;
  if (array.ndim() > kMaxRank) {
    throw EngineError(Status::kInvalidArgument, "[Engine] input '" + spec.name +
                                                    "' must have rank <= 8, got " +
                                                    std::to_string(array.ndim()));
  }
  int code = -1;
  const py::dtype given = array.dtype();
  for (int i = 0; i < kDTypeCount; ++i) {
    if (i == static_cast<int>(DType::kBF16) && spec.dtype != DType::kBF16) continue;
    const auto size = static_cast<py::ssize_t>(size_of(static_cast<DType>(i)));
    if (given.kind() == kKinds[i] && given.itemsize() == size) code = i;
  }
  if (code < 0) {
    throw EngineError(Status::kInvalidArgument, "[Engine] input '" + spec.name + "' must be " +
                                                    kNames[static_cast<int>(spec.dtype)] +
                                                    ", got " + std::string(py::str(given)));
  }
  v.dtype = static_cast<DType>(code);
  v.data = const_cast<void*>(array.data());
  v.rank = static_cast<int8_t>(array.ndim());
  for (int a = 0; a < v.rank; ++a) {
    v.shape[a] = array.shape(a);
    v.stride[a] = array.strides(a) / array.itemsize();
  }
  return v;
}

/// Strides that are no multiple of the element, or foreign byte order, cannot be a View: copy
/// those.
py::array usable(const py::object& given) {
  py::array array = py::array::ensure(given);
  if (!array) {
    PyErr_Clear();
    throw py::type_error("[Engine] inputs must be arrays, got " +
                         std::string(py::str(py::type::of(given))));
  }
  bool fits = array.dtype().byteorder() != '>';
  for (py::ssize_t a = 0; a < array.ndim(); ++a) {
    fits = fits && array.itemsize() > 0 && array.strides(a) % array.itemsize() == 0;
  }
  const auto address = reinterpret_cast<uintptr_t>(array.data());
  fits = fits && array.itemsize() > 0 &&
         address % static_cast<size_t>(array.itemsize() < 8 ? array.itemsize() : 8) == 0;
  if (fits) return array;
  const auto numpy = py::module_::import("numpy");
  return numpy.attr("array")(array, array.dtype().attr("newbyteorder")("="),
                             py::arg("order") = "C");
}

py::array array_for(const IoSpec& spec, View* v) {
  py::array result(numpy_type(spec.dtype), spec.shape);
  v->dtype = spec.dtype;
  v->rank = static_cast<int8_t>(spec.shape.size());
  for (int a = 0; a < v->rank; ++a) v->shape[a] = spec.shape[static_cast<size_t>(a)];
  v->set_contiguous();
  v->data = result.mutable_data();
  return result;
}

// A copy of a row-major array.
py::array array_of(const View& v) {
  py::array result(numpy_type(v.dtype), std::vector<int64_t>(v.shape, v.shape + v.rank));
  const auto bytes = static_cast<size_t>(v.numel()) * size_of(v.dtype);
  if (bytes > 0) std::memcpy(result.mutable_data(), v.data, bytes);
  return result;
}

py::list run(Engine& engine, const py::sequence& given) {
  const auto& specs = engine.inputs();
  if (given.size() != specs.size()) {
    throw EngineError(Status::kInvalidArgument, "[Engine] expected " +
                                                    std::to_string(specs.size()) + " inputs, got " +
                                                    std::to_string(given.size()));
  }
  std::vector<py::array> arrays;
  std::vector<View> inputs, outputs(engine.outputs().size());
  for (size_t i = 0; i < specs.size(); ++i) {
    arrays.push_back(usable(given[i]));
    inputs.push_back(view_of(arrays.back(), specs[i]));
  }
  py::list results;
  // With control flow shapes are known after the run: results are copied from the engine's memory.
  const bool known = !engine.has_control_flow();
  if (known) {
    const std::vector<IoSpec> wanted = engine.output_specs(inputs.data());
    for (size_t i = 0; i < wanted.size(); ++i) results.append(array_for(wanted[i], &outputs[i]));
  }
  crossing([&] {
    const Timed timed("program", EventKind::kOp);
    const bind::WithoutLock others;
    engine.run(inputs.data(), outputs.data());
  });
  for (const View& v : outputs) {
    if (!known) results.append(array_of(v));
  }
  return results;
}

// Lets Ctrl-C and other signals end a run, as if Python ran. Python handles them in its main
// thread alone; others, which may outlive the interpreter, must not acquire its lock.
std::function<void()> signal_taker() {
  const py::object main = py::module_::import("threading").attr("main_thread")();
  return [thread = main.attr("ident").cast<unsigned long>()] {
    if (PyThread_get_thread_ident() != thread) return;
    const py::gil_scoped_acquire lock;
    if (PyErr_CheckSignals() != 0) throw bind::PythonError();
  };
}

// stores: for each output the input that it overwrites, or -1; numbers: (node, byte, slot).
EngineUpdates updates_of(const std::vector<int64_t>& stores,
                         const std::vector<std::tuple<uint32_t, uint32_t, uint32_t>>& numbers) {
  EngineUpdates updates;
  updates.on = true;
  for (const int64_t input : stores) {
    updates.stores.push_back(input < 0 ? kNoInput : static_cast<uint32_t>(input));
  }
  for (const auto& [node, at, slot] : numbers) updates.numbers.push_back({node, at, slot});
  return updates;
}

// Pairs of a node and how many from it on run block by block.
std::vector<EngineChain> chains_of(const std::vector<std::pair<uint32_t, uint32_t>>& given) {
  std::vector<EngineChain> chains;
  chains.reserve(given.size());
  for (const auto& [first, count] : given) chains.push_back({first, count});
  return chains;
}

// How each node is computed.
std::vector<uint8_t> strategies_of(const std::vector<std::string>& names) {
  std::vector<uint8_t> strategies;
  strategies.reserve(names.size());
  for (const std::string& name : names) {
    Strategy strategy;
    if (!find_strategy(name, &strategy)) {
      throw EngineError(Status::kInvalidArgument,
                        "[Engine] expected a strategy that is empty, winograd, implicit_gemm or "
                        "im2col, got " +
                            name);
    }
    strategies.push_back(static_cast<uint8_t>(strategy));
  }
  return strategies;
}

py::list specs_of(const std::vector<IoSpec>& specs) {
  py::list result;
  for (const IoSpec& s : specs) {
    result.append(
        py::make_tuple(s.name, kNames[static_cast<int>(s.dtype)], py::tuple(py::cast(s.shape))));
  }
  return result;
}

using TakeSignals = std::function<void()>;

EngineOptions options_of(int threads, int max_plans, bool verify, const TakeSignals& interrupt) {
  EngineOptions o;
  o.threads = threads;
  o.max_plans = max_plans;
  o.verify_checksum = verify;
  o.interrupt = interrupt;
  return o;
}

using Steps = std::vector<std::tuple<std::string, std::string, int64_t>>;

// Notes the steps of the run in `body`: (op, name, nanoseconds).
template <class Body>
Steps steps_of(Engine& e, Body&& body) {
  Steps steps;
  e.set_profile(
      [&steps](const char* op, const char* name, int64_t ns) { steps.emplace_back(op, name, ns); });
  try {
    body();
  } catch (...) {
    e.set_profile(nullptr);
    throw;
  }
  e.set_profile(nullptr);
  return steps;
}

Steps profile(Engine& e, const py::sequence& inputs, const py::sequence& numbers) {
  return steps_of(e, [&] {
    if (e.options().updates.on) {
      run_whole(e, inputs, numbers);
    } else {
      run(e, inputs);
    }
  });
}

// The results and the steps of one run.
py::tuple run_profiled(Engine& e, const py::sequence& inputs) {
  py::list results;
  Steps steps = steps_of(e, [&] { results = run(e, inputs); });
  return py::make_tuple(results, steps);
}

void bind_errors() {
  // NOLINTNEXTLINE(performance-unnecessary-value-param): what pybind11 takes
  py::register_exception_translator([](std::exception_ptr p) {
    try {
      if (p) std::rethrow_exception(p);
    } catch (const EngineError& e) {
      set_engine_error(e);
    } catch (const EngineStopped& e) {
      py::set_error(py::module_::import("proa.errors").attr("UnavailableError"), e.what());
    }
  });
}

void bind_functions(py::module_& m) {
  m.def(
      "crc32",
      [](const py::buffer& bytes, uint32_t crc) {
        const py::buffer_info info = bytes.request();
        const bind::WithoutLock others;
        return crc32(crc, info.ptr, static_cast<size_t>(info.size * info.itemsize));
      },
      py::arg("bytes"), py::arg("crc") = 0);
  m.def(
      "suits_winograd",
      [](const py::object& dtype, std::array<int64_t, 4> weight, std::array<int64_t, 2> stride,
         std::array<int64_t, 2> dilation, int64_t groups) {
        ConvWeightShape shape = {DType::kF32,
                                 {weight[2], weight[3]},
                                 {stride[0], stride[1]},
                                 {dilation[0], dilation[1]},
                                 groups,
                                 weight[1],
                                 weight[0] / std::max<int64_t>(groups, 1)};
        return bind::parse_dtype(dtype.ptr(), &shape.dtype) && suits_winograd(shape);
      },
      py::arg("dtype"), py::arg("weight"), py::arg("stride"), py::arg("dilation"),
      py::arg("groups"));
}

WeightBytes bytes_of(const py::buffer& buffer) {
  const py::buffer_info info = buffer.request();
  return {info.ptr, static_cast<size_t>(info.size * info.itemsize)};
}

// Engines of a file or of bytes.
void bind_files(py::class_<Engine>& engine, const TakeSignals& take_signals) {
  engine
      .def_static(
          "load",
          [take_signals](const std::string& path, int threads, int max_plans, bool verify) {
            const bind::WithoutLock others;
            EngineOptions o = options_of(threads, max_plans, verify, take_signals);
            o.stored_chains = o.stored_strategies = true;
            return Engine::load(path, o);
          },
          py::arg("path"), py::arg("threads") = 0, py::arg("max_plans") = 8,
          py::arg("verify") = true)
      .def_static(
          "from_bytes",
          [take_signals](const py::buffer& given, int threads, int max_plans, bool verify,
                         const std::vector<std::pair<uint32_t, uint32_t>>& chains) {
            const py::buffer_info info = given.request();
            EngineOptions o = options_of(threads, max_plans, verify, take_signals);
            o.chains = chains_of(chains);
            return Engine::from_bytes(info.ptr, static_cast<size_t>(info.size * info.itemsize), o);
          },
          py::arg("bytes"), py::arg("threads") = 0, py::arg("max_plans") = 8,
          py::arg("verify") = true, py::arg("chains") = py::tuple());
}

// Engines of programs in memory, with weights apart or with inputs that a run updates.
void bind_programs(py::class_<Engine>& engine, const TakeSignals& take_signals) {
  engine
      .def_static(
          "from_parts",
          [take_signals](const py::buffer& graph, const py::list& weights, int threads,
                         const std::vector<std::pair<uint32_t, uint32_t>>& chains,
                         const std::optional<py::buffer>& disposable,
                         const std::vector<std::string>& strategies) {
            EngineOptions o = options_of(threads, 8, false, take_signals);
            o.chains = chains_of(chains);
            o.strategies = strategies_of(strategies);
            std::vector<WeightBytes> parts;
            for (const py::handle weight : weights) {
              parts.push_back(bytes_of(py::cast<py::buffer>(weight)));
            }
            // A list of its own, as that which is given may change.
            py::list held = py::list(py::tuple(weights));
            const std::shared_ptr<void> owner = bind::keep(held.ptr());
            const WeightBytes drops =
                disposable.has_value() ? bytes_of(*disposable) : WeightBytes();
            const WeightBytes whole = bytes_of(graph);
            std::unique_ptr<Engine> engine;
            {
              const bind::WithoutLock others;
              engine = Engine::from_parts(whole.data, whole.size, parts, owner, o, drops);
            }
            for (const uint32_t i : engine->unread_weights()) held[i] = py::none();
            return engine;
          },
          py::arg("graph"), py::arg("weights"), py::arg("threads") = 0,
          py::arg("chains") = py::tuple(), py::arg("disposable") = py::none(),
          py::arg("strategies") = py::tuple())
      .def_static(
          "with_updates",
          [take_signals](const py::buffer& given, const std::vector<int64_t>& stores,
                         const std::vector<std::tuple<uint32_t, uint32_t, uint32_t>>& numbers,
                         std::optional<uint32_t> first_nodes, uint32_t first_outputs,
                         const std::vector<std::pair<uint32_t, uint32_t>>& chains) {
            const py::buffer_info info = given.request();
            EngineOptions o;
            o.verify_checksum = false;
            o.interrupt = take_signals;
            o.updates = updates_of(stores, numbers);
            o.updates.first_nodes = first_nodes.value_or(kNoInput);
            o.updates.first_outputs = first_outputs;
            o.chains = chains_of(chains);
            return Engine::from_bytes(info.ptr, static_cast<size_t>(info.size * info.itemsize), o);
          },
          py::arg("bytes"), py::arg("stores"), py::arg("numbers"),
          py::arg("first_nodes") = py::none(), py::arg("first_outputs") = 0,
          py::arg("chains") = py::tuple());
}

void bind_runs(py::class_<Engine>& engine) {
  engine.def("run", &run, py::arg("inputs"))
      .def("run_tensors", &run_whole, py::arg("inputs"), py::arg("numbers"))
      .def("run_on_tape", &run_on_tape, py::arg("inputs"), py::arg("numbers"), py::arg("wanted"),
           py::arg("plan"))
      .def("clone", &Engine::clone)
      .def("stop", &Engine::stop)
      .def("limit_plans", &Engine::limit_plans, py::arg("max_plans"), py::arg("max_bytes") = 0)
      .def("set_flush_denormals", &Engine::set_flush_denormals, py::arg("on"))
      .def("release_memory", &Engine::release_memory)
      .def("run_profiled", &run_profiled, py::arg("inputs"))
      .def_property_readonly("has_control_flow", &Engine::has_control_flow)
      .def_property_readonly("inputs", [](const Engine& e) { return specs_of(e.inputs()); })
      .def_property_readonly("outputs", [](const Engine& e) { return specs_of(e.outputs()); })
      .def_property_readonly("metadata",
                             [](const Engine& e) {
                               py::dict d;
                               for (const auto& [key, value] : e.metadata())
                                 d[py::str(key)] = value;
                               return d;
                             })
      .def("profile", &profile, py::arg("inputs"), py::arg("numbers") = py::tuple())
      .def_property_readonly("model_bytes", &Engine::model_bytes)
      .def_property_readonly("packed_bytes", &Engine::packed_bytes)
      .def_property_readonly("arena_bytes", &Engine::arena_bytes);
}

}  // namespace

void bind_engine(py::module_& m) {
  bind_errors();
  bind_functions(m);
  py::class_<TapePlan>(m, "TapePlan")
      .def(py::init<size_t, std::vector<uint32_t>, std::vector<uint32_t>,
                    std::vector<std::pair<uint32_t, uint32_t>>, std::vector<uint32_t>>(),
           py::arg("results"), py::arg("reread_inputs"), py::arg("reread_results"),
           py::arg("seeds"), py::arg("parts"));
  py::class_<Engine> engine(m, "Engine");
  const TakeSignals take_signals = signal_taker();
  bind_files(engine, take_signals);
  bind_programs(engine, take_signals);
  bind_runs(engine);
}

}  // namespace proa
