#pragma once
// What every binding file shares: the Tensor object, conversions, and the translation of errors.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <exception>
#include <string>
#include <vector>

#include "proa/runtime/error.h"
#include "proa/train/dispatch.h"
#include "proa/train/host_table.h"
#include "proa/train/row_sparse.h"
#include "proa/train/tensor.h"

namespace proa {
struct ExtensionOp;
}

namespace proa::bind {

struct PyTensor {
  PyObject_HEAD TensorImpl* impl;
  PyObject* weakrefs;
};

extern PyTypeObject* tensor_type;

inline bool is_tensor(PyObject* o) {
  return Py_TYPE(o) == tensor_type || PyType_IsSubtype(Py_TYPE(o), tensor_type);
}
inline TensorImpl* impl_of(PyObject* o) { return reinterpret_cast<PyTensor*>(o)->impl; }
/// The Python object of the tensor: the one it has, or a new one. None for an empty tensor.
PyObject* wrap(Tensor x);

/// Thrown when a Python exception is already set.
struct PythonError : std::exception {};
/// Sets the Python exception that corresponds to the current C++ exception. Call inside catch.
void translate_exception() noexcept;

/// Runs f; turns a C++ exception into a Python one and returns nullptr.
template <class F>
PyObject* guarded(F&& f) noexcept {
  try {
    return f();
  } catch (...) {
    translate_exception();
    return nullptr;
  }
}
template <class F>
int guarded_int(F&& f) noexcept {
  try {
    return f();
  } catch (...) {
    translate_exception();
    return -1;
  }
}

/// PyEval_RestoreThread that a thread which outlives the interpreter never returns from: Python
/// would end it by unwinding through destructors, which would end the process.
void take_lock(PyThreadState* state) noexcept;

/// Lets other Python threads run while it lives.
class WithoutLock {
 public:
  WithoutLock() : state_(PyEval_SaveThread()) {}
  ~WithoutLock() { take_lock(state_); }
  WithoutLock(const WithoutLock&) = delete;
  WithoutLock& operator=(const WithoutLock&) = delete;

 private:
  PyThreadState* state_;
};

[[noreturn]] void raise_type(const std::string& message);
/// Raises SymbolicValueError: `where` needs the value of a symbolic tensor, which has none.
[[noreturn]] void raise_symbolic_value(const std::string& where);
/// Raises ExchangeError: memory that two libraries cannot share.
[[noreturn]] void raise_exchange(const std::string& message);
/// Raises that error if the tensor is symbolic. If another thread's recording has bound it, waits
/// for its end first.
void require_value(TensorImpl* x, const std::string& where);

/// An owned reference.
class Ref {
 public:
  Ref() = default;
  explicit Ref(PyObject* owned) : object_(owned) {}
  Ref(const Ref&) = delete;
  Ref& operator=(const Ref&) = delete;
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() { Py_XDECREF(object_); }
  PyObject* get() const { return object_; }
  PyObject* release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_ = nullptr;
};
/// The reference, or PythonError if it is null.
inline Ref checked(PyObject* owned) {
  if (owned == nullptr) throw PythonError();
  return Ref(owned);
}
/// A further reference that any thread may drop.
std::shared_ptr<void> keep(PyObject* object);

// -- conversions ----------------------------------------------------------------------------
/// A tensor of a Tensor, number, NumPy array or nested list; `where` and `name` for the error.
Tensor to_tensor(PyObject* o, const char* where, const char* name);
/// The same for operators: empty if `o` is none of these.
Tensor to_operand(PyObject* o);
bool parse_dtype(PyObject* o, DType* dtype);
/// The registered proa.dtype object (borrowed).
PyObject* dtype_object(DType dtype);
PyObject* shape_list(const View& view);
/// Makes a new list, of which nobody else has a reference, one of Tensor.shape (shape_type.cc).
PyObject* as_shape(PyObject* list);
bool init_shape_type(PyObject* module);
/// The shape of a symbolic tensor: symbolic dimensions are made by the function of
/// set_symbolic_dim.
PyObject* symbol_shape(PyObject* tensor);
/// Whether it is one of those.
bool is_symbolic_dim(PyObject* o);
PyObject* symbolic_dim_type();  // the class of such sizes
/// Tensors of a sequence (None gives an empty one, if admitted).
std::vector<Tensor> to_tensors(PyObject* o, const char* where, bool admit_none);
/// Writes the attribute `spec` of a Python value into the struct.
void parse_attribute(const char* op, const ArgSpec& spec, PyObject* value, void* attrs);
/// The attribute struct as a dict.
Ref attribute_dict(const OpInfo& op, const void* attrs);
/// Hands a call on symbolic tensors to the recorder; its outputs.
std::vector<Tensor> call_recorder(const char* op, TensorImpl* const* in, int n_in, PyObject* attrs);
/// A view without data of a shape (None: not known) and a dtype.
View view_of_spec(PyObject* shape, PyObject* dtype);
/// The op of that name; raises if there is none.
const OpEntry& entry_named(const char* name);

// -- NumPy (numpy.cc) -----------------------------------------------------------------------
bool init_numpy();
bool is_array(PyObject* o);
/// Shares the array's memory, or copies if requested or if it cannot be shared.
Tensor from_numpy(PyObject* array, bool copy);
/// An array on the tensor's memory (bfloat16 as uint16).
PyObject* to_numpy(const Tensor& x);

/// An operator of extensions whose kernel and inference is the Python function; takes a reference.
const ExtensionOp* define_python_operator(const char* name, int outputs, PyObject* function);

// -- what the files add to the module -------------------------------------------------------
extern PyNumberMethods number_methods;
PyObject* compare(PyObject* a, PyObject* b, int op);
/// The one element as a Python number; `what` names the caller in errors.
PyObject* as_float(PyObject* self, const char* what);
PyObject* as_int(PyObject* self, const char* what);
PyObject* get_item(PyObject* self, PyObject* key);
int set_item(PyObject* self, PyObject* key, PyObject* value);
PyObject* sequence_item(PyObject* self, Py_ssize_t i);
extern PyMethodDef dlpack_methods[];
extern PyMethodDef dlpack_functions[];
extern PyMethodDef module_functions[];
extern PyMethodDef autograd_functions[];
extern PyMethodDef symbol_functions[];
extern PyMethodDef index_functions[];
extern PyMethodDef debug_functions[];
extern PyMethodDef extension_functions[];
extern PyMethodDef guard_functions[];
bool init_tensor_type(PyObject* module);
bool add_number_slots(std::vector<PyType_Slot>* slots);
bool init_ops(PyObject* module);
void init_debug();
bool init_public_function(PyObject* module);
bool init_arguments(PyObject* module);
void init_extensions();

template <class F>
PyCFunction fast(F f) noexcept {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(f));
}

}  // namespace proa::bind
