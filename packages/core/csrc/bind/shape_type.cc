// The type of Tensor.shape: a list, as programs for Paddle expect, that also equals and joins
// tuples, as programs of the Python array API standard expect of a shape.
#include "python.h"

namespace proa::bind {

namespace {

PyTypeObject* shape_type = nullptr;

bool is_sizes(PyObject* o) { return PyList_Check(o) || PyTuple_Check(o); }

PyObject* compare_sizes(PyObject* self, PyObject* other, int op) {
  if (!PyTuple_Check(other)) return PyList_Type.tp_richcompare(self, other, op);
  const Ref list(PySequence_List(other));
  return list ? PyList_Type.tp_richcompare(self, list.get(), op) : nullptr;
}

// That of the tuple which it equals: shapes are members of sets and keys of dicts.
Py_hash_t hash_sizes(PyObject* self) {
  const Ref tuple(PyList_AsTuple(self));
  return tuple ? PyObject_Hash(tuple.get()) : -1;
}

// shape + sizes, sizes + shape: a shape.
PyObject* join_sizes(PyObject* a, PyObject* b) {
  if (!is_sizes(a) || !is_sizes(b)) Py_RETURN_NOTIMPLEMENTED;
  Ref list(PySequence_List(a));
  if (!list) return nullptr;
  const Ref end(PyList_Type.tp_as_sequence->sq_inplace_concat(list.get(), b));
  return end ? as_shape(list.release()) : nullptr;
}

// shape += sizes changes the list, as for every list.
PyObject* append_sizes(PyObject* self, PyObject* other) {
  return PyList_Type.tp_as_sequence->sq_inplace_concat(self, other);
}

// A slice of a shape is a shape.
PyObject* sizes_at(PyObject* self, PyObject* key) {
  PyObject* found = PyList_Type.tp_as_mapping->mp_subscript(self, key);
  return found != nullptr && PySlice_Check(key) ? as_shape(found) : found;
}

// Copied and pickled as a list.
PyObject* reduce_to_list(PyObject* self, PyObject*) {
  return Py_BuildValue("O(N)", &PyList_Type, PySequence_List(self));
}

PyMethodDef methods[] = {{"__reduce__", reduce_to_list, METH_NOARGS, nullptr},
                         {nullptr, nullptr, 0, nullptr}};

PyType_Slot slots[] = {
    {Py_tp_richcompare, reinterpret_cast<void*>(compare_sizes)},
    {Py_tp_hash, reinterpret_cast<void*>(hash_sizes)},
    {Py_nb_add, reinterpret_cast<void*>(join_sizes)},
    {Py_nb_inplace_add, reinterpret_cast<void*>(append_sizes)},
    {Py_mp_subscript, reinterpret_cast<void*>(sizes_at)},
    {Py_tp_methods, methods},
    {Py_tp_doc, const_cast<char*>("Sizes of a tensor's axes: a list that equals a tuple of them.")},
    {0, nullptr}};

PyType_Spec spec = {"proa._core.Shape", sizeof(PyListObject), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};

}  // namespace

PyObject* as_shape(PyObject* list) {
  // No fields are added, so the object of a list is one of a shape; it holds its type.
  Py_INCREF(shape_type);
  Py_SET_TYPE(list, shape_type);
  return list;
}

bool init_shape_type(PyObject* module) {
  const Ref bases(PyTuple_Pack(1, &PyList_Type));
  if (!bases) return false;
  shape_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpecWithBases(&spec, bases.get()));
  if (shape_type == nullptr) return false;
  Py_INCREF(shape_type);
  return PyModule_AddObject(module, "Shape", reinterpret_cast<PyObject*>(shape_type)) == 0;
}

}  // namespace proa::bind
