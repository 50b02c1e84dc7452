// proa_inference._native: the engine as a Python class, arrays in and out without copies.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <string>
#include <vector>

#include "proa/runtime/engine.h"

namespace py = pybind11;
using proa::DType;
using proa::Engine;
using proa::Status;
using proa::View;

namespace {

/// NumPy's name of a dtype; bfloat16, which NumPy lacks, travels as uint16.
const char* numpy_name(DType t) {
  constexpr const char* kNames[proa::kDTypeCount] = {
      "bool",    "uint8",  "int8",    "int16",   "int32",     "int64",
      "float16", "uint16", "float32", "float64", "complex64", "complex128"};
  return kNames[static_cast<int>(t)];
}

[[noreturn]] void raise(Status status, const char* what) {
  const char* type = "Error";
  switch (status) {
    case Status::kInvalidArgument:
    case Status::kBadModel:
      type = "InvalidArgumentError";
      break;
    case Status::kOutOfRange:
      type = "OutOfRangeError";
      break;
    case Status::kUnimplemented:
      type = "UnimplementedError";
      break;
    case Status::kResourceExhausted:
      type = "ResourceExhaustedError";
      break;
    case Status::kVersion:
      type = "VersionError";
      break;
    default:
      break;
  }
  py::object error = py::module_::import("proa.errors").attr(type);
  PyErr_SetString(error.ptr(), what);
  throw py::error_already_set();
}

template <class Body>
auto guarded(Body&& body) {
  try {
    return body();
  } catch (const proa::EngineError& e) {
    raise(e.status, e.what());
  }
}

/// The array's memory as the engine sees it. bfloat16 inputs come as uint16 arrays.
View view_of(const py::array& a, const proa::IoSpec& spec) {
  if (a.ndim() > proa::kMaxRank) raise(Status::kInvalidArgument, "[Engine] rank must be <= 8");
  View v;
  v.data = const_cast<void*>(a.data());
  v.dtype = spec.dtype;
  v.rank = static_cast<int8_t>(a.ndim());
  for (int i = 0; i < v.rank; ++i) {
    v.shape[i] = a.shape(i);
    v.stride[i] = a.strides(i) / static_cast<py::ssize_t>(a.itemsize());
  }
  return v;
}

/// An array of the dtype the model wants, in place where it is that already. Only a change of
/// byte order or of alignment is made silently; another dtype is the caller's mistake.
py::array accept(const py::handle& given, const proa::IoSpec& spec) {
  py::array a = py::array::ensure(given);
  const py::dtype want(numpy_name(spec.dtype));
  if (!a || !a.dtype().equal(want)) {
    PyErr_Clear();
    const std::string got = a ? py::str(a.dtype()).cast<std::string>() : "no array";
    raise(Status::kInvalidArgument, ("[Predictor.run] input '" + spec.name + "' must be " +
                                     numpy_name(spec.dtype) + ", got " + got)
                                        .c_str());
  }
  bool whole = true;  // strides that are whole elements
  for (int i = 0; i < a.ndim(); ++i) whole = whole && a.strides(i) % a.itemsize() == 0;
  const bool aligned = reinterpret_cast<uintptr_t>(a.data()) % a.itemsize() == 0;
  return whole && aligned ? a : py::array(a.attr("copy")());
}

py::list run(Engine& engine, const py::sequence& arrays) {
  const auto& specs = engine.inputs();
  if (arrays.size() != specs.size()) {
    raise(Status::kInvalidArgument,
          ("[Predictor.run] there must be " + std::to_string(specs.size()) + " inputs, got " +
           std::to_string(arrays.size()))
              .c_str());
  }
  std::vector<py::array> kept;
  std::vector<View> in, out(engine.outputs().size());
  for (size_t i = 0; i < specs.size(); ++i) {
    kept.push_back(accept(arrays[i], specs[i]));
    in.push_back(view_of(kept.back(), specs[i]));
  }
  const auto results = guarded([&] { return engine.output_specs(in.data()); });
  py::list outputs;
  for (size_t i = 0; i < results.size(); ++i) {
    py::array a(py::dtype(numpy_name(results[i].dtype)), results[i].shape);
    out[i] = view_of(a, results[i]);
    outputs.append(std::move(a));
  }
  guarded([&] {
    py::gil_scoped_release release;
    engine.run(in.data(), out.data());
    return 0;
  });
  return outputs;
}

py::list specs_of(const std::vector<proa::IoSpec>& specs) {
  py::list list;
  for (const auto& s : specs) {
    list.append(py::make_tuple(s.name, numpy_name(s.dtype), py::tuple(py::cast(s.shape))));
  }
  return list;
}

proa::EngineOptions options(int threads) {
  proa::EngineOptions o;
  o.threads = threads;
  return o;
}

/// Runs once on `arrays` and returns (op, name, nanoseconds) of each step.
py::list profile(Engine& engine, const py::sequence& arrays) {
  struct Step {
    std::string op, name;
    int64_t ns;
  };
  std::vector<Step> steps;  // filled without the GIL
  engine.set_profile([&](const char* op, const char* name, int64_t ns) {
    steps.push_back({op, name, ns});
  });
  try {
    run(engine, arrays);
  } catch (...) {
    engine.set_profile(nullptr);
    throw;
  }
  engine.set_profile(nullptr);
  py::list list;
  for (const auto& s : steps) list.append(py::make_tuple(s.op, s.name, s.ns));
  return list;
}

}  // namespace

PYBIND11_MODULE(_native, m) {
  m.doc() = "The inference engine.";
  py::class_<Engine>(m, "Engine")
      .def_static(
          "load",
          [](const std::string& path, int threads) {
            return guarded([&] { return Engine::load(path, options(threads)); });
          },
          py::arg("path"), py::arg("threads"))
      .def_static(
          "from_bytes",
          [](const py::bytes& content, int threads) {
            const std::string_view view = content;
            return guarded(
                [&] { return Engine::from_bytes(view.data(), view.size(), options(threads)); });
          },
          py::arg("content"), py::arg("threads"))
      .def("clone", [](const Engine& e) { return guarded([&] { return e.clone(); }); })
      .def("inputs", [](const Engine& e) { return specs_of(e.inputs()); })
      .def("outputs", [](const Engine& e) { return specs_of(e.outputs()); })
      .def("metadata", [](const Engine& e) { return e.metadata(); })
      .def("run", &run, py::arg("arrays"))
      .def("profile", &profile, py::arg("arrays"))
      .def("model_bytes", &Engine::model_bytes)
      .def("packed_bytes", &Engine::packed_bytes)
      .def("arena_bytes", &Engine::arena_bytes);
}
