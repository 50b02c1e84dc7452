#include "inbox.h"

#include <stddef.h>
#include <structmember.h>
#include <time.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>

#include "engine.h"
#include "memory.h"

namespace proa::serving {

struct Inbox {
  PyObject_HEAD std::mutex* lock;  // of `changes`
  std::condition_variable* changed;
  std::deque<Arrival*>* arrivals;  // references
  uint64_t changes;
  Py_ssize_t jobs;
  Py_ssize_t limit;
  char closed;
};

namespace {

// --- Inbox

PyObject* inbox_new(PyTypeObject* type, PyObject* args, PyObject*) {
  Py_ssize_t limit;
  if (!PyArg_ParseTuple(args, "n:Inbox", &limit)) return nullptr;
  auto* self = reinterpret_cast<Inbox*>(type->tp_alloc(type, 0));
  if (self == nullptr) return nullptr;
  self->lock = new std::mutex;
  self->changed = new std::condition_variable;
  self->arrivals = new std::deque<Arrival*>;
  self->limit = limit;
  return reinterpret_cast<PyObject*>(self);
}

int inbox_traverse(Inbox* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (self->arrivals != nullptr) {
    for (Arrival* each : *self->arrivals) Py_VISIT(reinterpret_cast<PyObject*>(each));
  }
  return 0;
}

int inbox_clear(Inbox* self) {
  std::deque<Arrival*> held;
  if (self->arrivals != nullptr) held.swap(*self->arrivals);
  for (Arrival* each : held) Py_DECREF(reinterpret_cast<PyObject*>(each));
  return 0;
}

void inbox_dealloc(Inbox* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  inbox_clear(self);
  delete self->arrivals;
  delete self->changed;
  delete self->lock;
  type->tp_free(self);
  Py_DECREF(type);
}

void notify(Inbox* self, bool all) {
  {
    std::lock_guard<std::mutex> guard(*self->lock);
    ++self->changes;
  }
  if (all) {
    self->changed->notify_all();
  } else {
    self->changed->notify_one();
  }
}

PyObject* inbox_notify(Inbox* self, PyObject* args) {
  int all = 0;
  if (!PyArg_ParseTuple(args, "|p:notify", &all)) return nullptr;
  notify(self, all != 0);
  Py_RETURN_NONE;
}

PyObject* inbox_ticket(Inbox* self, PyObject*) {
  std::lock_guard<std::mutex> guard(*self->lock);
  return PyLong_FromUnsignedLongLong(self->changes);
}

PyObject* inbox_wait(Inbox* self, PyObject* args) {
  unsigned long long ticket;
  PyObject* given;
  if (!PyArg_ParseTuple(args, "KO:wait", &ticket, &given)) return nullptr;
  const bool forever = given == Py_None;
  const double seconds = forever ? 0.0 : PyFloat_AsDouble(given);
  if (seconds == -1.0 && PyErr_Occurred()) return nullptr;
  Py_BEGIN_ALLOW_THREADS;
  {
    std::unique_lock<std::mutex> guard(*self->lock);
    const auto is_changed = [&] { return self->changes != ticket; };
    if (forever) {
      self->changed->wait(guard, is_changed);
    } else {
      self->changed->wait_for(guard, std::chrono::duration<double>(seconds), is_changed);
    }
  }
  Py_END_ALLOW_THREADS;
  Py_RETURN_NONE;
}

PyObject* inbox_pop(Inbox* self, PyObject*) {
  if (self->arrivals->empty()) Py_RETURN_NONE;
  Arrival* found = self->arrivals->front();
  self->arrivals->pop_front();
  return reinterpret_cast<PyObject*>(found);
}

PyObject* inbox_remove(Inbox* self, PyObject* given) {
  for (auto at = self->arrivals->begin(); at != self->arrivals->end(); ++at) {
    if (reinterpret_cast<PyObject*>(*at) != given) continue;
    self->arrivals->erase(at);
    Py_DECREF(given);
    Py_RETURN_TRUE;
  }
  Py_RETURN_FALSE;
}

Py_ssize_t inbox_length(PyObject* self) {
  return static_cast<Py_ssize_t>(reinterpret_cast<Inbox*>(self)->arrivals->size());
}

PyMethodDef inbox_methods[] = {
    {"notify", reinterpret_cast<PyCFunction>(inbox_notify), METH_VARARGS,
     "notify(all=False): wake a worker that waits, or all."},
    {"ticket", reinterpret_cast<PyCFunction>(inbox_ticket), METH_NOARGS,
     "A number that each notify changes."},
    {"wait", reinterpret_cast<PyCFunction>(inbox_wait), METH_VARARGS,
     "wait(ticket, seconds): until there was a notify since ticket, or so long."},
    {"pop", reinterpret_cast<PyCFunction>(inbox_pop), METH_NOARGS,
     "The Arrival that waits longest, or None."},
    {"remove", reinterpret_cast<PyCFunction>(inbox_remove), METH_O,
     "Take an Arrival back; False if it does not wait."},
    {nullptr, nullptr, 0, nullptr}};

PyMemberDef inbox_members[] = {
    {"jobs", T_PYSSIZET, offsetof(Inbox, jobs), 0, "What waits elsewhere."},
    {"closed", T_BOOL, offsetof(Inbox, closed), 0, "Whether nothing more may wait."},
    {nullptr, 0, 0, 0, nullptr}};

PyType_Slot inbox_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(inbox_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(inbox_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(inbox_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(inbox_clear)},
    {Py_tp_methods, inbox_methods},
    {Py_tp_members, inbox_members},
    {Py_sq_length, reinterpret_cast<void*>(inbox_length)},
    {Py_tp_doc, const_cast<char*>("Inbox(limit): requests that wait for a worker.")},
    {0, nullptr}};

// --- Lane

PyObject* lane_new(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject *inbox, *make, *deadlines;
  double seconds;
  if (!PyArg_ParseTuple(args, "O!O!Od:Lane", inbox_type, &inbox, &PyType_Type, &make, &deadlines,
                        &seconds)) {
    return nullptr;
  }
  if (!PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(make), arrival_type)) {
    PyErr_SetString(PyExc_TypeError, "[Lane] expected a subclass of Arrival");
    return nullptr;
  }
  auto* self = reinterpret_cast<Lane*>(type->tp_alloc(type, 0));
  if (self == nullptr) return nullptr;
  self->inbox = reinterpret_cast<Inbox*>(Py_NewRef(inbox));
  self->make = reinterpret_cast<PyTypeObject*>(Py_NewRef(make));
  self->deadlines = Py_NewRef(deadlines);
  self->seconds = seconds;
  self->open = 1;
  return reinterpret_cast<PyObject*>(self);
}

int lane_traverse(Lane* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(reinterpret_cast<PyObject*>(self->inbox));
  Py_VISIT(reinterpret_cast<PyObject*>(self->make));
  Py_VISIT(self->deadlines);
  return 0;
}

int lane_clear(Lane* self) {
  Py_CLEAR(self->inbox);
  Py_CLEAR(self->make);
  Py_CLEAR(self->deadlines);
  return 0;
}

void lane_dealloc(Lane* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  lane_clear(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyMemberDef lane_members[] = {
    {"open", T_BOOL, offsetof(Lane, open), 0, "Whether it takes requests."},
    {nullptr, 0, 0, 0, nullptr}};

PyType_Slot lane_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(lane_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(lane_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(lane_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(lane_clear)},
    {Py_tp_members, lane_members},
    {Py_tp_doc, const_cast<char*>("Lane(inbox, make, deadlines, seconds): requests of one JSON "
                                  "for one model, which become instances of make.")},
    {0, nullptr}};

// --- Arrival

int arrival_traverse(Arrival* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(reinterpret_cast<PyObject*>(self->lane));
  Py_VISIT(reinterpret_cast<PyObject*>(self->transport));
  Py_VISIT(self->give);
  return 0;
}

int arrival_clear(Arrival* self) {
  Py_CLEAR(self->lane);
  Py_CLEAR(self->transport);
  Py_CLEAR(self->give);
  Py_CLEAR(self->memory);
  return 0;
}

void arrival_dealloc(Arrival* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  arrival_clear(self);
  delete self->head;
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* arrival_decide(Arrival* self, PyObject*) {
  if (self->decided) Py_RETURN_FALSE;
  self->decided = 1;
  Py_RETURN_TRUE;
}

PyObject* arrival_answer(Arrival* self, PyObject* given) {
  if (self->transport == nullptr) Py_RETURN_NONE;
  PyObject* parts = PySequence_Fast(given, "[answer] expected a sequence of buffers");
  if (parts == nullptr) return nullptr;
  const int sent =
      send_at_once(self->transport, PySequence_Fast_ITEMS(parts), PySequence_Fast_GET_SIZE(parts));
  Py_DECREF(parts);
  if (sent < 0) return nullptr;
  settle(self->transport->engine, reinterpret_cast<PyObject*>(self), sent > 0);
  Py_RETURN_NONE;
}

PyObject* arrival_settle(Arrival* self, PyObject*) {
  if (!settle_arrival(self, false)) return nullptr;
  Py_RETURN_NONE;
}

PyObject* arrival_give(Arrival* self, PyObject*) {
  if (!give_to_protocol(self)) return nullptr;
  Py_RETURN_NONE;
}

PyObject* arrival_take(Arrival* self, PyObject*) {
  if (self->decided || self->memory == nullptr) Py_RETURN_NONE;
  self->taken = 1;
  PyObject* whole = PyMemoryView_FromObject(self->memory);
  if (whole == nullptr || self->text == 0) return whole;
  PyObject* part = PySequence_GetSlice(whole, self->text, self->length);
  Py_DECREF(whole);
  return part;
}

PyMethodDef arrival_methods[] = {
    {"decide", reinterpret_cast<PyCFunction>(arrival_decide), METH_NOARGS,
     "Whether the caller is the first, and is to answer."},
    {"take", reinterpret_cast<PyCFunction>(arrival_take), METH_NOARGS,
     "Its raw tensors, for a worker; None if it is decided."},
    {"answer", reinterpret_cast<PyCFunction>(arrival_answer), METH_O,
     "answer(parts): send buffers now if that can be, from any thread, and have it settled on the "
     "event loop."},
    {"settle", reinterpret_cast<PyCFunction>(arrival_settle), METH_NOARGS,
     "Settle it now, without an answer that was sent; on the event loop."},
    {"give", reinterpret_cast<PyCFunction>(arrival_give), METH_NOARGS,
     "Have the protocol take the request over; on the event loop."},
    {nullptr, nullptr, 0, nullptr}};

PyMemberDef arrival_members[] = {
    {"lane", T_OBJECT, offsetof(Arrival, lane), READONLY, "What it came by."},
    {"taken", T_BOOL, offsetof(Arrival, taken), READONLY, "Whether a worker has it."},
    {"arrived", T_DOUBLE, offsetof(Arrival, arrived), READONLY, "When, of time.monotonic."},
    {nullptr, 0, 0, 0, nullptr}};

PyType_Slot arrival_slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(arrival_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(arrival_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(arrival_clear)},
    {Py_tp_methods, arrival_methods},
    {Py_tp_members, arrival_members},
    {Py_tp_doc, const_cast<char*>("A request that the transport received by itself.")},
    {0, nullptr}};

bool set_attribute(PyObject* object, const char* name, PyObject* value) {
  const bool ok = value != nullptr && PyObject_SetAttrString(object, name, value) == 0;
  Py_XDECREF(value);
  return ok;
}

/// Adds `count` to what of the budget is used; false with a Python error, or if that is too much.
bool use_budget(Engine* engine, Py_ssize_t count) {
  if (engine->budget == nullptr) return true;
  PyObject* found = PyObject_GetAttrString(engine->budget, "used");
  PyObject* limit = PyObject_GetAttrString(engine->budget, "limit");
  bool fits = found != nullptr && limit != nullptr;
  const Py_ssize_t used = fits ? PyLong_AsSsize_t(found) + count : 0;
  fits = fits && (count <= 0 || used <= PyLong_AsSsize_t(limit));
  Py_XDECREF(found);
  Py_XDECREF(limit);
  if (!fits || PyErr_Occurred()) return false;
  return set_attribute(engine->budget, "used", PyLong_FromSsize_t(used));
}

/// Has the deadline of `arrival` watched; false with a Python error.
bool watch_deadline(Arrival* arrival) {
  PyObject* deadlines = arrival->lane->deadlines;
  PyObject* runs = PyObject_GetAttrString(deadlines, "runs");
  PyObject* at = PyFloat_FromDouble(arrival->arrived + arrival->lane->seconds);
  bool ok = runs != nullptr && at != nullptr &&
            PyDict_SetItem(runs, reinterpret_cast<PyObject*>(arrival), at) == 0;
  Py_XDECREF(runs);
  Py_XDECREF(at);
  PyObject* timer = ok ? PyObject_GetAttrString(deadlines, "timer") : nullptr;
  ok = timer != nullptr;
  if (timer == Py_None) {
    PyObject* result = PyObject_CallMethod(deadlines, "wait", "d", arrival->lane->seconds);
    ok = result != nullptr;
    Py_XDECREF(result);
  }
  Py_XDECREF(timer);
  return ok;
}

void forget_deadline(Arrival* arrival) {
  if (arrival->lane == nullptr) return;
  PyObject* runs = PyObject_GetAttrString(arrival->lane->deadlines, "runs");
  if (runs == nullptr || PyDict_DelItem(runs, reinterpret_cast<PyObject*>(arrival)) != 0) {
    PyErr_Clear();  // It expired, or was given to the protocol.
  }
  Py_XDECREF(runs);
}

/// The protocol waits for the next request: what it would do if it had written the answer.
bool resume_protocol(Transport* transport) {
  if (!set_attribute(transport->protocol, "running", Py_NewRef(Py_None))) return false;
  if (!enter_phase(transport, "idle")) return false;
  transport->expects = true;
  return true;
}

}  // namespace

PyTypeObject* inbox_type = nullptr;
PyTypeObject* lane_type = nullptr;
PyTypeObject* arrival_type = nullptr;

double monotonic() {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

Arrival* new_arrival(Lane* lane, Transport* transport, PyObject* give, Py_ssize_t length,
                     Py_ssize_t text) {
  auto* self = reinterpret_cast<Arrival*>(lane->make->tp_alloc(lane->make, 0));
  if (self == nullptr) return nullptr;
  self->lane = reinterpret_cast<Lane*>(Py_NewRef(reinterpret_cast<PyObject*>(lane)));
  self->transport = reinterpret_cast<Transport*>(Py_NewRef(reinterpret_cast<PyObject*>(transport)));
  self->give = Py_NewRef(give);
  self->head = new std::string;
  self->length = length;
  self->text = text;
  self->memory = new_memory(length, text, &self->data);
  if (self->memory != nullptr) return self;
  Py_DECREF(reinterpret_cast<PyObject*>(self));
  return nullptr;
}

bool charge(Engine* engine, Arrival* arrival) {
  if (!use_budget(engine, arrival->size - arrival->charged)) return false;
  arrival->charged = arrival->size;
  return true;
}

void release(Engine* engine, Arrival* arrival) {
  if (arrival->charged && !use_budget(engine, -arrival->charged)) PyErr_Clear();
  arrival->charged = 0;
}

bool enter_phase(Transport* transport, const char* phase) {
  Engine* engine = transport->engine;
  PyObject* limit = PyDict_GetItemString(engine->seconds, phase);
  if (limit == nullptr) {
    PyErr_Format(PyExc_KeyError, "[Engine] expected the seconds of phase %s", phase);
    return false;
  }
  const double deadline = monotonic() + PyFloat_AsDouble(limit);
  if (PyErr_Occurred()) return false;
  return set_attribute(transport->protocol, "phase", PyUnicode_InternFromString(phase)) &&
         set_attribute(transport->protocol, "deadline", PyFloat_FromDouble(deadline));
}

int post(Arrival* arrival) {
  Inbox* inbox = arrival->lane->inbox;
  const auto waiting = static_cast<Py_ssize_t>(inbox->arrivals->size()) + inbox->jobs;
  if (!arrival->lane->open || inbox->closed || waiting >= inbox->limit) return 0;
  arrival->arrived = monotonic();
  auto* held = reinterpret_cast<PyObject*>(arrival);
  if (!watch_deadline(arrival) ||
      !set_attribute(arrival->transport->protocol, "running", Py_NewRef(held)) ||
      !enter_phase(arrival->transport, "busy")) {
    return -1;
  }
  inbox->arrivals->push_back(reinterpret_cast<Arrival*>(Py_NewRef(held)));
  notify(inbox, false);
  return 1;
}

bool give_to_protocol(Arrival* arrival) {
  Transport* transport = arrival->transport;
  auto* held = reinterpret_cast<PyObject*>(arrival);
  Py_INCREF(held);
  forget_deadline(arrival);
  if (transport != nullptr && transport->arrival == arrival) {
    transport->arrival = nullptr;
    Py_DECREF(held);
  }
  PyObject* result = nullptr;
  if (arrival->memory == nullptr || transport == nullptr || transport->protocol == nullptr) {
    if (transport != nullptr) release(transport->engine, arrival);
    result = Py_NewRef(Py_None);
  } else {
    const Py_ssize_t charged = arrival->charged;
    arrival->charged = 0;
    result = PyObject_CallFunction(arrival->give, "y#nnOnn", arrival->head->data(),
                                   static_cast<Py_ssize_t>(arrival->head->size()), arrival->length,
                                   arrival->text, arrival->memory, arrival->size, charged);
  }
  Py_CLEAR(arrival->memory);
  Py_XDECREF(result);
  Py_DECREF(held);
  return result != nullptr;
}

bool settle_arrival(Arrival* arrival, bool sent) {
  Transport* transport = arrival->transport;
  if (transport == nullptr) return true;
  auto* held = reinterpret_cast<PyObject*>(arrival);
  Py_INCREF(held);
  forget_deadline(arrival);
  release(transport->engine, arrival);
  const bool is_last = transport->arrival == arrival;
  if (is_last) {
    transport->arrival = nullptr;
    Py_DECREF(held);
  }
  bool ok = true;
  if (transport->protocol != nullptr && is_last) {
    const bool mixed = transport->mixed || transport->closing || transport->lost;
    transport->mixed = false;
    if (sent && !mixed) {
      ok = resume_protocol(transport);
    } else {
      PyObject* result = PyObject_CallMethod(held, "settled", "OO", transport->protocol,
                                             sent ? Py_True : Py_False);
      ok = result != nullptr;
      Py_XDECREF(result);
    }
  }
  Py_CLEAR(arrival->memory);
  Py_CLEAR(arrival->transport);
  Py_DECREF(held);
  return ok;
}

PyType_Spec inbox_spec = {"proa_serving._native.Inbox", sizeof(Inbox), 0,
                          Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, inbox_slots};
PyType_Spec lane_spec = {"proa_serving._native.Lane", sizeof(Lane), 0,
                         Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE, lane_slots};
PyType_Spec arrival_spec = {"proa_serving._native.Arrival", sizeof(Arrival), 0,
                            Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE |
                                Py_TPFLAGS_DISALLOW_INSTANTIATION,
                            arrival_slots};

}  // namespace proa::serving
