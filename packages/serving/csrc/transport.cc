#include "transport.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "engine.h"

namespace proa::serving {
namespace {

constexpr size_t kHighWater = 1 << 16;  // as asyncio's: where a protocol is to pause
constexpr size_t kMaxKnown = 8;

void clear_heads(Transport* self) {
  std::vector<KnownHead> held;
  held.swap(*self->heads);
  self->last_head = SIZE_MAX;
  for (KnownHead& head : held) {
    Py_DECREF(head.answer);
    Py_DECREF(head.take);
    Py_DECREF(head.give);
    for (KnownText& text : head.texts) Py_DECREF(reinterpret_cast<PyObject*>(text.lane));
  }
}

/// Drops the request that is received without the protocol, which is about to end anyway.
void drop_arrival(Transport* self) {
  if (self->arrival == nullptr || self->arrival->size == self->arrival->length) return;
  release(self->engine, self->arrival);
  Py_CLEAR(self->arrival->transport);
  Py_CLEAR(self->arrival);
}

void forget_protocol(Transport* self) {
  clear_known(self);
  Py_CLEAR(self->get_buffer);
  Py_CLEAR(self->buffer_updated);
  Py_CLEAR(self->protocol);
}

int transport_traverse(Transport* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(reinterpret_cast<PyObject*>(self->engine));
  Py_VISIT(self->socket);
  Py_VISIT(self->protocol);
  Py_VISIT(self->get_buffer);
  Py_VISIT(self->buffer_updated);
  if (self->known != nullptr) {
    for (const Known& known : *self->known) Py_VISIT(known.answer);
  }
  if (self->heads != nullptr) {
    for (const KnownHead& head : *self->heads) {
      Py_VISIT(head.answer);
      Py_VISIT(head.take);
      Py_VISIT(head.give);
      for (const KnownText& text : head.texts) Py_VISIT(reinterpret_cast<PyObject*>(text.lane));
    }
  }
  Py_VISIT(reinterpret_cast<PyObject*>(self->arrival));
  return 0;
}

int transport_clear(Transport* self) {
  forget_protocol(self);
  Py_CLEAR(self->arrival);
  Py_CLEAR(self->engine);
  Py_CLEAR(self->socket);
  return 0;
}

void transport_dealloc(Transport* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  transport_clear(self);
  delete self->outbox;
  delete self->known;
  delete self->heads;
  type->tp_free(self);
  Py_DECREF(type);
}

/// Calls connection_lost, and closes the socket; from the event loop.
PyObject* end_connection(Transport* self, PyObject* error) {
  PyObject* protocol = self->protocol;
  if (protocol == nullptr) Py_RETURN_NONE;
  Py_INCREF(protocol);
  PyObject* result = PyObject_CallMethod(protocol, "connection_lost", "O", error);
  Py_DECREF(protocol);
  forget_protocol(self);
  self->outbox->clear();
  PyObject* closed = PyObject_CallMethod(self->socket, "close", nullptr);
  if (closed == nullptr) PyErr_Clear();
  Py_XDECREF(closed);
  self->fd = -1;
  if (self->engine->transports != nullptr &&
      PySet_Discard(self->engine->transports, reinterpret_cast<PyObject*>(self)) < 0) {
    Py_XDECREF(result);
    return nullptr;
  }
  return result;
}

PyObject* transport_write(Transport* self, PyObject* data) {
  if (!write_parts(self, &data, 1)) return nullptr;
  Py_RETURN_NONE;
}

PyObject* transport_writelines(Transport* self, PyObject* given) {
  PyObject* parts = PySequence_Fast(given, "[writelines] expected a sequence of buffers");
  if (parts == nullptr) return nullptr;
  const bool ok = write_parts(self, PySequence_Fast_ITEMS(parts), PySequence_Fast_GET_SIZE(parts));
  Py_DECREF(parts);
  if (!ok) return nullptr;
  Py_RETURN_NONE;
}

PyObject* transport_write_eof(Transport* self, PyObject*) {
  if (self->closing || self->lost) Py_RETURN_NONE;
  drop_arrival(self);  // No answer can follow.
  if (self->outbox->size()) {
    self->shuts = true;
  } else {
    shutdown(self->fd, SHUT_WR);
  }
  Py_RETURN_NONE;
}

PyObject* transport_can_write_eof(Transport*, PyObject*) { Py_RETURN_TRUE; }

PyObject* transport_close(Transport* self, PyObject*) {
  if (self->closing) Py_RETURN_NONE;
  self->closing = true;
  self->reading = false;
  if (!self->outbox->size()) {
    lose(self, 0);
  } else {
    update_watch(self);
  }
  if (PyErr_Occurred()) return nullptr;
  Py_RETURN_NONE;
}

PyObject* transport_abort(Transport* self, PyObject*) {
  lose(self, 0);
  if (PyErr_Occurred()) return nullptr;
  Py_RETURN_NONE;
}

PyObject* transport_is_closing(Transport* self, PyObject*) {
  return PyBool_FromLong(self->closing || self->lost);
}

PyObject* transport_pause_reading(Transport* self, PyObject*) {
  self->reading = false;
  update_watch(self);
  Py_RETURN_NONE;
}

PyObject* transport_resume_reading(Transport* self, PyObject*) {
  if (!self->closing) self->reading = true;
  update_watch(self);
  Py_RETURN_NONE;
}

PyObject* transport_write_buffer_size(Transport* self, PyObject*) {
  return PyLong_FromSize_t(self->outbox->size());
}

PyObject* transport_extra_info(Transport* self, PyObject* args) {
  const char* name;
  PyObject* otherwise = Py_None;
  if (!PyArg_ParseTuple(args, "s|O:get_extra_info", &name, &otherwise)) return nullptr;
  if (self->socket != nullptr && strcmp(name, "socket") == 0) return Py_NewRef(self->socket);
  if (self->socket != nullptr && strcmp(name, "peername") == 0) {
    PyObject* peer = PyObject_CallMethod(self->socket, "getpeername", nullptr);
    if (peer != nullptr || !PyErr_ExceptionMatches(PyExc_OSError)) return peer;
    PyErr_Clear();  // The client is gone.
  }
  return Py_NewRef(otherwise);
}

PyObject* transport_expect(Transport* self, PyObject*) {
  self->expects = true;
  Py_RETURN_NONE;
}

PyObject* transport_answer(Transport* self, PyObject* args) {
  PyObject *given, *callback;
  if (!PyArg_ParseTuple(args, "OO:answer", &given, &callback)) return nullptr;
  PyObject* parts = PySequence_Fast(given, "[answer] expected a sequence of buffers");
  if (parts == nullptr) return nullptr;
  const int sent =
      send_at_once(self, PySequence_Fast_ITEMS(parts), PySequence_Fast_GET_SIZE(parts));
  Py_DECREF(parts);
  if (sent < 0) return nullptr;
  settle(self->engine, callback, sent > 0);
  Py_RETURN_NONE;
}

PyObject* transport_forget(Transport* self, PyObject*) {
  clear_known(self);
  Py_RETURN_NONE;
}

bool read_ranges(PyObject* given, std::vector<Pattern::Range>* ranges) {
  for (Py_ssize_t at = 0; at < PyTuple_GET_SIZE(given); ++at) {
    Py_ssize_t begin, end;
    if (!PyArg_ParseTuple(PyTuple_GET_ITEM(given, at), "nn", &begin, &end)) return false;
    ranges->push_back({static_cast<size_t>(begin), static_cast<size_t>(end)});
  }
  return true;
}

bool read_streams(PyObject* given, std::vector<size_t>* streams) {
  for (Py_ssize_t at = 0; at < PyTuple_GET_SIZE(given); ++at) {
    const Py_ssize_t place = PyLong_AsSsize_t(PyTuple_GET_ITEM(given, at));
    if (place == -1 && PyErr_Occurred()) return false;
    streams->push_back(static_cast<size_t>(place));
  }
  return true;
}

PyObject* transport_learn(Transport* self, PyObject* args) {
  const char* text;
  Py_ssize_t size, tail;
  PyObject *literals, *places, *answer;
  if (!PyArg_ParseTuple(args, "y#O!nO!O:learn", &text, &size, &PyTuple_Type, &literals, &tail,
                        &PyTuple_Type, &places, &answer)) {
    return nullptr;
  }
  std::vector<Pattern::Range> ranges;
  std::vector<size_t> streams;
  if (!read_ranges(literals, &ranges) || !read_streams(places, &streams)) return nullptr;
  const auto bytes = static_cast<size_t>(size);
  bool valid = Pattern::are_valid(ranges, bytes) && !ranges.empty() && tail >= 0 && tail <= size;
  for (const size_t at : streams) valid = valid && bytes >= 4 && at <= bytes - 4;
  if (!valid) {
    PyErr_SetString(PyExc_ValueError, "[learn] expected ranges and places within the request");
    return nullptr;
  }
  if (self->lost) Py_RETURN_NONE;
  if (self->known->size() >= kMaxKnown) clear_known(self);
  Pattern pattern(std::string(text, bytes), std::move(ranges));
  self->known->push_back(
      {std::move(pattern), static_cast<size_t>(tail), std::move(streams), Py_NewRef(answer)});
  Py_RETURN_NONE;
}

PyObject* transport_learn_head(Transport* self, PyObject* args) {
  const char* text;
  Py_ssize_t size;
  PyObject *names, *answer, *take, *give;
  if (!PyArg_ParseTuple(args, "y#O!OOO:learn_head", &text, &size, &PyTuple_Type, &names, &answer,
                        &take, &give)) {
    return nullptr;
  }
  std::vector<std::string> read;
  for (Py_ssize_t at = 0; at < PyTuple_GET_SIZE(names); ++at) {
    char* name;
    Py_ssize_t length;
    if (PyBytes_AsStringAndSize(PyTuple_GET_ITEM(names, at), &name, &length) != 0) return nullptr;
    read.emplace_back(name, static_cast<size_t>(length));
  }
  HeadPattern pattern;
  const std::string head(text, static_cast<size_t>(size));
  if (self->lost || !pattern.learn(head, std::move(read))) Py_RETURN_FALSE;
  if (self->heads->size() >= kMaxKnown) clear_heads(self);
  self->heads->push_back(
      {std::move(pattern), Py_NewRef(answer), Py_NewRef(take), Py_NewRef(give), {}});
  Py_RETURN_TRUE;
}

PyObject* transport_learn_text(Transport* self, PyObject* args) {
  const char* text;
  Py_ssize_t size, length;
  PyObject* lane;
  if (!PyArg_ParseTuple(args, "y#nO!:learn_text", &text, &size, &length, lane_type, &lane)) {
    return nullptr;
  }
  if (self->lost || length < size || self->last_head >= self->heads->size()) Py_RETURN_FALSE;
  std::vector<KnownText>& texts = (*self->heads)[self->last_head].texts;
  KnownText known{std::string(text, static_cast<size_t>(size)), static_cast<size_t>(length),
                  reinterpret_cast<Lane*>(Py_NewRef(lane))};
  auto old = texts.begin();
  while (old != texts.end() && old->text != known.text) ++old;
  if (old == texts.end() && texts.size() >= kMaxKnown) old = texts.begin();
  if (old == texts.end()) {
    texts.push_back(std::move(known));
  } else {
    std::swap(*old, known);
    Py_DECREF(reinterpret_cast<PyObject*>(known.lane));
  }
  Py_RETURN_TRUE;
}

PyMethodDef methods[] = {
    {"write", reinterpret_cast<PyCFunction>(transport_write), METH_O, "Send a buffer."},
    {"writelines", reinterpret_cast<PyCFunction>(transport_writelines), METH_O, "Send buffers."},
    {"write_eof", reinterpret_cast<PyCFunction>(transport_write_eof), METH_NOARGS,
     "Say that no more is written, after what was."},
    {"can_write_eof", reinterpret_cast<PyCFunction>(transport_can_write_eof), METH_NOARGS, "True."},
    {"close", reinterpret_cast<PyCFunction>(transport_close), METH_NOARGS,
     "Close when all is written."},
    {"abort", reinterpret_cast<PyCFunction>(transport_abort), METH_NOARGS, "Close at once."},
    {"is_closing", reinterpret_cast<PyCFunction>(transport_is_closing), METH_NOARGS,
     "Whether it is closed, or about to be."},
    {"pause_reading", reinterpret_cast<PyCFunction>(transport_pause_reading), METH_NOARGS,
     "Receive nothing."},
    {"resume_reading", reinterpret_cast<PyCFunction>(transport_resume_reading), METH_NOARGS,
     "Receive again."},
    {"get_write_buffer_size", reinterpret_cast<PyCFunction>(transport_write_buffer_size),
     METH_NOARGS, "Bytes that the socket has not taken."},
    {"get_extra_info", reinterpret_cast<PyCFunction>(transport_extra_info), METH_VARARGS,
     "The socket, or the peername."},
    {"learn", reinterpret_cast<PyCFunction>(transport_learn), METH_VARARGS,
     "learn(text, literals, tail, streams, answer): answer requests like text by answer."},
    {"learn_head", reinterpret_cast<PyCFunction>(transport_learn_head), METH_VARARGS,
     "learn_head(head, names, answer, take, give): take requests with such a head; whether it can "
     "be."},
    {"learn_text", reinterpret_cast<PyCFunction>(transport_learn_text), METH_VARARGS,
     "learn_text(text, length, lane): receive requests with this JSON for workers, after the head "
     "of the known one that came last."},
    {"answer", reinterpret_cast<PyCFunction>(transport_answer), METH_VARARGS,
     "answer(parts, callback): send buffers now if that can be, from any thread, and have "
     "callback(sent) called on the event loop."},
    {"forget", reinterpret_cast<PyCFunction>(transport_forget), METH_NOARGS,
     "Forget what was learned."},
    {"expect", reinterpret_cast<PyCFunction>(transport_expect), METH_NOARGS,
     "The next byte begins a request."},
    {nullptr, nullptr, 0, nullptr}};

PyMethodDef end_method = {"end_connection", reinterpret_cast<PyCFunction>(end_connection), METH_O,
                          nullptr};

PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(transport_dealloc)},
                       {Py_tp_traverse, reinterpret_cast<void*>(transport_traverse)},
                       {Py_tp_clear, reinterpret_cast<void*>(transport_clear)},
                       {Py_tp_methods, methods},
                       {Py_tp_doc, const_cast<char*>("A connected socket; see asyncio.Transport.")},
                       {0, nullptr}};

/// The OSError of `error`, or None for 0; a new reference.
PyObject* error_object(int error) {
  if (!error) return Py_NewRef(Py_None);
  return PyObject_CallFunction(PyExc_OSError, "is", error, strerror(error));
}

}  // namespace

void clear_known(Transport* self) {
  self->expects = false;
  if (self->known == nullptr) return;
  std::vector<Known> held;
  held.swap(*self->known);
  for (Known& known : held) Py_DECREF(known.answer);
  clear_heads(self);
}

void update_watch(Transport* self) {
  if (self->lost || self->engine->epoll < 0) return;
  uint32_t wanted = 0;
  if (self->reading && !self->closing) wanted |= EPOLLIN;
  if (self->outbox->size()) wanted |= EPOLLOUT;
  if (wanted == self->watched) return;
  struct epoll_event event;
  memset(&event, 0, sizeof event);
  event.events = wanted;
  event.data.ptr = self;
  // Not watched at all where nothing is wanted: a hang-up would be reported again and again.
  const int change = !wanted ? EPOLL_CTL_DEL : self->watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
  if (epoll_ctl(self->engine->epoll, change, self->fd, &event) == 0) self->watched = wanted;
}

int send_at_once(Transport* self, PyObject* const* parts, Py_ssize_t count) {
  if (count == 0 || self->lost || self->closing || self->outbox->size()) return 0;
  bool fits = true;
  for (Py_ssize_t at = 0; at < count && fits; ++at) {
    if (!self->outbox->put(parts[at])) {
      self->outbox->clear();
      return -1;
    }
    fits = self->outbox->size() <= Outbox::kLong;
  }
  if (!fits || self->outbox->flush(self->fd) == Outbox::Result::kFailed) {
    self->outbox->clear();  // The event loop tries again, and finds out.
    return 0;
  }
  if (self->outbox->size()) update_watch(self);
  return 1;
}

void lose(Transport* self, int error) {
  if (self->lost) return;
  drop_arrival(self);
  self->closing = true;
  self->outbox->clear();
  self->reading = false;
  update_watch(self);
  self->lost = true;
  clear_known(self);
  PyObject* why = error_object(error);
  PyObject* end = PyCFunction_New(&end_method, reinterpret_cast<PyObject*>(self));
  if (why != nullptr && end != nullptr) {
    PyObject* handle = PyObject_CallFunctionObjArgs(self->engine->call_soon, end, why, nullptr);
    Py_XDECREF(handle);
  }
  Py_XDECREF(why);
  Py_XDECREF(end);
}

bool write_parts(Transport* self, PyObject* const* parts, Py_ssize_t count) {
  if (self->lost) return true;
  const bool idle = self->outbox->size() == 0;
  for (Py_ssize_t at = 0; at < count; ++at) {
    if (!self->outbox->put(parts[at])) return false;
  }
  if (idle && self->outbox->flush(self->fd) == Outbox::Result::kFailed) {
    lose(self, errno);
    return !PyErr_Occurred();
  }
  if (!self->outbox->size()) return true;
  update_watch(self);
  if (self->blocked || self->outbox->size() <= kHighWater) return true;
  self->blocked = true;
  PyObject* result = PyObject_CallMethod(self->protocol, "pause_writing", nullptr);
  Py_XDECREF(result);
  return result != nullptr;
}

PyObject* connect_transport(Engine* engine, PyObject* socket, PyObject* protocol) {
  const int fd = PyObject_AsFileDescriptor(socket);
  if (fd < 0) return nullptr;
  auto* self = reinterpret_cast<Transport*>(transport_type->tp_alloc(transport_type, 0));
  if (self == nullptr) return nullptr;
  self->engine = reinterpret_cast<Engine*>(Py_NewRef(reinterpret_cast<PyObject*>(engine)));
  self->fd = fd;
  self->socket = Py_NewRef(socket);
  self->protocol = Py_NewRef(protocol);
  self->outbox = new Outbox;
  self->known = new std::vector<Known>;
  self->heads = new std::vector<KnownHead>;
  self->last_head = SIZE_MAX;
  self->get_buffer = PyObject_GetAttrString(protocol, "get_buffer");
  self->buffer_updated = PyObject_GetAttrString(protocol, "buffer_updated");
  auto* held = reinterpret_cast<PyObject*>(self);
  if (self->get_buffer == nullptr || self->buffer_updated == nullptr ||
      PySet_Add(engine->transports, held) != 0) {
    Py_DECREF(held);
    return nullptr;
  }
  const int one = 1;  // Refused by a Unix socket, which does not wait anyway.
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  self->reading = true;
  PyObject* result = PyObject_CallMethod(protocol, "connection_made", "O", held);
  if (result == nullptr) {
    PySet_Discard(engine->transports, held);
    Py_DECREF(held);
    return nullptr;
  }
  Py_DECREF(result);
  update_watch(self);
  return held;
}

PyType_Spec transport_spec = {"proa_serving._native.Transport", sizeof(Transport), 0,
                              Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, slots};

}  // namespace proa::serving
