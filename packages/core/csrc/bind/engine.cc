// proa._core.Engine.
#include "engine.h"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <cstring>
#include <optional>

#include "proa/runtime/engine.h"
#include "proa/train/run.h"
#include "proa/train/watch.h"
#include "python.h"

namespace py = pybind11;

namespace proa {

namespace {

constexpr uint32_t kNone = 0xffffffffu;  // an output that overwrites no input

constexpr const char* kNames[kDTypeCount] = {"bool",    "uint8",   "int8",      "int16",
                                             "int32",   "int64",   "float16",   "bfloat16",
                                             "float32", "float64", "complex64", "complex128"};
// NumPy has no bfloat16: its bits travel as uint16.
constexpr const char* kNumpy[kDTypeCount] = {"?",  "u1", "i1", "i2", "i4", "i8",
                                             "f2", "u2", "f4", "f8", "c8", "c16"};

py::object error_type(Status status) {
  const char* name = "InvalidArgumentError";
  if (status == Status::kUnimplemented) name = "UnimplementedError";
  if (status == Status::kResourceExhausted) name = "ResourceExhaustedError";
  if (status == Status::kOutOfRange) name = "OutOfRangeError";
  if (status == Status::kVersion) name = "VersionError";
  return py::module_::import("proa.errors").attr(name);
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
    const py::dtype known(kNumpy[i]);
    if (given.kind() == known.kind() && given.itemsize() == known.itemsize()) code = i;
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

py::list run(Engine& engine, const py::sequence& given) {
  const auto& specs = engine.inputs();
  if (given.size() != specs.size()) {
    throw EngineError(Status::kInvalidArgument, "[Engine] a run must have " +
                                                    std::to_string(specs.size()) + " inputs, got " +
                                                    std::to_string(given.size()));
  }
  std::vector<py::array> arrays;
  std::vector<View> inputs, outputs(engine.outputs().size());
  for (size_t i = 0; i < specs.size(); ++i) {
    arrays.push_back(usable(given[i]));
    inputs.push_back(view_of(arrays.back(), specs[i]));
  }
  const std::vector<IoSpec> wanted = engine.output_specs(inputs.data());
  py::list results;
  for (size_t i = 0; i < wanted.size(); ++i) {
    py::array result(py::dtype(kNumpy[static_cast<int>(wanted[i].dtype)]), wanted[i].shape);
    View& v = outputs[i];
    v.dtype = wanted[i].dtype;
    v.rank = static_cast<int8_t>(wanted[i].shape.size());
    for (int a = 0; a < v.rank; ++a) v.shape[a] = wanted[i].shape[static_cast<size_t>(a)];
    v.set_contiguous();
    v.data = result.mutable_data();
    results.append(result);
  }
  {
    const Timed timed("program", EventKind::kOp);
    const bind::WithoutLock others;
    engine.run(inputs.data(), outputs.data());
  }
  return results;
}

// Numbers as the 8 bytes of an attribute.
std::vector<int64_t> bits_of(const py::sequence& numbers) {
  std::vector<int64_t> bits;
  bits.reserve(numbers.size());
  for (const py::handle number : numbers) {
    int64_t word;
    if (PyFloat_Check(number.ptr())) {
      const double value = PyFloat_AS_DOUBLE(number.ptr());
      std::memcpy(&word, &value, sizeof word);
    } else {
      word = PyLong_AsLongLong(number.ptr());
      if (PyErr_Occurred()) throw py::error_already_set();
    }
    bits.push_back(word);
  }
  return bits;
}

// A run of an engine with updates that its second part may go on with: `made` are the tensors of
// the outputs that overwrite no input.
struct TensorRun {
  std::vector<Tensor> tensors, made;
  EngineRun run;
};

// Views of the tensors; each tensor is kept until the run is over. None is an input that only the
// second part reads.
void take_inputs(const Engine& engine, PyObject* given, TensorRun* run) {
  const std::vector<Tensor> before = std::move(run->tensors);
  run->tensors = bind::to_tensors(given, "Engine", true);
  if (run->tensors.size() != engine.inputs().size()) {
    throw EngineError(Status::kInvalidArgument,
                      "[Engine] a run must have " + std::to_string(engine.inputs().size()) +
                          " inputs, got " + std::to_string(run->tensors.size()));
  }
  run->run.inputs.clear();
  for (size_t i = 0; i < run->tensors.size(); ++i) {
    Tensor& x = run->tensors[i];
    // The first part was planned for what it was not given in row-major order.
    if (x && i < before.size() && !before[i] && !x->has(TensorImpl::kContiguous)) {
      const GradMode off(false);
      x = contiguous(x.get());
    }
    if (x) {
      run->run.inputs.push_back(x->view);
      if (x->view.data != nullptr || x->view.numel() == 0) continue;
      throw EngineError(Status::kInvalidArgument,
                        "[Engine] inputs must have memory, got a tensor without");
    }
    const IoSpec& spec = engine.inputs()[i];
    View view;
    view.dtype = spec.dtype;
    view.rank = static_cast<int8_t>(spec.shape.size());
    for (int a = 0; a < view.rank; ++a) view.shape[a] = spec.shape[static_cast<size_t>(a)];
    view.set_contiguous();
    run->run.inputs.push_back(view);
  }
}

// Runs the part; what it made, in order.
py::object run_tensors(Engine& engine, RunPart part, TensorRun* run) {
  const size_t before = run->made.size();
  run->run.give = [run](View* outputs, size_t first, size_t last) {
    for (size_t i = first; i < last; ++i) {
      if (outputs[i].rank < 0) continue;
      run->made.push_back(empty_as(outputs[i]));
      outputs[i] = run->made.back().view();
    }
  };
  {
    const Timed timed("program", EventKind::kOp);
    const bind::WithoutLock others;
    engine.run_part(part, &run->run);
  }
  const EngineUpdates& updates = engine.options().updates;
  if (part != RunPart::kSecond) {
    for (const uint32_t input : updates.stores) {
      if (input != kNone) run->tensors[input]->storage->bump_version();
    }
  }
  const size_t count = run->made.size() - before;
  py::list made(count);
  for (size_t i = 0; i < count; ++i) {
    PyObject* x = bind::wrap(run->made[before + i]);
    if (x == nullptr) throw py::error_already_set();
    PyList_SET_ITEM(made.ptr(), static_cast<Py_ssize_t>(i), x);
  }
  run->made.resize(before);
  for (size_t i = 0; i < count && part == RunPart::kFirst; ++i) {
    // Without their place on the tape, which will hold this run.
    run->made.push_back(detach(bind::to_tensor(made[i].ptr(), "Engine", "output")));
  }
  return made;
}

// Python's exception where a binding function met one.
template <class F>
auto crossing(F&& f) {
  try {
    return f();
  } catch (const bind::PythonError&) {
    throw py::error_already_set();
  }
}

py::object run_whole(Engine& engine, const py::sequence& inputs, const py::sequence& numbers) {
  return crossing([&] {
    TensorRun run;
    take_inputs(engine, inputs.ptr(), &run);
    run.run.numbers = bits_of(numbers);
    return run_tensors(engine, RunPart::kWhole, &run);
  });
}

// (what the first part made, the run for `finish`)
py::tuple begin(Engine& engine, const py::sequence& inputs, const py::sequence& numbers) {
  return crossing([&] {
    auto run = std::make_unique<TensorRun>();
    take_inputs(engine, inputs.ptr(), run.get());
    run->run.numbers = bits_of(numbers);
    py::object made = run_tensors(engine, RunPart::kFirst, run.get());
    return py::make_tuple(made, std::move(run));
  });
}

py::object finish(Engine& engine, TensorRun& run, const py::sequence& inputs, bool keeps) {
  return crossing([&] {
    take_inputs(engine, inputs.ptr(), &run);
    run.run.keeps = keeps;
    return run_tensors(engine, RunPart::kSecond, &run);
  });
}

// stores: for each output the input that it overwrites, or -1; numbers: (node, byte, slot).
EngineUpdates updates_of(const std::vector<int64_t>& stores,
                         const std::vector<std::tuple<uint32_t, uint32_t, uint32_t>>& numbers) {
  EngineUpdates updates;
  updates.on = true;
  for (const int64_t input : stores) {
    updates.stores.push_back(input < 0 ? kNone : static_cast<uint32_t>(input));
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

py::list specs_of(const std::vector<IoSpec>& specs) {
  py::list result;
  for (const IoSpec& s : specs) {
    result.append(
        py::make_tuple(s.name, kNames[static_cast<int>(s.dtype)], py::tuple(py::cast(s.shape))));
  }
  return result;
}

}  // namespace

void bind_engine(py::module_& m) {
  // NOLINTNEXTLINE(performance-unnecessary-value-param): what pybind11 takes
  py::register_exception_translator([](std::exception_ptr p) {
    try {
      if (p) std::rethrow_exception(p);
    } catch (const EngineError& e) {
      py::set_error(error_type(e.status), e.what());
    }
  });
  const auto options = [](int threads, int max_plans, bool verify) {
    EngineOptions o;
    o.threads = threads;
    o.max_plans = max_plans;
    o.verify_checksum = verify;
    return o;
  };
  static_cast<void>(py::class_<TensorRun>(m, "EngineRun"));
  py::class_<Engine>(m, "Engine")
      .def_static(
          "load",
          [options](const std::string& path, int threads, int max_plans, bool verify) {
            const bind::WithoutLock others;
            return Engine::load(path, options(threads, max_plans, verify));
          },
          py::arg("path"), py::arg("threads") = 0, py::arg("max_plans") = 8,
          py::arg("verify") = true)
      .def_static(
          "from_bytes",
          [options](const py::buffer& given, int threads, int max_plans, bool verify,
                    const std::vector<std::pair<uint32_t, uint32_t>>& chains) {
            const py::buffer_info info = given.request();
            EngineOptions o = options(threads, max_plans, verify);
            o.chains = chains_of(chains);
            return Engine::from_bytes(info.ptr, static_cast<size_t>(info.size * info.itemsize), o);
          },
          py::arg("bytes"), py::arg("threads") = 0, py::arg("max_plans") = 8,
          py::arg("verify") = true, py::arg("chains") = py::tuple())
      .def_static(
          "with_updates",
          [](const py::buffer& given, const std::vector<int64_t>& stores,
             const std::vector<std::tuple<uint32_t, uint32_t, uint32_t>>& numbers,
             std::optional<uint32_t> first_nodes, uint32_t first_outputs,
             const std::vector<std::pair<uint32_t, uint32_t>>& chains) {
            const py::buffer_info info = given.request();
            EngineOptions o;
            o.verify_checksum = false;
            o.updates = updates_of(stores, numbers);
            o.updates.first_nodes = first_nodes.value_or(kNone);
            o.updates.first_outputs = first_outputs;
            o.chains = chains_of(chains);
            return Engine::from_bytes(info.ptr, static_cast<size_t>(info.size * info.itemsize), o);
          },
          py::arg("bytes"), py::arg("stores"), py::arg("numbers"),
          py::arg("first_nodes") = py::none(), py::arg("first_outputs") = 0,
          py::arg("chains") = py::tuple())
      .def("run", &run, py::arg("inputs"))
      .def("run_tensors", &run_whole, py::arg("inputs"), py::arg("numbers"))
      .def("begin", &begin, py::arg("inputs"), py::arg("numbers"))
      .def("finish", &finish, py::arg("run"), py::arg("inputs"), py::arg("keeps"))
      .def("clone", &Engine::clone)
      .def_property_readonly("inputs", [](const Engine& e) { return specs_of(e.inputs()); })
      .def_property_readonly("outputs", [](const Engine& e) { return specs_of(e.outputs()); })
      .def_property_readonly("metadata",
                             [](const Engine& e) {
                               py::dict d;
                               for (const auto& [key, value] : e.metadata())
                                 d[py::str(key)] = value;
                               return d;
                             })
      .def(
          "profile",
          [](Engine& e, const py::sequence& inputs, const py::sequence& numbers) {
            std::vector<std::tuple<std::string, std::string, int64_t>> steps;
            e.set_profile([&steps](const char* op, const char* name, int64_t ns) {
              steps.emplace_back(op, name, ns);
            });
            try {
              if (e.options().updates.on) {
                run_whole(e, inputs, numbers);
              } else {
                run(e, inputs);
              }
            } catch (...) {
              e.set_profile(nullptr);
              throw;
            }
            e.set_profile(nullptr);
            return steps;
          },
          py::arg("inputs"), py::arg("numbers") = py::tuple())
      .def_property_readonly("model_bytes", &Engine::model_bytes)
      .def_property_readonly("packed_bytes", &Engine::packed_bytes)
      .def_property_readonly("arena_bytes", &Engine::arena_bytes);
}

}  // namespace proa
