// Basic indexing (ints, slices, Ellipsis, None) as view ops; anything else goes to Python.
#include "proa/gen/ops.h"
#include "proa/train/run.h"
#include "proa/train/tape.h"
#include "python.h"

namespace proa::bind {

namespace {

PyObject* g_get = nullptr;
PyObject* g_set = nullptr;

// A key taken apart: a slice of the whole tensor, then axes removed, then axes put in.
struct Basic {
  Ints axes, starts, ends, steps;  // slices, ints as slices of one among them
  bool is_int[kMaxRank] = {};      // by axis of the tensor
  int64_t at[kMaxRank] = {};
  int new_axes = 0;
  int result_rank = 0;
  Ints inserted;  // positions in the result
  bool any_slice = false;
  int ints = 0;
};

bool simple(PyObject* item) {
  if (is_symbolic_dim(item)) return false;
  if (PySlice_Check(item)) {
    auto* s = reinterpret_cast<PySliceObject*>(item);
    return !is_symbolic_dim(s->start) && !is_symbolic_dim(s->stop) && !is_symbolic_dim(s->step);
  }
  return item == Py_None || item == Py_Ellipsis || (PyLong_Check(item) && !PyBool_Check(item)) ||
         (!is_tensor(item) && !is_array(item) && !PyBool_Check(item) && PyIndex_Check(item));
}

int64_t bound(PyObject* o, int64_t otherwise) {
  if (o == Py_None) return otherwise;
  const Ref index(PyNumber_Index(o));
  if (!index) {
    if (!PyErr_ExceptionMatches(PyExc_TypeError)) throw PythonError();
    PyErr_Clear();
    raise_type(std::string("[getitem] expected integers as bounds of a slice, got '") +
               Py_TYPE(o)->tp_name + "'");
  }
  int overflow = 0;
  const int64_t value = PyLong_AsLongLongAndOverflow(index.get(), &overflow);
  return overflow == 0 ? value : overflow > 0 ? INT64_MAX : INT64_MIN;
}

void push(Basic* b, int axis, int64_t start, int64_t end, int64_t step) {
  const auto k = b->axes.count++;
  b->starts.count = b->ends.count = b->steps.count = b->axes.count;
  b->axes.v[k] = axis;
  b->starts.v[k] = start;
  b->ends.v[k] = end;
  b->steps.v[k] = step;
}

void take_int(const View& v, int axis, PyObject* item, Basic* b) {
  const int64_t size = v.shape[axis], i = bound(item, 0);
  if (size != kUnknown && (i < -size || i >= size)) {
    throw Error(ErrorKind::kOutOfRange, "[getitem] the index of axis " + std::to_string(axis) +
                                            " must be in [" + std::to_string(-size) + ", " +
                                            std::to_string(size) + "), got " + std::to_string(i));
  }
  b->is_int[axis] = true;
  b->at[axis] = i;
  ++b->ints;
}

void take_slice(int axis, PyObject* item, Basic* b) {
  auto* s = reinterpret_cast<PySliceObject*>(item);
  if (s->start == Py_None && s->stop == Py_None && s->step == Py_None) return;
  const int64_t step = bound(s->step, 1);
  if (step == 0) {
    throw Error(ErrorKind::kInvalidArgument, "[getitem] the step must not be 0, got 0");
  }
  push(b, axis, bound(s->start, step > 0 ? 0 : INT64_MAX),
       bound(s->stop, step > 0 ? INT64_MAX : INT64_MIN), step);
  b->any_slice = true;
}

// False if the key is not basic.
bool parse(const View& v, PyObject* key, Basic* b) {
  PyObject* const* items = &key;
  Py_ssize_t count = 1;
  if (PyTuple_Check(key)) {
    items = reinterpret_cast<PyTupleObject*>(key)->ob_item;
    count = PyTuple_GET_SIZE(key);
  }
  int used = 0;
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (!simple(items[i])) return false;
    used += items[i] != Py_None && items[i] != Py_Ellipsis;
  }
  if (used > v.rank) {
    throw Error(ErrorKind::kOutOfRange, "[getitem] expected at most " + std::to_string(v.rank) +
                                            " indices for shape " + shape_text(v) + ", got " +
                                            std::to_string(used));
  }
  int axis = 0;
  bool ellipsis = false;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* item = items[i];
    if (item == Py_None) {
      if (b->inserted.count >= kMaxRank) return false;
      b->inserted.v[b->inserted.count++] = b->result_rank++;
    } else if (item == Py_Ellipsis) {
      if (ellipsis) {
        throw Error(ErrorKind::kOutOfRange,
                    "[getitem] expected at most one Ellipsis in an index, got two");
      }
      ellipsis = true;
      axis += v.rank - used;
      b->result_rank += v.rank - used;
    } else if (PySlice_Check(item)) {
      take_slice(axis++, item, b);
      ++b->result_rank;
    } else {
      take_int(v, axis++, item, b);
    }
  }
  b->result_rank += v.rank - axis;
  return true;
}

Tensor apply(Tensor x, const Basic& b) {
  const Tensor base = x;
  if (b.any_slice) x = ops::slice(x, b.axes, b.starts, b.ends, b.steps);
  for (int axis = kMaxRank - 1; axis >= 0; --axis) {
    if (b.is_int[axis]) x = ops::select(x, axis, b.at[axis]);
  }
  if (b.inserted.count > 0) x = ops::unsqueeze(x, b.inserted);
  if (x.get() == base.get()) {  // x[:], x[...]: a new tensor all the same
    x = ops::slice(x, Ints(), Ints(), Ints(), Ints());
  }
  return x;
}

// Gives v axes of size 1 where the key has ints, so that it broadcasts to the slice.
Tensor aligned(Tensor v, const View& x, const Basic& b) {
  Ints axes;
  int seen = 0;  // axes of v met from the right
  for (int axis = x.rank - 1; axis >= 0; --axis) {
    if (!b.is_int[axis]) {
      ++seen;
    } else if (seen < v.rank()) {
      axes.v[axes.count++] = axis;
    }
  }
  if (axes.count == 0) return v;
  // Positions in the result: shift to v's own axes.
  const int rank = v.rank() + static_cast<int>(axes.count);
  for (int i = 0; i < axes.count; ++i) axes.v[i] -= x.rank - rank;
  return ops::unsqueeze(v, axes);
}

// v without the axes that None in the key puts into the result, and without leading axes of size 1
// that the result does not have.
Tensor without_new_axes(const Tensor& v, const Basic& b) {
  const int extra = v.rank() - b.result_rank;
  Ints axes;
  for (int i = 0; i < extra; ++i) axes.v[axes.count++] = i;
  for (int i = 0; i < b.inserted.count; ++i) {
    const int64_t axis = b.inserted.v[i] + extra;
    if (axis >= 0) axes.v[axes.count++] = axis;
  }
  for (int i = 0; i < axes.count; ++i) {
    const int64_t size = v->view.shape[axes.v[i]];
    if (size != 1 && size != kUnknown) {
      throw Error(ErrorKind::kInvalidArgument, "[setitem] axis " + std::to_string(axes.v[i]) +
                                                   " of the value must have size 1, got shape " +
                                                   shape_text(v->view));
    }
  }
  return axes.count == 0 ? v : ops::squeeze(v, axes);
}

void assign_recorded(const Tensor& x, Tensor v, Basic b) {
  v = without_new_axes(v, b);
  v = aligned(std::move(v), x.view(), b);
  for (int axis = 0; axis < x.rank(); ++axis) {
    if (!b.is_int[axis]) continue;
    const int64_t end = b.at[axis] == -1 ? INT64_MAX : b.at[axis] + 1;
    push(&b, axis, b.at[axis], end, 1);
  }
  struct {
    Ints axes, starts, ends, steps;
  } attrs{b.axes, b.starts, b.ends, b.steps};
  if (!v->has(TensorImpl::kWeak) && v.dtype() != x.dtype()) {
    v = ops::cast(v, static_cast<int64_t>(x.dtype()));
  }
  TensorImpl* in[] = {x.get(), v.get()};
  Tensor out;
  dispatch_inplace(entry_named("slice_assign"), in, 2, &attrs, &out);
}

void assign(const Tensor& x, Tensor v, const Basic& b) {
  const GradMode off(false);
  const Tensor view = apply(x, b);
  Ints first;  // axes of size 1 that the result does not have
  for (int i = 0; i < v.rank() - view.rank() && v.view().shape[i] == 1; ++i) {
    first.v[first.count++] = i;
  }
  if (first.count > 0) v = ops::squeeze(v, first);
  Tensor source = v;
  if (v->storage != nullptr && v->storage == x->storage) {
    View layout = v.view();
    layout.set_contiguous();
    source = empty_as(layout);
    copy_into(source.view(), v.get());
  }
  copy_into(view.view(), source.get());
  x->storage->bump_version();
  x->version_at_view = x->storage->version();
}

PyObject* fall_back(PyObject* function, const char* what, PyObject* a, PyObject* b, PyObject* c) {
  if (function == nullptr) {
    throw Error(ErrorKind::kUnimplemented, std::string("[") + what +
                                               "] indices must be ints, slices, Ellipsis or None "
                                               "before proa.tensor is imported");
  }
  return PyObject_CallFunctionObjArgs(function, a, b, c, nullptr);
}

PyObject* set_index_fallback(PyObject*, PyObject* args) {
  PyObject *get, *set;
  if (!PyArg_ParseTuple(args, "OO", &get, &set)) return nullptr;
  Py_INCREF(get);
  Py_INCREF(set);
  Py_XSETREF(g_get, get);
  Py_XSETREF(g_set, set);
  Py_RETURN_NONE;
}

}  // namespace

PyObject* get_item(PyObject* self, PyObject* key) {
  return guarded([&]() -> PyObject* {
    Basic b;
    if (!parse(impl_of(self)->view, key, &b))
      return fall_back(g_get, "getitem", self, key, nullptr);
    return wrap(apply(Tensor::share(impl_of(self)), b));
  });
}

int set_item(PyObject* self, PyObject* key, PyObject* value) {
  return guarded_int([&] {
    if (value == nullptr) raise_type("[setitem] elements cannot be deleted");
    Basic b;
    const Tensor x = Tensor::share(impl_of(self));
    if (!parse(x.view(), key, &b)) {
      const Ref done = checked(fall_back(g_set, "setitem", self, key, value));
      return 0;
    }
    Tensor v = dense(to_tensor(value, "setitem", "the value"));
    if (is_row_sparse(x.get())) raise_type("[setitem] a row-sparse gradient cannot be changed");
    const bool symbolic =
        binds_all() || x->has(TensorImpl::kSymbolic) || v->has(TensorImpl::kSymbolic);
    TensorImpl* both[] = {x.get(), v.get()};
    if (!symbolic && !needs_node(both, 2)) {
      assign(x, v, b);
      return 0;
    }
    assign_recorded(x, std::move(v), b);
    return 0;
  });
}

PyObject* sequence_item(PyObject* self, Py_ssize_t i) {
  return guarded([&] {
    if (impl_of(self)->view.rank == 0) raise_type("[iter] the tensor must have an axis");
    const Ref index = checked(PyLong_FromSsize_t(i));
    return get_item(self, index.get());
  });
}

PyMethodDef index_functions[] = {
    {"set_index_fallback", set_index_fallback, METH_VARARGS,
     "set_index_fallback(get, set): what serves keys that are not basic."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace proa::bind
