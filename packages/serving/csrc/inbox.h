#pragma once
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <string>

namespace proa::serving {

struct Engine;
struct Transport;

/// Requests that arrived whole and wait for a worker of one model, and what workers sleep on. Jobs
/// that wait elsewhere are counted with them, as one limit holds for all.
///
/// Used with Python's lock held; `wait` releases it.
struct Inbox;

/// Requests of one JSON for one model: where they wait, and how long each may take.
struct Lane {
  PyObject_HEAD Inbox* inbox;
  PyTypeObject* make;   // a subclass of Arrival
  PyObject* deadlines;  // has `runs`, a dictionary, and `timer` and `wait(seconds)`
  double seconds;
  char open;  // whether it takes requests
};

/// A request that is received without the protocol, and then waits for its answer.
///
/// The transport holds it from its head until its answer was settled. Whoever decides it first, by
/// `decide`, answers it. `settled(protocol, sent)`, of the subclass, is called on the event loop
/// where an answer takes more than the transport does by itself.
struct Arrival {
  PyObject_HEAD Lane* lane;
  Transport* transport;
  PyObject* give;    // give(head, length, text, memory, size, charged): the protocol takes it over
  PyObject* memory;  // its body, as far as `size`
  std::string* head;
  char* data;  // of memory
  Py_ssize_t length, text, size;
  Py_ssize_t charged;  // bytes of the budget
  double arrived;      // of the monotonic clock
  char taken;          // by a worker
  char decided;
};

extern PyType_Spec inbox_spec;
extern PyType_Spec lane_spec;
extern PyType_Spec arrival_spec;
extern PyTypeObject* inbox_type;
extern PyTypeObject* lane_type;
extern PyTypeObject* arrival_type;

/// Seconds of the monotonic clock.
double monotonic();

/// A request of `length` bytes, `text` of them JSON; null with a Python error.
Arrival* new_arrival(Lane* lane, Transport* transport, PyObject* give, Py_ssize_t length,
                     Py_ssize_t text);

/// Charges the budget with the bytes of `arrival` that it does not have yet; false where it has no
/// room, or with a Python error.
bool charge(Engine* engine, Arrival* arrival);

/// Lets `arrival`, which is whole, wait for a worker: 1. 0 where it must be given to the protocol,
/// -1 with a Python error.
int post(Arrival* arrival);

/// Has the protocol take the request over; false with a Python error.
bool give_to_protocol(Arrival* arrival);

/// The answer of `arrival` was sent, or is to be written by the protocol; on the event loop. False
/// with a Python error.
bool settle_arrival(Arrival* arrival, bool sent);

/// Releases what `arrival` holds of the budget.
void release(Engine* engine, Arrival* arrival);

/// The protocol is in `phase` from now on, for `seconds` at most; false with a Python error.
bool enter_phase(Transport* transport, const char* phase);

}  // namespace proa::serving
