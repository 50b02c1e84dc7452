// The cache key of a recorded call and its guards, evaluated at every call.
#include "proa/train/dispatch.h"
#include "python.h"

namespace proa::bind {

namespace {

void append(std::string* key, int64_t number) {
  key->append(reinterpret_cast<const char*>(&number), sizeof number);
}

// call_key(arguments): shapes, dtypes and stop_gradient as bytes; None if something is no tensor,
// or a symbol, or this thread records.
PyObject* call_key(PyObject*, PyObject* arguments) {
  return guarded([&]() -> PyObject* {
    if (records_all()) Py_RETURN_NONE;
    const Ref items = checked(PySequence_Fast(arguments, "[call_key] expected a sequence"));
    std::string key(1, grad_enabled() ? '1' : '0');
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i) {
      PyObject* item = PySequence_Fast_GET_ITEM(items.get(), i);
      if (!is_tensor(item) || impl_of(item)->has(TensorImpl::kSymbolic)) Py_RETURN_NONE;
      const TensorImpl& x = *impl_of(item);
      key.push_back(static_cast<char>(x.view.rank));
      key.push_back(static_cast<char>(x.view.dtype));
      key.push_back(x.has(TensorImpl::kStopGradient) ? '1' : '0');
      for (int a = 0; a < x.view.rank; ++a) append(&key, x.view.shape[a]);
    }
    return PyBytes_FromStringAndSize(key.data(), static_cast<Py_ssize_t>(key.size()));
  });
}

// Whether the dict's values are the tuple's, in order.
bool has_values(PyObject* dict, PyObject* values) {
  const Py_ssize_t count = PyTuple_GET_SIZE(values);
  if (!PyDict_Check(dict) || PyDict_GET_SIZE(dict) != count) return false;
  if (count == 0) return true;
  if (count == 1 || !PyODict_Check(dict)) {
    PyObject *key, *value;
    Py_ssize_t at = 0;
    for (Py_ssize_t i = 0; i < count && PyDict_Next(dict, &at, &key, &value); ++i) {
      if (value != PyTuple_GET_ITEM(values, i)) return false;
    }
    return true;
  }
  const Ref keys = checked(PyObject_GetIter(dict));
  for (Py_ssize_t i = 0; i < count; ++i) {
    const Ref key = checked(PyIter_Next(keys.get()));
    if (PyDict_GetItemWithError(dict, key.get()) != PyTuple_GET_ITEM(values, i)) return false;
  }
  return true;
}

// unchanged(tables, slots, stops): whether every dict of (dict, values) has these values, every
// dict of (dict, key, value) the value at the key (None: nothing), and every tensor of
// (tensor, stop_gradient) that flag.
PyObject* unchanged(PyObject*, PyObject* args) {
  PyObject *tables, *slots, *stops;
  if (!PyArg_ParseTuple(args, "O!O!O!", &PyTuple_Type, &tables, &PyTuple_Type, &slots,
                        &PyTuple_Type, &stops)) {
    return nullptr;
  }
  return guarded([&]() -> PyObject* {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tables); ++i) {
      PyObject* pair = PyTuple_GET_ITEM(tables, i);
      if (!has_values(PyTuple_GET_ITEM(pair, 0), PyTuple_GET_ITEM(pair, 1))) Py_RETURN_FALSE;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(slots); ++i) {
      PyObject* slot = PyTuple_GET_ITEM(slots, i);
      PyObject* found =
          PyDict_GetItemWithError(PyTuple_GET_ITEM(slot, 0), PyTuple_GET_ITEM(slot, 1));
      if (PyErr_Occurred()) throw PythonError();
      if ((found == nullptr ? Py_None : found) != PyTuple_GET_ITEM(slot, 2)) Py_RETURN_FALSE;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(stops); ++i) {
      PyObject* stop = PyTuple_GET_ITEM(stops, i);
      if (!is_tensor(PyTuple_GET_ITEM(stop, 0))) Py_RETURN_FALSE;
      const TensorImpl* x = impl_of(PyTuple_GET_ITEM(stop, 0));
      if (x->has(TensorImpl::kStopGradient) != (PyTuple_GET_ITEM(stop, 1) == Py_True)) {
        Py_RETURN_FALSE;
      }
    }
    Py_RETURN_TRUE;
  });
}

}  // namespace

PyMethodDef guard_functions[] = {{"call_key", call_key, METH_O, nullptr},
                                 {"unchanged", unchanged, METH_VARARGS, nullptr},
                                 {nullptr, nullptr, 0, nullptr}};

}  // namespace proa::bind
