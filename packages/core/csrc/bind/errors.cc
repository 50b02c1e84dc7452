#include <unistd.h>

#include <new>

#include "python.h"

namespace proa::bind {

namespace {

const char* class_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInvalidArgument:
      return "InvalidArgumentError";
    case ErrorKind::kType:
      return "InvalidTypeError";
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
    case ErrorKind::kUnsupportedCpu:
      return "UnsupportedCpuError";
    default:
      return "FatalError";
  }
}

// proa.errors.locations words it: the class by its name, the user's line, the C++ stack if there is
// one.
void set_error(const char* name, const char* message, const std::string& stack) {
  const Ref module(PyImport_ImportModule("proa.errors.locations"));
  const Ref error(
      module ? PyObject_CallMethod(module.get(), "raised", "sss", name, message, stack.c_str())
             : nullptr);
  if (!error) {
    PyErr_Clear();
    PyErr_SetString(PyExc_RuntimeError, message);
    return;
  }
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.get())), error.get());
}

}  // namespace

void translate_exception() noexcept {
  try {
    throw;
  } catch (const PythonError&) {
    return;  // the interpreter has it
  } catch (const Error& e) {
    set_error(class_of(e.kind()), e.what(), e.stack());
  } catch (const std::bad_alloc&) {
    set_error("ResourceExhaustedError", "[proa] out of memory", "");
  } catch (const std::exception& e) {
    set_error("FatalError", e.what(), "");
  }
}

void take_lock(PyThreadState* state) noexcept {
  try {
    PyEval_RestoreThread(state);
  } catch (...) {  // the interpreter is gone, and with it soon the process
    for (;;) pause();
  }
}

void raise_type(const std::string& message) { throw Error(ErrorKind::kType, message); }

void raise_symbolic_value(const std::string& where) {
  const std::string message = "[" + where +
                              "] recorded code must not depend on a tensor's value, got a "
                              "symbolic tensor, which has none";
  set_error("SymbolicValueError", message.c_str(), "");
  throw PythonError();
}

void raise_exchange(const std::string& message) {
  set_error("ExchangeError", message.c_str(), "");
  throw PythonError();
}

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
