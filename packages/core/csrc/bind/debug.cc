// What Python switches on to find faults: the search for NaN, timed events, lines and stacks, and
// the report of a crash.
#include <algorithm>

#include "proa/runtime/allocator.h"
#include "proa/runtime/crash.h"
#include "proa/train/watch.h"
#include "python.h"

namespace proa::bind {

namespace {

std::string call_for_text(const char* module_name, const char* function, const char* format,
                          const char* text, int number) {
  PyObject *kind, *value, *trace;
  PyErr_Fetch(&kind, &value, &trace);  // called while an error may be set
  std::string answer;
  {
    const Ref module(PyImport_ImportModule(module_name));
    const Ref result(module ? PyObject_CallMethod(module.get(), function, format, text, number)
                            : nullptr);
    const char* found =
        result && PyUnicode_Check(result.get()) ? PyUnicode_AsUTF8(result.get()) : nullptr;
    if (found != nullptr) answer = found;
    PyErr_Clear();
  }
  PyErr_Restore(kind, value, trace);
  return answer;
}

std::string user_line() {
  return call_for_text("proa.errors.locations", "user_line", nullptr, nullptr, 0);
}

std::string name_of_output(const OpInfo& op, int i) {
  const std::string name = call_for_text("proa.schema", "output_name", "si", op.name, i);
  return name.empty() ? std::to_string(i) : name;
}

void annotate(const std::string& text) {
  PyObject *kind, *value, *trace;
  PyErr_Fetch(&kind, &value, &trace);
  if (kind == nullptr) return;
  PyErr_NormalizeException(&kind, &value, &trace);
  {
    const Ref module(PyImport_ImportModule("proa.errors.locations"));
    const Ref done(module ? PyObject_CallMethod(module.get(), "annotate", "Os", value, text.c_str())
                          : nullptr);
    PyErr_Clear();
  }
  PyErr_Restore(kind, value, trace);
}

// set_finite_check(on, warn, skip_forward, skip_backward, skip_updates, ops, outputs): names of
// ops, and pairs of an op's name and the number of an output.
PyObject* py_set_finite_check(PyObject*, PyObject* args) {
  int on, warn, forward, backward, updates;
  PyObject *ops, *outputs;
  if (!PyArg_ParseTuple(args, "pppppOO", &on, &warn, &forward, &backward, &updates, &ops,
                        &outputs)) {
    return nullptr;
  }
  return guarded([&]() -> PyObject* {
    FiniteCheck check;
    check.warn = warn != 0;
    check.skip_forward = forward != 0;
    check.skip_backward = backward != 0;
    check.skip_updates = updates != 0;
    const Ref names = checked(PySequence_Fast(ops, "[set_finite_check] ops must be a sequence"));
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(names.get()); ++i) {
      const char* name = PyUnicode_AsUTF8(PySequence_Fast_GET_ITEM(names.get(), i));
      if (name == nullptr) throw PythonError();
      const uint16_t id = entry_named(name).info->id;
      if (check.skip_ops.size() <= id) check.skip_ops.resize(size_t{id} + 1);
      check.skip_ops[id] = 1;
    }
    const Ref pairs = checked(PySequence_Fast(outputs, "[set_finite_check] outputs: a sequence"));
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(pairs.get()); ++i) {
      const char* name;
      int number;
      if (!PyArg_ParseTuple(PySequence_Fast_GET_ITEM(pairs.get(), i), "si", &name, &number)) {
        throw PythonError();
      }
      check.skip_outputs.push_back(uint32_t{entry_named(name).info->id} * kMaxOutputs +
                                   static_cast<uint32_t>(number));
    }
    std::sort(check.skip_outputs.begin(), check.skip_outputs.end());
    set_finite_check(on != 0, std::move(check));
    Py_RETURN_NONE;
  });
}

PyObject* py_unchecked(PyObject*, PyObject* by) {
  const long n = PyLong_AsLong(by);
  if (n == -1 && PyErr_Occurred()) return nullptr;
  Unchecked::add(static_cast<int>(n));
  Py_RETURN_NONE;
}

PyObject* py_watch_lines(PyObject*, PyObject* on) {
  const int truth = PyObject_IsTrue(on);
  if (truth < 0) return nullptr;
  set_watch(kWatchLine, truth != 0);
  Py_RETURN_NONE;
}

PyObject* py_error_stacks(PyObject*, PyObject* on) {
  const int truth = PyObject_IsTrue(on);
  if (truth < 0) return nullptr;
  set_error_stacks(truth != 0);
  Py_RETURN_NONE;
}

PyObject* py_report_crashes(PyObject*, PyObject* on) {
  const int truth = PyObject_IsTrue(on);
  if (truth < 0) return nullptr;
  report_crashes(truth != 0);
  Py_RETURN_NONE;
}

// -- events -----------------------------------------------------------------------------------

PyObject* py_start_events(PyObject*, PyObject* args) {
  int level = 0, shapes = 0;
  if (!PyArg_ParseTuple(args, "ip", &level, &shapes)) return nullptr;
  start_events(level, shapes != 0);
  Py_RETURN_NONE;
}

const char* kind_name(EventKind kind) {
  switch (kind) {
    case EventKind::kOp:
      return "op";
    case EventKind::kKernel:
      return "kernel";
    case EventKind::kBackward:
      return "backward";
    case EventKind::kPrepare:
      return "prepare";
    case EventKind::kPhase:
      return "phase";
    case EventKind::kUser:
      return "user";
  }
  return "user";
}

PyObject* event_tuple(const Event& e, int64_t thread) {
  const char* kind = e.kind == EventKind::kUser ? e.type : kind_name(e.kind);
  return Py_BuildValue("(ssLLLLLs)", e.name, kind, static_cast<long long>(e.start),
                       static_cast<long long>(e.end), static_cast<long long>(thread),
                       static_cast<long long>(e.bytes_before),
                       static_cast<long long>(e.bytes_after), e.detail.c_str());
}

PyObject* py_stop_events(PyObject*, PyObject*) {
  return guarded([&]() -> PyObject* {
    Ref list = checked(PyList_New(0));
    for (const ThreadEvents& own : stop_events()) {
      for (const Event& e : own.events) {
        const Ref item = checked(event_tuple(e, own.thread));
        if (PyList_Append(list.get(), item.get()) < 0) throw PythonError();
      }
    }
    return list.release();
  });
}

// event_mark() -> (time, bytes allocated), to be given to add_event.
PyObject* py_event_mark(PyObject*, PyObject*) {
  return Py_BuildValue("(LL)", static_cast<long long>(event_clock()),
                       static_cast<long long>(memory_stats().allocated));
}

PyObject* py_add_event(PyObject*, PyObject* args) {
  const char *name, *type;
  long long start, bytes;
  if (!PyArg_ParseTuple(args, "ss(LL)", &name, &type, &start, &bytes)) return nullptr;
  add_event(name, type, start, bytes);
  Py_RETURN_NONE;
}

PyObject* py_events_on(PyObject*, PyObject*) { return PyBool_FromLong(watching(kWatchTime)); }

PyObject* py_searched(PyObject*, PyObject*) { return PyLong_FromLongLong(searched_elements()); }

}  // namespace

void init_debug() {
  dispatch_hooks.user_line = user_line;
  dispatch_hooks.output_name = name_of_output;
  dispatch_hooks.annotate = annotate;
  dispatch_hooks.check_interrupt = [] {
    if (PyErr_CheckSignals() < 0) throw PythonError();
  };
}

PyMethodDef debug_functions[] = {
    {"set_finite_check", py_set_finite_check, METH_VARARGS, nullptr},
    {"searched_elements", py_searched, METH_NOARGS, "How many results' elements were searched."},
    {"unchecked", py_unchecked, METH_O, "Enter (1) or leave (-1) code that is not searched."},
    {"watch_lines", py_watch_lines, METH_O, "Note where recorded ops are called."},
    {"error_stacks", py_error_stacks, METH_O, "Note the C++ calls that lead to errors."},
    {"report_crashes", py_report_crashes, METH_O, "Write a report when a signal ends us."},
    {"start_events", py_start_events, METH_VARARGS, "start_events(level, shapes)"},
    {"stop_events", py_stop_events, METH_NOARGS,
     "[(name, kind, start, end, thread, bytes before, bytes after, detail)]"},
    {"event_mark", py_event_mark, METH_NOARGS, nullptr},
    {"add_event", py_add_event, METH_VARARGS, "add_event(name, type, mark)"},
    {"events_on", py_events_on, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace proa::bind
