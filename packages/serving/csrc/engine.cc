#include "engine.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

namespace proa::serving {
namespace {

constexpr int kEvents = 64;
// What is ready at once is served, so many times, before the event loop continues.
constexpr int kRounds = 8;
// What follows an answer that was sent waits so long, in nanoseconds, for the client's next
// request, which wakes the event loop anyway.
constexpr long kSettleDelay = 1000000;

void close_epoll(Engine* self) {
  if (self->epoll >= 0) close(self->epoll);
  if (self->wake >= 0) close(self->wake);
  self->epoll = self->wake = -1;
}

/// Leaves errno, and no descriptor, if it cannot be.
void open_epoll(Engine* self) {
  self->epoll = epoll_create1(EPOLL_CLOEXEC);
  self->wake = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  struct epoll_event event;
  memset(&event, 0, sizeof event);
  event.events = EPOLLIN;  // its data.ptr is null, as no transport's is
  if (self->epoll >= 0 && self->wake >= 0 &&
      epoll_ctl(self->epoll, EPOLL_CTL_ADD, self->wake, &event) == 0) {
    return;
  }
  const int error = errno;
  close_epoll(self);
  errno = error;
}

PyObject* engine_new(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject *call_soon, *on_error, *budget = nullptr, *seconds = nullptr;
  Py_ssize_t bytes;
  if (!PyArg_ParseTuple(args, "OOn|OO!:Engine", &call_soon, &on_error, &bytes, &budget,
                        &PyDict_Type, &seconds)) {
    return nullptr;
  }
  if (bytes < 1) {
    PyErr_Format(PyExc_ValueError, "[Engine] expected a buffer of 1 byte or more, got %zd", bytes);
    return nullptr;
  }
  auto* self = reinterpret_cast<Engine*>(type->tp_alloc(type, 0));
  if (self == nullptr) return nullptr;
  self->call_soon = Py_NewRef(call_soon);
  self->on_error = Py_NewRef(on_error);
  self->budget = seconds == nullptr ? nullptr : Py_NewRef(budget);
  self->seconds = Py_XNewRef(seconds);
  self->settled = new std::vector<Engine::Settled>;
  open_epoll(self);
  if (self->epoll < 0) PyErr_SetFromErrno(PyExc_OSError);
  self->transports = PySet_New(nullptr);
  self->memory = PyByteArray_FromStringAndSize(nullptr, bytes);
  if (self->epoll < 0 || self->transports == nullptr || self->memory == nullptr ||
      PyObject_GetBuffer(self->memory, &self->buffer, PyBUF_WRITABLE) != 0) {
    Py_DECREF(self);
    return nullptr;
  }
  return reinterpret_cast<PyObject*>(self);
}

int engine_traverse(Engine* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(self->call_soon);
  Py_VISIT(self->on_error);
  Py_VISIT(self->budget);
  Py_VISIT(self->seconds);
  Py_VISIT(self->transports);
  if (self->settled != nullptr) {
    for (const Engine::Settled& held : *self->settled) Py_VISIT(held.callback);
  }
  return 0;
}

int engine_clear(Engine* self) {
  Py_CLEAR(self->call_soon);
  Py_CLEAR(self->on_error);
  Py_CLEAR(self->budget);
  Py_CLEAR(self->seconds);
  Py_CLEAR(self->transports);
  if (self->settled != nullptr) {
    std::vector<Engine::Settled> held;
    held.swap(*self->settled);
    for (const Engine::Settled& each : held) Py_DECREF(each.callback);
  }
  return 0;
}

void engine_dealloc(Engine* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  engine_clear(self);
  delete self->settled;
  close_epoll(self);
  if (self->buffer.obj != nullptr) PyBuffer_Release(&self->buffer);
  Py_CLEAR(self->memory);
  type->tp_free(self);
  Py_DECREF(type);
}

/// Gives the exception that is set to `on_error`, and ends the connection that it came from, if
/// any.
void report(Engine* self, Transport* transport) {
  PyObject *kind, *value, *trace;
  PyErr_Fetch(&kind, &value, &trace);
  PyErr_NormalizeException(&kind, &value, &trace);
  if (trace != nullptr) PyException_SetTraceback(value, trace);
  if (transport != nullptr) lose(transport, 0);
  PyObject* result =
      self->on_error == nullptr ? nullptr : PyObject_CallOneArg(self->on_error, value);
  if (result == nullptr) PyErr_WriteUnraisable(self->on_error);
  Py_XDECREF(result);
  Py_XDECREF(kind);
  Py_XDECREF(value);
  Py_XDECREF(trace);
}

/// Wakes the event loop once after `delay` nanoseconds; never if 0.
void set_wake(Engine* self, long delay) {
  struct itimerspec when;
  memset(&when, 0, sizeof when);
  when.it_value.tv_nsec = delay;
  timerfd_settime(self->wake, 0, &when, nullptr);  // resets what has expired, too
}

/// Calls what is due.
void run_settled(Engine* self) {
  if (self->settled->empty()) return;
  set_wake(self, 0);
  std::vector<Engine::Settled> due;
  due.swap(*self->settled);  // a callback may make more
  for (const Engine::Settled& each : due) {
    if (PyObject_TypeCheck(each.callback, arrival_type)) {
      if (!settle_arrival(reinterpret_cast<Arrival*>(each.callback), each.sent)) {
        report(self, nullptr);
      }
      Py_DECREF(each.callback);
      continue;
    }
    PyObject* result = PyObject_CallOneArg(each.callback, each.sent ? Py_True : Py_False);
    if (result == nullptr) report(self, nullptr);
    Py_XDECREF(result);
    Py_DECREF(each.callback);
  }
}

PyObject* engine_poll(Engine* self, PyObject*) {
  struct epoll_event events[kEvents];
  for (int round = 0; round < kRounds; ++round) {
    const int count = self->epoll < 0 ? 0 : epoll_wait(self->epoll, events, kEvents, 0);
    if (count <= 0) break;
    run_settled(self);
    for (int at = 0; at < count; ++at) {
      // The engine's reference is dropped from the event loop, never while this runs.
      auto* transport = static_cast<Transport*>(events[at].data.ptr);
      if (transport == nullptr) continue;  // what settled
      if (!on_ready(transport, events[at].events)) report(self, transport);
    }
  }
  Py_RETURN_NONE;
}

PyObject* engine_connect(Engine* self, PyObject* args) {
  PyObject *socket, *protocol;
  if (!PyArg_ParseTuple(args, "OO:connect", &socket, &protocol)) return nullptr;
  if (self->epoll < 0) {
    PyErr_SetString(PyExc_RuntimeError, "[Engine.connect] expected an engine that is not closed");
    return nullptr;
  }
  return connect_transport(self, socket, protocol);
}

PyObject* engine_fileno(Engine* self, PyObject*) { return PyLong_FromLong(self->epoll); }

PyObject* engine_close(Engine* self, PyObject*) {
  close_epoll(self);
  PyObject* held = self->transports;
  self->transports = PySet_New(nullptr);
  Py_XDECREF(held);
  Py_RETURN_NONE;
}

PyObject* engine_buffer(Engine* self, void*) { return PyMemoryView_FromObject(self->memory); }

PyMethodDef methods[] = {
    {"connect", reinterpret_cast<PyCFunction>(engine_connect), METH_VARARGS,
     "Serve a non-blocking socket by a BufferedProtocol; its Transport."},
    {"poll", reinterpret_cast<PyCFunction>(engine_poll), METH_NOARGS,
     "Receive and send what can be."},
    {"fileno", reinterpret_cast<PyCFunction>(engine_fileno), METH_NOARGS,
     "Is readable when poll has something to do."},
    {"close", reinterpret_cast<PyCFunction>(engine_close), METH_NOARGS, "Poll no more."},
    {nullptr, nullptr, 0, nullptr}};

PyGetSetDef properties[] = {
    {"buffer", reinterpret_cast<getter>(engine_buffer), nullptr,
     "Where requests are received that the protocol gives no buffer for.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyType_Slot slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(engine_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(engine_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(engine_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(engine_clear)},
    {Py_tp_methods, methods},
    {Py_tp_getset, properties},
    {Py_tp_doc, const_cast<char*>("Engine(call_soon, on_error, bytes, budget, seconds): sockets of "
                                  "one listener.")},
    {0, nullptr}};

}  // namespace

void settle(Engine* self, PyObject* callback, bool sent) {
  if (self->epoll < 0) return;  // No connection is left.
  if (!sent || self->settled->empty()) set_wake(self, sent ? kSettleDelay : 1);
  self->settled->push_back({Py_NewRef(callback), sent});
}

PyType_Spec engine_spec = {"proa_serving._native.Engine", sizeof(Engine), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, slots};

}  // namespace proa::serving
