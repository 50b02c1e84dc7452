#pragma once
// proa._core.Tensor: the Python object around a TensorImpl, and how C++ and Python values meet.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <utility>

#include "proa/train/tensor.h"

namespace proa {

struct PyTensor {
  PyObject_HEAD
  TensorImpl* impl;  // counted
  PyObject* weak_references;
};

extern PyTypeObject* tensor_type;

/// Makes the type and adds it to the module. False with a Python error set if that fails.
bool add_tensor_type(PyObject* module);

inline bool is_tensor(PyObject* o) { return PyObject_TypeCheck(o, tensor_type); }
inline TensorImpl* impl_of(PyObject* o) { return reinterpret_cast<PyTensor*>(o)->impl; }
/// The Python object of the tensor: the one that stands for it already, or a new one.
PyObject* wrap(Tensor tensor);
/// A new object of `type` (Tensor or a subclass).
PyObject* wrap_as(PyTypeObject* type, Tensor tensor);
/// The tensor of an object; throws Error(kType) naming `where` if it is none.
TensorImpl* unwrap(PyObject* o, const char* where);

/// A number as a weak tensor, an array as a tensor on its memory; empty if `o` is neither.
/// A Python error may be set (an int that is too large).
Tensor tensor_from(PyObject* o);

/// Turns the C++ exception in flight into a Python error. Call in `catch (...)`.
void set_python_error();

/// Runs `body`, which returns a new reference; on an exception sets the Python error.
template <class Body>
PyObject* guarded(Body&& body) {
  try {
    return body();
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

// -- dtype objects ------------------------------------------------------------------------

/// The proa.dtype object of a dtype (borrowed).
PyObject* dtype_object(DType dtype);
/// The dtype that an object names ("float32", proa.float32, numpy.float32); false with a TypeError
/// set if it names none.
bool dtype_from(PyObject* o, DType* out);
bool add_dtypes(PyObject* module);

// -- numpy.cc -----------------------------------------------------------------------------

/// The array that shares the tensor's memory.
PyObject* to_numpy(TensorImpl* x);
/// A tensor of the array (or what NumPy makes one of), on its memory if `copy` is false and it can be.
Tensor from_numpy(PyObject* array, bool copy);
bool is_numpy_array(PyObject* o);
/// The element at `data` as a Python number.
PyObject* element(const void* data, DType dtype);

// -- index.cc -----------------------------------------------------------------------------

PyObject* get_item(PyObject* self, PyObject* key);
int set_item(PyObject* self, PyObject* key, PyObject* value);
/// The Python functions for what C++ does not index: get(x, key), set(x, key, value).
void set_index_fallback(PyObject* get, PyObject* set);

// -- ops.cc, record.cc --------------------------------------------------------------------

/// Adds the submodule `ops` with a function for every row.
bool add_ops(PyObject* module);
/// Adds symbol, handle_of and set_recorder, and hooks the recorder into the dispatcher.
bool add_recorder(PyObject* module);

}  // namespace proa
