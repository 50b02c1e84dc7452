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
// in the cache: requests of other connections in between evict it.
constexpr int kReads = 8;
// Received at once where the last request was large: its head and JSON, and little of its tensors.
constexpr size_t kHeadBytes = 4096;

ssize_t receive(int fd, void* data, size_t size) {
  for (;;) {
    const ssize_t count = recv(fd, data, size, MSG_DONTWAIT);
    if (count >= 0 || errno != EINTR) return count;
  }
}

/// As `receive`, of what is there and arrives meanwhile, without Python's lock: much is copied, to
/// memory that is the caller's. What ends it is reported by the next call, if there was data.
ssize_t receive_all(int fd, char* data, size_t size) {
  size_t held = 0;
  ssize_t count;
  int error, left = kReads;
  Py_BEGIN_ALLOW_THREADS;
  do {
    count = receive(fd, data + held, size - held);
    error = errno;
    if (count > 0) held += static_cast<size_t>(count);
  } while (count > 0 && held < size && --left);
  Py_END_ALLOW_THREADS;
  errno = error;
  return held ? static_cast<ssize_t>(held) : count;
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
  if (self->arrival != nullptr) self->mixed = true;
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

/// Sends what a Python callable returned, and drops it.
bool write_answer(Transport* self, PyObject* parts) {
  PyObject* listed = PySequence_Fast(parts, "[answer] expected a list of buffers or None");
  Py_DECREF(parts);
  if (listed == nullptr) return false;
  const bool ok =
      write_parts(self, PySequence_Fast_ITEMS(listed), PySequence_Fast_GET_SIZE(listed));
  Py_DECREF(listed);
  return ok;
}

const Known* find_known(const Transport* self, const char* data, size_t size) {
  for (const Known& known : *self->known) {
    if (known.pattern.matches(data, size)) return &known;
  }
  return nullptr;
}

/// Answers a known request at `data`; the bytes of it, 0 if it is none, or -1 with an error.
ssize_t answer_pattern(Transport* self, const char* data, size_t size) {
  const Known* known = find_known(self, data, size);
  if (known == nullptr) return 0;
  const size_t taken = known->pattern.size();
  PyObject* parts = call_answer(*known, data);
  if (parts == nullptr) return -1;
  if (parts == Py_None) {
    Py_DECREF(parts);
    return 0;
  }
  return write_answer(self, parts) ? static_cast<ssize_t>(taken) : -1;
}

/// The parts that answer `text` and `data`, None where there are none; null with a Python error.
PyObject* call_fast(PyObject* answer, const char* text, const HeadPattern::Found& found) {
  PyObject* arguments[2] = {
      PyBytes_FromStringAndSize(text, static_cast<Py_ssize_t>(found.text)),
      PyBytes_FromStringAndSize(text + found.text,
                                static_cast<Py_ssize_t>(found.body - found.text))};
  PyObject* parts = nullptr;
  if (arguments[0] != nullptr && arguments[1] != nullptr) {
    parts = PyObject_Vectorcall(answer, arguments, 2, nullptr);
  }
  Py_XDECREF(arguments[0]);
  Py_XDECREF(arguments[1]);
  return parts;
}

/// Continues with `arrival`, of which more has come, for a worker or the protocol; false with a
/// Python error.
bool advance_arrival(Transport* self) {
  Arrival* arrival = self->arrival;
  if (!charge(self->engine, arrival)) return !PyErr_Occurred() && give_to_protocol(arrival);
  if (arrival->size < arrival->length) return true;
  const int posted = post(arrival);
  return posted ? posted > 0 : give_to_protocol(arrival);
}

/// Begins to receive a request for workers, if it is one of `known`; the bytes of it that are
/// there, 0 if it is none, or -1 with an error.
ssize_t begin_arrival(Transport* self, const KnownHead& known, const char* head,
                      const HeadPattern::Found& found, size_t arrived) {
  if (known.texts.empty() || !found.has_text || arrived < found.text) return 0;
  const char* body = head + found.head;
  const KnownText* text = nullptr;
  for (const KnownText& each : known.texts) {
    if (each.length != found.body || each.text.size() != found.text || !each.lane->open) continue;
    if (memcmp(each.text.data(), body, found.text) != 0) continue;
    text = &each;
    break;
  }
  if (text == nullptr || self->engine->budget == nullptr) return 0;
  Arrival* arrival = new_arrival(text->lane, self, known.give, static_cast<Py_ssize_t>(found.body),
                                 static_cast<Py_ssize_t>(found.text));
  if (arrival == nullptr) return -1;
  const size_t size = arrived < found.body ? arrived : found.body;
  memcpy(arrival->data, body, size);
  arrival->size = static_cast<Py_ssize_t>(size);
  arrival->head->assign(head, found.head);
  self->arrival = arrival;
  self->mixed = false;
  self->expects = false;
  self->large = size < found.body;
  if (!advance_arrival(self)) return -1;
  if (self->arrival == arrival && size < found.body && !enter_phase(self, "body")) return -1;
  return static_cast<ssize_t>(found.head + size);
}

/// As `answer_pattern`, for a request with a head that is known. The protocol may take it without
/// an answer, or as far as it has arrived.
ssize_t answer_head(Transport* self, const char* buffer, size_t begin, size_t size) {
  HeadPattern::Found found;
  const KnownHead* known = nullptr;
  for (const KnownHead& head : *self->heads) {
    if (!head.pattern.matches(buffer + begin, size - begin, &found)) continue;
    known = &head;
    break;
  }
  if (known == nullptr) return 0;
  const size_t body = begin + found.head, arrived = size - body;
  const bool whole = found.body <= arrived;
  const size_t end = body + (whole ? found.body : arrived);
  self->last_head = static_cast<size_t>(known - self->heads->data());
  const ssize_t begun = begin_arrival(self, *known, buffer + begin, found, arrived);
  if (begun != 0) return begun;
  PyObject* take = Py_NewRef(known->take);  // the calls may forget what is known
  PyObject* parts = Py_NewRef(Py_None);
  if (whole && found.has_text && known->answer != Py_None) {
    PyObject* answer = Py_NewRef(known->answer);
    Py_DECREF(parts);
    parts = call_fast(answer, buffer + body, found);
    Py_DECREF(answer);
  }
  self->large = !whole;
  if (parts == nullptr || parts != Py_None) {
    Py_DECREF(take);
    if (parts == nullptr || !write_answer(self, parts)) return -1;
    return static_cast<ssize_t>(end - begin);
  }
  Py_DECREF(parts);
  self->expects = false;
  PyObject* taken = PyObject_CallFunction(take, "nnnnn", begin, body, end, found.body, found.text);
  Py_DECREF(take);
  const int is_taken = taken == nullptr ? -1 : PyObject_IsTrue(taken);
  Py_XDECREF(taken);
  return is_taken > 0 ? static_cast<ssize_t>(end - begin) : is_taken;
}

/// Answers the known requests that `data` begins with; the bytes of them, or -1 with an error.
ssize_t answer_known(Transport* self, const char* data, size_t size) {
  size_t at = 0;
  while (at < size && self->expects && !self->closing && !self->blocked) {
    ssize_t taken = answer_pattern(self, data + at, size - at);
    if (taken == 0 && !self->lost) taken = answer_head(self, data, at, size);
    if (taken < 0) return -1;
    if (taken == 0) break;
    at += static_cast<size_t>(taken);
  }
  return static_cast<ssize_t>(at);
}

bool receive_known(Transport* self, bool* full) {
  char* buffer = static_cast<char*>(self->engine->buffer.buf);
  size_t size = static_cast<size_t>(self->engine->buffer.len);
  // What follows its head is received where it belongs, without a copy.
  if (self->large && size > kHeadBytes) size = kHeadBytes;
  const ssize_t count = receive(self->fd, buffer, size);
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
  const auto room = static_cast<size_t>(view.len);
  const ssize_t count = own ? receive_all(self->fd, static_cast<char*>(view.buf), room)
                            : receive(self->fd, view.buf, room);
  const int error = errno;
  PyBuffer_Release(&view);
  errno = error;
  bool ok;
  if (ended(self, count, &ok)) return ok;
  // Its own memory is filled by the end of a body, which no more is likely to follow.
  *full = !own && static_cast<size_t>(count) == room;
  return give(self, count);
}

/// As `receive_into_protocol`, of a request that is received for a worker.
bool receive_arrival(Transport* self) {
  Arrival* arrival = self->arrival;
  const auto room = static_cast<size_t>(arrival->length - arrival->size);
  auto* held = reinterpret_cast<PyObject*>(arrival);
  Py_INCREF(held);
  const ssize_t count = receive_all(self->fd, arrival->data + arrival->size, room);
  bool ok;
  if (!ended(self, count, &ok)) {
    arrival->size += count;
    ok = self->arrival != arrival || advance_arrival(self);
  }
  Py_DECREF(held);
  return ok;
}

bool is_receiving(const Transport* self) {
  return self->arrival != nullptr && self->arrival->size < self->arrival->length;
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
    if (is_receiving(self)) {
      if (!receive_arrival(self)) return false;
      continue;
    }
    const bool is_known = self->expects && !(self->known->empty() && self->heads->empty());
    if (!(is_known ? receive_known(self, &full) : receive_into_protocol(self, &full))) return false;
  }
  return true;
}

}  // namespace proa::serving
