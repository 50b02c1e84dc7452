#pragma once
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "transport.h"

namespace proa::serving {

/// The sockets of one listener, polled when the event loop reports that `fileno()` is readable.
///
/// Runs on the event loop's thread, with Python's lock held except while much is copied.
struct Engine {
  PyObject_HEAD int epoll;
  PyObject* call_soon;   // of the event loop
  PyObject* on_error;    // called with the exception that a protocol raised
  PyObject* transports;  // a set: those that are connected
  PyObject* memory;      // a bytearray that small requests are received into
  Py_buffer buffer;      // of it
};

extern PyType_Spec engine_spec;
extern PyTypeObject* transport_type;

}  // namespace proa::serving
