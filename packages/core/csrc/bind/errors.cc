#include <new>

#include "python.h"

namespace proa::bind {

namespace {

const char* class_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInvalidArgument:
      return "InvalidArgumentError";
    case ErrorKind::kOutOfRange:
      return "OutOfRangeError";
    case ErrorKind::kUnimplemented:
      return "UnimplementedError";
    case ErrorKind::kResourceExhausted:
      return "ResourceExhaustedError";
    case ErrorKind::kPreconditionNotMet:
      return "PreconditionNotMetError";
    case ErrorKind::kUnavailable:
      return "UnavailableError";
    default:
      return "FatalError";
  }
}

void set_error(const char* name, const char* message) {
  const Ref module(PyImport_ImportModule("proa.errors"));
  const Ref type(module ? PyObject_GetAttrString(module.get(), name) : nullptr);
  if (!type) {
    PyErr_Clear();
    PyErr_SetString(PyExc_RuntimeError, message);
    return;
  }
  PyErr_SetString(type.get(), message);
}

}  // namespace

void translate_exception() noexcept {
  try {
    throw;
  } catch (const PythonError&) {
  } catch (const Error& e) {
    if (e.kind() == ErrorKind::kType) {
      PyErr_SetString(PyExc_TypeError, e.what());
    } else {
      set_error(class_of(e.kind()), e.what());
    }
  } catch (const std::bad_alloc&) {
    set_error("ResourceExhaustedError", "[proa] memory must be available, got none");
  } catch (const std::exception& e) {
    set_error("FatalError", e.what());
  }
}

void raise_type(const std::string& message) { throw Error(ErrorKind::kType, message); }

std::shared_ptr<void> keep(PyObject* object) {
  Py_INCREF(object);
  return std::shared_ptr<void>(object, [](void* o) {
    if (!Py_IsInitialized()) return;
    const PyGILState_STATE state = PyGILState_Ensure();
    Py_DECREF(static_cast<PyObject*>(o));
    PyGILState_Release(state);
  });
}

}  // namespace proa::bind
