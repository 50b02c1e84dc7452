#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "engine.h"

namespace proa::serving {
namespace {

constexpr size_t kLowWater = 1 << 14;  // as asyncio's, a quarter of the other
// A large request is received in as many calls at once, so that it is copied and read while it is
// in the cache: taking turns with those of other connections evicts it.
constexpr int kReads = 8;

/// recv, without Python's lock where `long_wait`: much is copied, to memory that is the caller's.
ssize_t receive(int fd, void* data, size_t size, bool long_wait) {
  for (;;) {
    ssize_t count;
    int error;
    if (long_wait) {
      Py_BEGIN_ALLOW_THREADS;
      count = recv(fd, data, size, MSG_DONTWAIT);
      error = errno;
      Py_END_ALLOW_THREADS;
      errno = error;
    } else {
      count = recv(fd, data, size, MSG_DONTWAIT);
    }
    if (count >= 0 || errno != EINTR) return count;
  }
}

/// What recv returned, where that is no data: true if there is nothing more to do.
bool ended(Transport* self, ssize_t count, bool* ok) {
  *ok = true;
  if (count > 0) return false;
  if (count < 0) {
    if (errno != EAGAIN && errno != EWOULDBLOCK) lose(self, errno);
    return true;
  }
  PyObject* keep = PyObject_CallMethod(self->protocol, "eof_received", nullptr);
  *ok = keep != nullptr;
  if (keep == nullptr) return true;
  const int stays = PyObject_IsTrue(keep);
  Py_DECREF(keep);
  self->reading = false;
  if (stays == 0 && !self->closing) {
    self->closing = true;
    if (!self->outbox->size()) lose(self, 0);
  }
  update_watch(self);
  return true;
}

bool give(Transport* self, ssize_t count) {
  self->expects = false;
  PyObject* number = PyLong_FromSsize_t(count);
  if (number == nullptr) return false;
  PyObject* result = PyObject_CallOneArg(self->buffer_updated, number);
  Py_DECREF(number);
  Py_XDECREF(result);
  return result != nullptr;
}

/// The stream that a known request is of; kNoStream if its numbers differ.
uint32_t stream_of(const Known& known, const char* data) {
  const uint32_t number = read_stream(data + known.streams[0]);
  for (const size_t at : known.streams) {
    if (read_stream(data + at) != number) return kNoStream;
  }
  return number;
}

/// The answer to a known request; a new reference, or null with a Python error.
PyObject* call_answer(const Known& known, const char* data) {
  const size_t size = known.pattern.size() - known.tail;
  PyObject* answer = Py_NewRef(known.answer);  // the call may forget what is known
  PyObject* arguments[2] = {
      PyBytes_FromStringAndSize(data + known.tail, static_cast<Py_ssize_t>(size)), nullptr};
  PyObject* result = nullptr;
  if (arguments[0] != nullptr && known.streams.empty()) {
    result = PyObject_CallOneArg(answer, arguments[0]);
  } else if (arguments[0] != nullptr) {
    const uint32_t stream = stream_of(known, data);
    arguments[1] = PyLong_FromUnsignedLong(stream);
    if (stream == kNoStream) {
      result = Py_NewRef(Py_None);
    } else if (arguments[1] != nullptr) {
      result = PyObject_Vectorcall(answer, arguments, 2, nullptr);
    }
  }
  Py_DECREF(answer);
  Py_XDECREF(arguments[0]);
  Py_XDECREF(arguments[1]);
  return result;
}

const Known* find_known(const Transport* self, const char* data, size_t size) {
  for (const Known& known : *self->known) {
    if (known.pattern.matches(data, size)) return &known;
  }
  return nullptr;
}

/// Answers the known requests that `data` begins with; the bytes of them, or -1 with an error.
ssize_t answer_known(Transport* self, const char* data, size_t size) {
  size_t at = 0;
  while (at < size && self->expects && !self->closing && !self->blocked) {
    const Known* known = find_known(self, data + at, size - at);
    if (known == nullptr) break;
    const size_t taken = known->pattern.size();
    PyObject* parts = call_answer(*known, data + at);
    if (parts == nullptr) return -1;
    if (parts == Py_None) {
      Py_DECREF(parts);
      break;
    }
    PyObject* listed = PySequence_Fast(parts, "[answer] expected a list of buffers or None");
    Py_DECREF(parts);
    if (listed == nullptr) return -1;
    const bool ok =
        write_parts(self, PySequence_Fast_ITEMS(listed), PySequence_Fast_GET_SIZE(listed));
    Py_DECREF(listed);
    if (!ok) return -1;
    at += taken;
  }
  return static_cast<ssize_t>(at);
}

bool receive_known(Transport* self, bool* full) {
  char* buffer = static_cast<char*>(self->engine->buffer.buf);
  const size_t size = static_cast<size_t>(self->engine->buffer.len);
  const ssize_t count = receive(self->fd, buffer, size, false);
  bool ok;
  if (ended(self, count, &ok)) return ok;
  *full = static_cast<size_t>(count) == size;
  const ssize_t answered = answer_known(self, buffer, static_cast<size_t>(count));
  if (answered < 0) return false;
  if (answered == count || self->lost) return true;
  if (answered > 0) memmove(buffer, buffer + answered, static_cast<size_t>(count - answered));
  return give(self, count - answered);
}

bool receive_into_protocol(Transport* self, bool* full) {
  PyObject* given = PyObject_CallFunction(self->get_buffer, "i", -1);
  if (given == nullptr) return false;
  Py_buffer view;
  const int got = PyObject_GetBuffer(given, &view, PyBUF_WRITABLE);
  Py_DECREF(given);
  if (got != 0) return false;
  // Its own memory is of a large body. The engine's is every connection's.
  const bool own = view.buf != self->engine->buffer.buf;
  const ssize_t count = receive(self->fd, view.buf, static_cast<size_t>(view.len), own);
  const int error = errno;
  const Py_ssize_t room = view.len;
  PyBuffer_Release(&view);
  errno = error;
  bool ok;
  if (ended(self, count, &ok)) return ok;
  *full = count == room;
  return give(self, count);
}

bool call_plainly(PyObject* object, const char* method) {
  PyObject* result = PyObject_CallMethod(object, method, nullptr);
  Py_XDECREF(result);
  return result != nullptr;
}

bool send_more(Transport* self) {
  if (self->outbox->flush(self->fd) == Outbox::Result::kFailed) {
    lose(self, errno);
    return true;
  }
  if (self->blocked && self->outbox->size() <= kLowWater) {
    self->blocked = false;
    if (!call_plainly(self->protocol, "resume_writing")) return false;
  }
  if (!self->outbox->size() && !self->lost) {
    if (self->shuts) {
      self->shuts = false;
      shutdown(self->fd, SHUT_WR);
    }
    if (self->closing) lose(self, 0);
  }
  update_watch(self);
  return true;
}

}  // namespace

bool on_ready(Transport* self, uint32_t events) {
  if (self->lost) return true;
  if (events & EPOLLOUT && self->outbox->size() && !send_more(self)) return false;
  if (self->lost || !(events & ~EPOLLOUT)) return true;
  if (!self->reading || self->closing) {
    // Nothing is read that would find out, and the socket is reported until it is closed.
    if (events & (EPOLLERR | EPOLLHUP)) lose(self, ECONNRESET);
    return true;
  }
  bool full = true;  // there may be more
  for (int left = kReads; left && full && self->reading && !self->closing && !self->lost; --left) {
    full = false;
    const bool is_known = self->expects && !self->known->empty();
    if (!(is_known ? receive_known(self, &full) : receive_into_protocol(self, &full))) return false;
  }
  return true;
}

}  // namespace proa::serving
