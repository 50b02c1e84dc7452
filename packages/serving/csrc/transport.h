#pragma once
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <vector>

#include "head.h"
#include "inbox.h"
#include "outbox.h"
#include "pattern.h"

namespace proa::serving {

struct Engine;

/// A request that is answered without the protocol: `answer(data[, stream])` gives the parts of the
/// answer, or None where the protocol is to take it after all.
struct Known {
  Pattern pattern;
  size_t tail;                  // `data` is what follows
  std::vector<size_t> streams;  // where its stream's number is; all must be the same
  PyObject* answer;
};

/// Requests with `text` and as many bytes in all, which are received for workers.
struct KnownText {
  std::string text;
  size_t length;
  Lane* lane;
};

/// A head of HTTP/1.1 that was accepted. `answer(text, data)`, if it is not None, gives the parts
/// of the answer to JSON and raw tensors, or None; `take(begin, body, end, length, text)` tells the
/// protocol where in the engine's buffer a request with such a head is, and is false where the
/// protocol is to parse it after all. Where one of `texts` follows the head, neither is called: the
/// transport receives the request, and it waits as an Arrival, which is given to the protocol by
/// `give` where it cannot wait.
struct KnownHead {
  HeadPattern pattern;
  PyObject* answer;
  PyObject* take;
  PyObject* give;
  std::vector<KnownText> texts;
};

/// A connected socket: an `asyncio.Transport` for an `asyncio.BufferedProtocol`.
///
/// All of it runs on the thread of the event loop, with Python's lock held, but for `answer`, which
/// any thread may call that holds the lock. The engine holds a reference from `connect` until
/// `connection_lost` was called.
struct Transport {
  PyObject_HEAD Engine* engine;
  int fd;
  PyObject* socket;  // owns fd
  PyObject* protocol;
  PyObject* get_buffer;  // methods of the protocol
  PyObject* buffer_updated;
  Outbox* outbox;
  std::vector<Known>* known;
  std::vector<KnownHead>* heads;
  size_t last_head;  // of the request that came last; SIZE_MAX if it was none
  Arrival* arrival;  // what is received without the protocol, or waits for its answer
  uint32_t watched;  // events of the engine's epoll
  bool reading;      // not paused
  bool expects;      // the protocol is between two requests
  bool large;        // the last request had a body that was received where it belongs
  bool mixed;        // the protocol was given bytes since the arrival
  bool shuts;        // the socket is to be shut down once all is written
  bool blocked;      // the protocol has paused writing
  bool closing;      // nothing is read any more
  bool lost;         // connection_lost is due, or was called
};

extern PyType_Spec transport_spec;

/// A transport over `socket`, which must be non-blocking, for `protocol`, which it calls at once.
PyObject* connect_transport(Engine* engine, PyObject* socket, PyObject* protocol);

/// The engine's epoll reported `events`. False, with a Python error, if a callback raised.
bool on_ready(Transport* self, uint32_t events);

/// Writes parts, which must be buffers; false with a Python error.
bool write_parts(Transport* self, PyObject* const* parts, Py_ssize_t count);

/// Sends parts, if there is nothing before them and they are few enough not to release Python's
/// lock, without which no other thread uses the transport: 1 if they were sent. -1 with a Python
/// error.
int send_at_once(Transport* self, PyObject* const* parts, Py_ssize_t count);

/// Watches for what the state of `self` is waiting for.
void update_watch(Transport* self);

/// Ends the connection: `connection_lost` is called from the event loop, with an OSError if `error`
/// is an errno. Nothing is sent or received from now on.
void lose(Transport* self, int error);

/// Forgets the requests that are known.
void clear_known(Transport* self);

}  // namespace proa::serving
