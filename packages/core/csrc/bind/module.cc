// The module `proa._core`: settings, memory, random streams, and the parts of the other files.
#include <memory>

#include "engine.h"
#include "proa/base/isa_table.h"
#include "proa/runtime/allocator.h"
#include "proa/runtime/denormals.h"
#include "proa/runtime/generator.h"
#include "proa/runtime/pool.h"
#include "python.h"

namespace proa::bind {

PyObject* set_dtypes(PyObject*, PyObject* list);

namespace {

PyObject* py_from_numpy(PyObject*, PyObject* args, PyObject* keywords) {
  static const char* names[] = {"array", "copy", "dtype", nullptr};
  PyObject *array = nullptr, *dtype = Py_None;
  int copy = 0;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|pO", const_cast<char**>(names), &array, &copy,
                                   &dtype)) {
    return nullptr;
  }
  return guarded([&] {
    Ref held;
    DType wanted = DType::kF32;
    const bool bits = dtype != Py_None && parse_dtype(dtype, &wanted) && wanted == DType::kBF16;
    if (bits) {  // uint16 holds the bits; seen as int16, which tensors have
      held = checked(PyObject_CallMethod(array, "view", "s", "int16"));
      array = held.get();
    }
    if (!is_array(array)) raise_type("[from_numpy] expected a NumPy array");
    Tensor x = from_numpy(array, copy != 0);
    if (bits) x->view.dtype = DType::kBF16;
    return wrap(std::move(x));
  });
}

// Functions made in C do not bind to instances by themselves.
PyObject* py_as_method(PyObject*, PyObject* function) { return PyInstanceMethod_New(function); }

PyObject* py_set_grad_enabled(PyObject*, PyObject* on) {
  const int truth = PyObject_IsTrue(on);
  if (truth < 0) return nullptr;
  const bool before = grad_enabled();
  set_grad_enabled(truth != 0);
  return PyBool_FromLong(before);
}
PyObject* py_is_grad_enabled(PyObject*, PyObject*) { return PyBool_FromLong(grad_enabled()); }

PyObject* py_flushes_denormals(PyObject*, PyObject*) {
  return PyBool_FromLong(flushes_denormals() ? 1 : 0);
}

PyObject* py_set_flush_denormals(PyObject*, PyObject* on) {
  const int truth = PyObject_IsTrue(on);
  if (truth < 0) return nullptr;
  set_flush_denormals(truth != 0);
  Py_RETURN_NONE;
}

PyObject* py_set_num_threads(PyObject*, PyObject* count) {
  const long n = PyLong_AsLong(count);
  if (n == -1 && PyErr_Occurred()) return nullptr;
  return guarded([&]() -> PyObject* {
    if (n < 1) {
      throw Error(ErrorKind::kInvalidArgument,
                  "[set_num_threads] the number must be at least 1, got " + std::to_string(n));
    }
    {
      const WithoutLock others;  // a loop in progress may belong to another thread
      ThreadPool::global().set_threads(static_cast<int>(n));
    }
    Py_RETURN_NONE;
  });
}
PyObject* py_get_num_threads(PyObject*, PyObject*) {
  return PyLong_FromLong(ThreadPool::global().threads());
}

PyObject* py_memory_limit(PyObject*, PyObject*) { return PyLong_FromSize_t(memory_limit()); }
PyObject* py_memory_stats(PyObject*, PyObject*) {
  const MemoryStats s = memory_stats();
  return Py_BuildValue("{s:L,s:L,s:L,s:L}", "allocated", static_cast<long long>(s.allocated),
                       "peak", static_cast<long long>(s.peak), "cached",
                       static_cast<long long>(s.cached), "reserved_peak",
                       static_cast<long long>(s.reserved_peak));
}
PyObject* py_empty_cache(PyObject*, PyObject*) {
  empty_cache();
  Py_RETURN_NONE;
}
PyObject* py_reset_peak(PyObject*, PyObject*) {
  reset_peak();
  Py_RETURN_NONE;
}
PyObject* py_reset_reserved_peak(PyObject*, PyObject*) {
  reset_reserved_peak();
  Py_RETURN_NONE;
}

// A thread that records draws from a generator of its own, so that the others' numbers stay theirs.
thread_local std::unique_ptr<Generator> t_generator;

Generator& generator() { return t_generator ? *t_generator : Generator::global(); }

// own_generator(on): whether this thread uses a copy of the generator from now on. Returns whether
// it did before.
PyObject* py_own_generator(PyObject*, PyObject* on) {
  const int wanted = PyObject_IsTrue(on);
  if (wanted < 0) return nullptr;
  const bool before = t_generator != nullptr;
  if (wanted == 0) {
    t_generator.reset();
  } else if (!before) {
    const Generator& g = Generator::global();
    auto own = std::make_unique<Generator>(g.seed());
    own->set_offset(g.offset());
    t_generator = std::move(own);
  }
  return PyBool_FromLong(before);
}

PyObject* py_generator_set(PyObject*, PyObject* args) {
  long long seed = 0, offset = 0;
  if (!PyArg_ParseTuple(args, "L|L", &seed, &offset)) return nullptr;
  generator().set_seed(seed);
  generator().set_offset(offset);
  Py_RETURN_NONE;
}
PyObject* py_generator_get(PyObject*, PyObject*) {
  const Generator& g = generator();
  return Py_BuildValue("(LL)", static_cast<long long>(g.seed()),
                       static_cast<long long>(g.offset()));
}
PyObject* py_generator_next(PyObject*, PyObject* count) {
  const long long n = PyLong_AsLongLong(count);
  if (n == -1 && PyErr_Occurred()) return nullptr;
  Generator& g = generator();
  const long long offset = g.next(n);
  return Py_BuildValue("(LL)", static_cast<long long>(g.seed()), offset);
}

PyObject* py_set_default_dtype(PyObject*, PyObject* o) {
  return guarded([&]() -> PyObject* {
    DType dtype;
    if (!parse_dtype(o, &dtype) || !is_floating(dtype)) {
      raise_type("[set_default_dtype] expected a floating dtype");
    }
    set_default_dtype(dtype);
    Py_RETURN_NONE;
  });
}
PyObject* py_get_default_dtype(PyObject*, PyObject*) {
  return guarded([] {
    PyObject* dtype = dtype_object(default_dtype());
    Py_INCREF(dtype);
    return dtype;
  });
}

// set_autocast(on, dtype, classes): classes maps op names to "white", "black" or "gray", over the
// rows'.
PyObject* py_set_autocast(PyObject*, PyObject* args) {
  int on = 0;
  PyObject *dtype = Py_None, *classes = Py_None;
  if (!PyArg_ParseTuple(args, "p|OO", &on, &dtype, &classes)) return nullptr;
  return guarded([&]() -> PyObject* {
    thread_local std::vector<uint8_t> own;
    Autocast& state = autocast();
    state.on = on != 0;
    if (dtype != Py_None && !parse_dtype(dtype, &state.dtype))
      raise_type("[autocast] dtype must be a dtype or None");
    state.classes = nullptr;
    if (classes == Py_None) Py_RETURN_NONE;
    own.resize(static_cast<size_t>(op_entry_count()));
    for (size_t i = 0; i < own.size(); ++i) own[i] = static_cast<uint8_t>(kHostOps[i].autocast);
    PyObject *key, *value;
    Py_ssize_t pos = 0;
    while (PyDict_Next(classes, &pos, &key, &value)) {
      const char* name = PyUnicode_AsUTF8(key);
      const char* kind = PyUnicode_AsUTF8(value);
      if (name == nullptr || kind == nullptr) throw PythonError();
      own[entry_named(name).info->id] = kind[0] == 'w' ? 1 : kind[0] == 'b' ? 2 : 0;
    }
    state.classes = own.data();
    Py_RETURN_NONE;
  });
}

PyObject* py_build_info(PyObject*, PyObject*) {
  return guarded([] {
    Ref built = checked(PyTuple_New(kIsaTableCount));
    for (int i = 0; i < kIsaTableCount; ++i) {
      Ref name = checked(PyUnicode_FromString(isa_name(kIsaTables[i].isa)));
      PyTuple_SET_ITEM(built.get(), i, name.release());
    }
    return Py_BuildValue("{s:i,s:i,s:s,s:s,s:s,s:s,s:s,s:O,s:s,s:i}", "abi", 1, "format", 1, "isa",
                         isa_name(active_isa()), "cpu", isa_name(cpu_isa()), "bf16",
                         bf16_name(active_bf16()), "amx", amx_name(active_amx()), "caches",
                         caches_name(active_caches()), "built_isas", built.get(), "compiler",
                         __VERSION__, "ops", op_entry_count());
  });
}

}  // namespace

PyMethodDef module_functions[] = {
    {"from_numpy", fast(py_from_numpy), METH_VARARGS | METH_KEYWORDS,
     "A tensor on the array's memory (a copy if requested, read-only or of foreign byte order)."},
    {"set_dtypes", set_dtypes, METH_O, nullptr},
    {"as_method", py_as_method, METH_O, "The function as one that binds to its instance."},
    {"set_grad_enabled", py_set_grad_enabled, METH_O, "Switch recording; returns what it was."},
    {"grad_enabled", py_is_grad_enabled, METH_NOARGS, nullptr},
    {"is_grad_enabled", py_is_grad_enabled, METH_NOARGS, nullptr},
    {"set_num_threads", py_set_num_threads, METH_O, nullptr},
    {"flushes_denormals", py_flushes_denormals, METH_NOARGS, nullptr},
    {"set_flush_denormals", py_set_flush_denormals, METH_O, nullptr},
    {"get_num_threads", py_get_num_threads, METH_NOARGS, nullptr},
    {"memory_limit", py_memory_limit, METH_NOARGS, "The most bytes that an array can have."},
    {"memory_stats", py_memory_stats, METH_NOARGS, nullptr},
    {"empty_cache", py_empty_cache, METH_NOARGS, nullptr},
    {"reset_peak", py_reset_peak, METH_NOARGS, nullptr},
    {"reset_reserved_peak", py_reset_reserved_peak, METH_NOARGS, nullptr},
    {"generator_set", py_generator_set, METH_VARARGS, nullptr},
    {"generator_get", py_generator_get, METH_NOARGS, nullptr},
    {"own_generator", py_own_generator, METH_O, nullptr},
    {"generator_next", py_generator_next, METH_O, nullptr},
    {"set_default_dtype", py_set_default_dtype, METH_O, nullptr},
    {"get_default_dtype", py_get_default_dtype, METH_NOARGS, nullptr},
    {"set_autocast", py_set_autocast, METH_VARARGS, nullptr},
    {"build_info", py_build_info, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};

namespace {

PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                          "proa._core",
                          "The engine of Proa.",
                          -1,
                          nullptr,
                          nullptr,
                          nullptr,
                          nullptr,
                          nullptr};

bool fill(PyObject* module) {
  if (!init_numpy() || !init_shape_type(module) || !init_tensor_type(module)) return false;
  for (PyMethodDef* list :
       {module_functions, autograd_functions, symbol_functions, index_functions, dlpack_functions,
        debug_functions, extension_functions, guard_functions}) {
    if (PyModule_AddFunctions(module, list) < 0) return false;
  }
  if (!init_public_function(module) || !init_arguments(module)) return false;
  init_debug();
  init_extensions();
  dispatch_hooks.unlock = []() -> void* { return PyEval_SaveThread(); };
  dispatch_hooks.lock = [](void* state) { take_lock(static_cast<PyThreadState*>(state)); };
  auto known = pybind11::reinterpret_borrow<pybind11::module_>(module);
  bind_engine(known);
  return init_ops(module);
}

}  // namespace

}  // namespace proa::bind

extern "C" __attribute__((visibility("default"))) PyObject* PyInit__core() {
  using namespace proa::bind;
  PyObject* module = PyModule_Create(&definition);
  if (module == nullptr) return nullptr;
  bool done = false;
  try {
    done = fill(module);
  } catch (...) {
    if (!PyErr_Occurred()) translate_exception();
  }
  if (done) return module;
  Py_DECREF(module);
  return nullptr;
}
