// A Python function of the public API, called at no cost in Python: where it raises, a function of
// `proa` chooses the error to raise. In all else it looks like the function.
#include "python.h"

// After Python.h, which it needs.
#include <structmember.h>

namespace proa::bind {

namespace {

struct PublicFunction {
  PyObject_HEAD vectorcallfunc call;
  PyObject* function;
  PyObject* explain;  // explain(function, args, kwargs, error) -> the error to raise
};

PublicFunction* as_public_function(PyObject* object) {
  return reinterpret_cast<PublicFunction*>(object);
}

PyObject* tuple_of(PyObject* const* items, Py_ssize_t count) {
  PyObject* tuple = PyTuple_New(count);
  for (Py_ssize_t i = 0; tuple != nullptr && i < count; ++i) {
    Py_INCREF(items[i]);
    PyTuple_SET_ITEM(tuple, i, items[i]);
  }
  return tuple;
}

PyObject* dict_of(PyObject* names, PyObject* const* values) {
  PyObject* dict = PyDict_New();
  const Py_ssize_t count = names == nullptr ? 0 : PyTuple_GET_SIZE(names);
  for (Py_ssize_t i = 0; dict != nullptr && i < count; ++i) {
    if (PyDict_SetItem(dict, PyTuple_GET_ITEM(names, i), values[i]) < 0) Py_CLEAR(dict);
  }
  return dict;
}

// Puts what `explain` returns in the place of the error that is set; leaves that one if it fails.
void explain_error(const PublicFunction* self, PyObject* const* args, Py_ssize_t count,
                   PyObject* names) {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  if (trace != nullptr) PyException_SetTraceback(value, trace);
  const Ref positional(tuple_of(args, count)), keywords(dict_of(names, args + count));
  PyObject* found = nullptr;
  if (positional && keywords) {
    found = PyObject_CallFunctionObjArgs(self->explain, self->function, positional.get(),
                                         keywords.get(), value, nullptr);
  }
  if (found == nullptr || found == value) {
    PyErr_Clear();
    Py_XDECREF(found);
    PyErr_Restore(type, value, trace);
    return;
  }
  Py_XDECREF(type);
  Py_XDECREF(trace);
  Py_XDECREF(value);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(found)), found);
  Py_DECREF(found);
}

PyObject* call(PyObject* object, PyObject* const* args, size_t flagged, PyObject* names) {
  const PublicFunction* self = as_public_function(object);
  PyObject* result = PyObject_Vectorcall(self->function, args, flagged, names);
  if (result == nullptr && PyErr_ExceptionMatches(PyExc_Exception)) {
    explain_error(self, args, PyVectorcall_NARGS(flagged), names);
  }
  return result;
}

PyObject* bind_to(PyObject* self, PyObject* instance, PyObject*) {
  if (instance == nullptr || instance == Py_None) {
    Py_INCREF(self);
    return self;
  }
  return PyMethod_New(self, instance);
}

PyObject* attribute(PyObject* object, PyObject* name) {
  static const char* const own[] = {"__class__", "__reduce__", "__reduce_ex__", "__get__"};
  for (const char* each : own) {
    if (PyUnicode_CompareWithASCIIString(name, each) == 0) {
      return PyObject_GenericGetAttr(object, name);
    }
  }
  PyObject* function = as_public_function(object)->function;
  if (PyUnicode_CompareWithASCIIString(name, "__wrapped__") == 0) {
    Py_INCREF(function);
    return function;
  }
  return PyObject_GetAttr(function, name);
}

int set_attribute(PyObject* object, PyObject* name, PyObject* value) {
  return PyObject_SetAttr(as_public_function(object)->function, name, value);
}

PyObject* represent(PyObject* object) {
  return PyObject_Repr(as_public_function(object)->function);
}

// By its name, as functions are pickled.
PyObject* reduce(PyObject* object, PyObject*) {
  return PyObject_GetAttrString(as_public_function(object)->function, "__qualname__");
}

int traverse(PyObject* object, visitproc visit, void* arg) {
  Py_VISIT(as_public_function(object)->function);
  Py_VISIT(as_public_function(object)->explain);
  Py_VISIT(Py_TYPE(object));
  return 0;
}

int clear(PyObject* object) {
  Py_CLEAR(as_public_function(object)->function);
  Py_CLEAR(as_public_function(object)->explain);
  return 0;
}

void destroy(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  PyObject_GC_UnTrack(object);
  clear(object);
  type->tp_free(object);
  Py_DECREF(type);
}

PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(PublicFunction, call), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};
// For pydoc, which reads the docstring as one of the type, past `attribute`.
PyObject* docstring(PyObject* object, void*) {
  return PyObject_GetAttrString(as_public_function(object)->function, "__doc__");
}

PyGetSetDef properties[] = {{"__doc__", docstring, nullptr, nullptr, nullptr},
                            {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyMethodDef methods[] = {{"__reduce__", reduce, METH_NOARGS, nullptr},
                         {nullptr, nullptr, 0, nullptr}};
PyType_Slot slots[] = {{Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                       {Py_tp_descr_get, reinterpret_cast<void*>(bind_to)},
                       {Py_tp_getattro, reinterpret_cast<void*>(attribute)},
                       {Py_tp_setattro, reinterpret_cast<void*>(set_attribute)},
                       {Py_tp_repr, reinterpret_cast<void*>(represent)},
                       {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
                       {Py_tp_clear, reinterpret_cast<void*>(clear)},
                       {Py_tp_dealloc, reinterpret_cast<void*>(destroy)},
                       {Py_tp_members, members},
                       {Py_tp_methods, methods},
                       {Py_tp_getset, properties},
                       {0, nullptr}};
PyType_Spec spec = {"proa._core.PublicFunction", sizeof(PublicFunction), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                        Py_TPFLAGS_METHOD_DESCRIPTOR,
                    slots};
PyTypeObject* public_function_type = nullptr;

PyObject* public_function(PyObject*, PyObject* args) {
  PyObject *function, *explain;
  if (!PyArg_ParseTuple(args, "OO", &function, &explain)) return nullptr;
  PublicFunction* created = PyObject_GC_New(PublicFunction, public_function_type);
  if (created == nullptr) return nullptr;
  created->call = call;
  Py_INCREF(function);
  created->function = function;
  Py_INCREF(explain);
  created->explain = explain;
  PyObject_GC_Track(created);
  return reinterpret_cast<PyObject*>(created);
}

PyMethodDef functions[] = {{"public_function", public_function, METH_VARARGS,
                            "The function, whose errors explain(function, args, kwargs, error) "
                            "may replace."},
                           {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool init_public_function(PyObject* module) {
  public_function_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  return public_function_type != nullptr && PyModule_AddFunctions(module, functions) == 0;
}

}  // namespace proa::bind
