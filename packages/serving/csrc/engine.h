#pragma once
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <vector>

#include "transport.h"

namespace proa::serving {

/// The sockets of one listener, polled when the event loop reports that `fileno()` is readable.
///
/// Runs on the event loop's thread, with Python's lock held except while much is copied; other
/// threads, which hold that lock, may call `settle` alone.
struct Engine {
  /// `callback(sent)` is due, or an Arrival is to be settled.
  struct Settled {
    PyObject* callback;
    bool sent;
  };

  PyObject_HEAD int epoll;
  int wake;              // a timerfd that the epoll watches
  PyObject* call_soon;   // of the event loop
  PyObject* on_error;    // called with the exception that a protocol raised
  PyObject* transports;  // a set: those that are connected
  PyObject* budget;      // has `used` and `limit`, in bytes; null if nothing is charged
  PyObject* seconds;     // a dictionary: how long a protocol may be in a phase
  PyObject* memory;      // a bytearray that small requests are received into
  Py_buffer buffer;      // of it
  std::vector<Settled>* settled;
};

/// Has `callback(sent)` called, or an Arrival settled, on the event loop, soon, and before what
/// arrives from now on is served. From any thread.
void settle(Engine* self, PyObject* callback, bool sent);

extern PyType_Spec engine_spec;
extern PyTypeObject* transport_type;

}  // namespace proa::serving
