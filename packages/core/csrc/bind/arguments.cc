// Checks that most functions of `proa` make of their arguments: plain ints, symbolic dimensions.
#include "python.h"

namespace proa::bind {

namespace {

PyObject* plain_ints(PyObject*, PyObject* value) {
  if (PyLong_CheckExact(value)) {
    PyObject* list = PyList_New(1);
    if (list == nullptr) return nullptr;
    Py_INCREF(value);
    PyList_SET_ITEM(list, 0, value);
    return list;
  }
  if (!PyList_Check(value) && !PyTuple_CheckExact(value)) Py_RETURN_NONE;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); ++i) {
    if (!PyLong_CheckExact(PySequence_Fast_GET_ITEM(value, i))) Py_RETURN_NONE;
  }
  return PySequence_List(value);
}

PyObject* has_symbolic_dims(PyObject*, PyObject* shape) {
  if (!PyList_Check(shape) && !PyTuple_Check(shape)) Py_RETURN_FALSE;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(shape); ++i) {
    PyObject* size = PySequence_Fast_GET_ITEM(shape, i);
    if (is_symbolic_dim(size)) Py_RETURN_TRUE;
    if (is_tensor(size) && impl_of(size)->has(TensorImpl::kSymbolic)) Py_RETURN_TRUE;
  }
  Py_RETURN_FALSE;
}

PyMethodDef functions[] = {
    {"plain_ints", plain_ints, METH_O,
     "A new list of the ints, if an int or a list or tuple of nothing else is given, or None."},
    {"has_symbolic_dims", has_symbolic_dims, METH_O,
     "Whether a list or tuple has sizes that are known only at run time."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool init_arguments(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace proa::bind
