// The Tensor type: life cycle, attributes, methods.
#include <algorithm>
#include <atomic>

#include "backward.h"
#include "proa/gen/ops.h"
#include "proa/train/tape.h"
#include "python.h"

#include <structmember.h>

namespace proa::bind {

PyTypeObject* tensor_type = nullptr;

namespace {

constexpr int kKeep = 128;
PyTensor* g_free[kKeep];  // under the interpreter's lock
int g_free_count = 0;

PyTensor* allocate_object(PyTypeObject* type) {
  if (type == tensor_type && g_free_count > 0) {
    PyTensor* object = g_free[--g_free_count];
    PyObject_Init(reinterpret_cast<PyObject*>(object), type);
    object->weakrefs = nullptr;
    return object;
  }
  return reinterpret_cast<PyTensor*>(type->tp_alloc(type, 0));
}

void deallocate(PyObject* self) {
  auto* object = reinterpret_cast<PyTensor*>(self);
  PyTypeObject* type = Py_TYPE(self);
  if (object->weakrefs != nullptr) PyObject_ClearWeakRefs(self);
  if (object->impl != nullptr) {
    object->impl->python = nullptr;
    object->impl->drop();
  }
  if (type == tensor_type && g_free_count < kKeep) {
    g_free[g_free_count++] = object;
  } else {
    type->tp_free(self);
  }
  Py_DECREF(type);
}

// Tensor(tensor): the same memory under a new value; Tensor(array or number): a copy.
PyObject* make(PyTypeObject* type, PyObject* args, PyObject*) {
  return guarded([&]() -> PyObject* {
    Tensor x;
    if (PyTuple_GET_SIZE(args) > 0) {
      PyObject* source = PyTuple_GET_ITEM(args, 0);
      if (is_tensor(source)) {
        x = detach(Tensor::share(impl_of(source)));
      } else if (is_array(source)) {
        x = from_numpy(source, true);
      } else {
        x = to_tensor(source, "Tensor", "data");
      }
      if (x->storage == nullptr && !x->has(TensorImpl::kSymbolic)) {
        const GradMode off(false);
        x->flags = static_cast<uint16_t>(x->flags & ~TensorImpl::kWeak);
        x = ops::assign(x);
      }
    } else {
      const int64_t none = 0;
      x = empty(default_dtype(), &none, 1);
    }
    PyTensor* object = allocate_object(type);
    if (object == nullptr) throw PythonError();
    object->impl = x.release();
    object->impl->python = object;
    return reinterpret_cast<PyObject*>(object);
  });
}

int initialize(PyObject*, PyObject*, PyObject*) { return 0; }

TensorImpl& at(PyObject* self) { return *impl_of(self); }
Tensor share(PyObject* self) { return Tensor::share(impl_of(self)); }

// -- attributes -------------------------------------------------------------------------------

PyObject* get_shape(PyObject* self, void*) {
  return guarded([&] {
    return as_shape(at(self).has(TensorImpl::kSymbolic) ? symbol_shape(self)
                                                        : shape_list(at(self).view));
  });
}
PyObject* get_ndim(PyObject* self, void*) { return PyLong_FromLong(at(self).view.rank); }
PyObject* get_size(PyObject* self, void*) {
  const View& view = at(self).view;
  const bool known =
      std::all_of(view.shape, view.shape + view.rank, [](int64_t n) { return n >= 0; });
  if (known) return PyLong_FromLongLong(view.numel());
  return guarded([&] {  // the product of symbolic dimensions
    const Ref sizes(symbol_shape(self));
    Ref product = checked(PyLong_FromLong(1));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(sizes.get()); ++i) {
      product = checked(PyNumber_Multiply(product.get(), PyList_GET_ITEM(sizes.get(), i)));
    }
    return product.release();
  });
}
PyObject* get_dtype(PyObject* self, void*) {
  return guarded([&] {
    PyObject* dtype = dtype_object(at(self).view.dtype);
    Py_INCREF(dtype);
    return dtype;
  });
}
PyObject* get_strides(PyObject* self, void*) {
  return guarded([&] {
    View strides = at(self).view;
    for (int i = 0; i < strides.rank; ++i) strides.shape[i] = strides.stride[i];
    return shape_list(strides);
  });
}

PyObject* get_flag(PyObject* self, void* flag) {
  const auto bit = static_cast<TensorImpl::Flag>(reinterpret_cast<uintptr_t>(flag));
  return PyBool_FromLong(at(self).has(bit));
}
int set_flag(PyObject* self, PyObject* value, void* flag) {
  const int truth = value == nullptr ? -1 : PyObject_IsTrue(value);
  if (truth < 0) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_AttributeError, "the attribute stays");
    return -1;
  }
  at(self).set(static_cast<TensorImpl::Flag>(reinterpret_cast<uintptr_t>(flag)), truth != 0);
  return 0;
}

// The gradient that has memory.
PyObject* get_held_grad(PyObject* self, void*) {
  if (at(self).extras == nullptr) Py_RETURN_NONE;
  return wrap(at(self).extras->grad);
}
PyObject* get_grad(PyObject* self, void*) {
  TensorImpl& x = at(self);
  return guarded([&]() -> PyObject* {
    // What a recorded function finds as the gradient of a leaf may be another in the next run.
    if (records_all() && !x.has(TensorImpl::kSymbolic) && x.leaf() && x.requires_grad() &&
        dispatch_hooks.bind_target != nullptr) {
      dispatch_hooks.bind_target(&x);
    }
    if (x.extras != nullptr && x.extras->grad) return wrap(x.extras->grad);
    if (x.has(TensorImpl::kSymbolic)) x.set(TensorImpl::kGradRead, true);
    if (!x.has(TensorImpl::kZeroGrad)) Py_RETURN_NONE;
    Scalar zero;
    zero.is_int = 1;
    x.extra().grad = ops::full_like(share(self), zero, static_cast<int64_t>(x.view.dtype));
    x.set(TensorImpl::kZeroGrad, false);
    return wrap(x.extras->grad);
  });
}
int set_grad(PyObject* self, PyObject* value, void*) {
  return guarded_int([&] {
    at(self).set(TensorImpl::kZeroGrad, false);
    if (value == nullptr || value == Py_None) {
      if (at(self).extras != nullptr) at(self).extras->grad = Tensor();
      return 0;
    }
    if (!is_tensor(value)) raise_type("[grad] expected a Tensor or None");
    at(self).extra().grad = share(value);
    return 0;
  });
}

PyObject* get_name(PyObject* self, void*) {
  static std::atomic<int64_t> counter{0};
  std::string& name = at(self).extra().name;
  if (name.empty()) name = "generated_tensor_" + std::to_string(counter.fetch_add(1));
  return PyUnicode_FromStringAndSize(name.data(), static_cast<Py_ssize_t>(name.size()));
}
int set_name(PyObject* self, PyObject* value, void*) {
  const char* text = value != nullptr && PyUnicode_Check(value) ? PyUnicode_AsUTF8(value) : nullptr;
  if (text == nullptr) {
    PyErr_SetString(PyExc_TypeError, "[Tensor.name] expected a str");
    return -1;
  }
  at(self).extra().name = text;
  return 0;
}

PyObject* get_is_leaf(PyObject* self, void*) {
  return PyBool_FromLong(at(self).leaf() || !at(self).requires_grad());
}
PyObject* get_version(PyObject* self, void*) { return PyLong_FromUnsignedLong(at(self).version()); }
PyObject* get_epoch(PyObject* self, void*) { return PyLong_FromUnsignedLong(at(self).epoch); }
PyObject* get_grad_fn(PyObject* self, void*) {
  if (at(self).leaf()) Py_RETURN_NONE;
  return PyUnicode_FromString(at(self).grad_fn->name());
}
PyObject* get_handle(PyObject* self, void*) {
  const TensorExtras* extras = at(self).extras;
  auto* handle = extras == nullptr ? nullptr : static_cast<PyObject*>(extras->handle.get());
  if (handle == nullptr) Py_RETURN_NONE;
  Py_INCREF(handle);
  return handle;
}

void* flag(TensorImpl::Flag f) noexcept {
  return reinterpret_cast<void*>(static_cast<uintptr_t>(f));
}

PyGetSetDef attributes[] = {
    {"shape", get_shape, nullptr, "Sizes of the axes: a list that equals a tuple of them.",
     nullptr},
    {"ndim", get_ndim, nullptr, "Number of axes.", nullptr},
    {"size", get_size, nullptr, "Number of elements.", nullptr},
    {"dtype", get_dtype, nullptr, "Element type.", nullptr},
    {"strides", get_strides, nullptr, "Elements from one index to the next, by axis.", nullptr},
    {"stop_gradient", get_flag, set_flag, "True: no gradient flows to it.",
     flag(TensorImpl::kStopGradient)},
    {"persistable", get_flag, set_flag, "Part of a model's state.", flag(TensorImpl::kPersistable)},
    {"_is_parameter", get_flag, set_flag, nullptr, flag(TensorImpl::kParameter)},
    {"_is_symbolic", get_flag, nullptr, nullptr, flag(TensorImpl::kSymbolic)},
    {"_is_view", get_flag, nullptr, nullptr, flag(TensorImpl::kView)},
    {"grad", get_grad, set_grad, "The gradient accumulated so far, or None.", nullptr},
    {"_held_grad", get_held_grad, nullptr, nullptr, nullptr},
    {"_zero_grad", get_flag, set_flag, nullptr, flag(TensorImpl::kZeroGrad)},
    {"_grad_read", get_flag, nullptr, nullptr, flag(TensorImpl::kGradRead)},
    {"_grad_added", get_flag, nullptr, nullptr, flag(TensorImpl::kGradAdded)},
    {"name", get_name, set_name, "A name, made up if none was given.", nullptr},
    {"is_leaf", get_is_leaf, nullptr, "True if no recorded op made it.", nullptr},
    {"inplace_version", get_version, nullptr, "Number of in-place changes.", nullptr},
    {"_epoch", get_epoch, nullptr, "Creation epoch of the thread that made it.", nullptr},
    {"grad_fn", get_grad_fn, nullptr, "Name of the op that made it, or None.", nullptr},
    {"_handle", get_handle, nullptr, "The value that a symbolic tensor represents.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

// -- methods ----------------------------------------------------------------------------------

// numpy(blocking=True): with one device there is nothing to wait for.
PyObject* numpy(PyObject* self, PyObject* args) {
  PyObject* blocking;
  if (!PyArg_ParseTuple(args, "|O:numpy", &blocking)) return nullptr;
  return guarded([&] { return to_numpy(share(self)); });
}

PyObject* array(PyObject* self, PyObject* args, PyObject* keywords) {
  static const char* names[] = {"dtype", "copy", nullptr};
  PyObject *dtype = Py_None, *copy = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "|OO", const_cast<char**>(names), &dtype,
                                   &copy)) {
    return nullptr;
  }
  return guarded([&]() -> PyObject* {
    Ref result = checked(to_numpy(share(self)));
    if (dtype != Py_None) {
      return PyObject_CallMethod(result.get(), "astype", "(O)", dtype);
    }
    if (copy == Py_True) return PyObject_CallMethod(result.get(), "copy", nullptr);
    return result.release();
  });
}

// For values that Python has no type for.
Tensor readable(PyObject* self) {
  const GradMode off(false);
  Tensor x = share(self);
  if (x.dtype() == DType::kBF16) x = ops::cast(x, static_cast<int64_t>(DType::kF32));
  return x;
}

PyObject* item(PyObject* self, PyObject* args) {
  const View& view = at(self).view;
  const bool real = view.dtype == DType::kF32 || view.dtype == DType::kF64;
  if (PyTuple_GET_SIZE(args) == 0 && (real || view.dtype == DType::kI64) && view.numel() == 1) {
    return real ? as_float(self, "item") : as_int(self, "item");
  }
  return guarded([&] {
    const Ref values = checked(to_numpy(readable(self)));
    if (PyTuple_GET_SIZE(args) == 0 && at(self).view.numel() != 1) {
      throw Error(ErrorKind::kInvalidArgument,
                  "[item] expected a tensor of one element, or an index, got shape " +
                      shape_text(at(self).view));
    }
    const Ref method = checked(PyObject_GetAttrString(values.get(), "item"));
    PyObject* const number = PyObject_CallObject(method.get(), args);
    if (number != nullptr || PyTuple_GET_SIZE(args) == 0) return number;
    PyErr_Clear();
    const Ref index(PyObject_Repr(args));
    const char* text = index ? PyUnicode_AsUTF8(index.get()) : nullptr;
    throw Error(ErrorKind::kOutOfRange, "[item] expected the index of one element of shape " +
                                            shape_text(at(self).view) + ", got " +
                                            (text == nullptr ? "?" : text));
  });
}

PyObject* tolist(PyObject* self, PyObject*) {
  return guarded([&] {
    const Ref values = checked(to_numpy(readable(self)));
    return PyObject_CallMethod(values.get(), "tolist", nullptr);
  });
}

PyObject* data_ptr(PyObject* self, PyObject*) { return PyLong_FromVoidPtr(at(self).view.data); }

PyObject* backward_method(PyObject* self, PyObject* args, PyObject* keywords) {
  static const char* names[] = {"grad_tensor", "retain_graph", "create_graph", nullptr};
  PyObject* seed = Py_None;
  int retain = 0, create = 0;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "|Opp", const_cast<char**>(names), &seed,
                                   &retain, &create)) {
    return nullptr;
  }
  return guarded([&]() -> PyObject* {
    std::vector<Tensor> grads(1);
    if (seed != Py_None) grads[0] = to_tensor(seed, "backward", "grad_tensor");
    backward_from({share(self)}, std::move(grads), {retain != 0, create != 0});
    Py_RETURN_NONE;
  });
}

PyObject* detach_method(PyObject* self, PyObject*) {
  return guarded([&] { return wrap(detach(share(self))); });
}
PyObject* clone_method(PyObject* self, PyObject*) {
  return guarded([&] { return wrap(ops::assign(share(self))); });
}

// Lets the gradient's memory go. What was there reads as zeros from now on, unless that is not
// wanted or it was row-sparse: then as none.
void clear(TensorImpl* x, bool to_zero) {
  const bool held = x->extras != nullptr && x->extras->grad;
  if (held) {
    const bool zero = to_zero && !x->extras->grad->has(TensorImpl::kRowSparse);
    x->extras->grad = Tensor();
    x->set(TensorImpl::kZeroGrad, zero);
  } else if (!to_zero) {
    x->set(TensorImpl::kZeroGrad, false);
  }
}
PyObject* forget_grad(PyObject* self, PyObject*) {
  clear(&at(self), false);
  Py_RETURN_NONE;
}
PyObject* clear_grad(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* keywords) {
  const Py_ssize_t named = keywords == nullptr ? 0 : PyTuple_GET_SIZE(keywords);
  int to_zero = 1;
  if (count + named > 0) {
    const bool known = count + named == 1 &&
                       (count == 1 || PyUnicode_CompareWithASCIIString(
                                          PyTuple_GET_ITEM(keywords, 0), "set_to_zero") == 0);
    to_zero = known ? PyObject_IsTrue(args[0]) : -1;
    if (to_zero < 0) {
      return guarded([]() -> PyObject* {
        PyErr_Clear();
        raise_type("[clear_grad] expected a bool, set_to_zero, and no other argument");
      });
    }
  }
  clear(&at(self), to_zero != 0);
  Py_RETURN_NONE;
}

PyObject* share_from(PyObject* self, PyObject* other) {
  return guarded([&]() -> PyObject* {
    if (!is_tensor(other)) raise_type("[_share_from] expected a Tensor");
    TensorImpl &to = at(self), &from = at(other);
    if (from.storage == nullptr) raise_type("[_share_from] the tensor must have memory");
    from.storage->retain();
    if (to.storage != nullptr) to.storage->drop();
    to.storage = from.storage;
    to.view = from.view;
    to.set(TensorImpl::kContiguous, from.has(TensorImpl::kContiguous));
    Py_RETURN_NONE;
  });
}

// x becomes the value `other`: its memory, shape and place on the tape. For in-place forms of ops
// that change the shape.
PyObject* become(PyObject* self, PyObject* other) {
  return guarded([&]() -> PyObject* {
    if (!is_tensor(other)) raise_type("[_become] expected a Tensor");
    TensorImpl &to = at(self), &from = at(other);
    if (from.storage == nullptr) raise_type("[_become] the tensor must have memory");
    if (to.leaf() && to.requires_grad() && grad_enabled()) {
      throw Error(ErrorKind::kInvalidArgument,
                  "[inplace] a leaf that requires a gradient cannot be changed in place outside "
                  "no_grad, got a leaf of shape " +
                      shape_text(to.view));
    }
    const Tensor retained = share(other);
    if (from.grad_fn != nullptr) from.grad_fn->retain();
    if (to.grad_fn != nullptr) to.grad_fn->drop();
    to.grad_fn = from.grad_fn;
    to.output = from.output;
    from.storage->retain();
    if (to.storage != nullptr) to.storage->drop();
    to.storage = from.storage;
    to.view = from.view;
    to.version_at_view = from.version_at_view;
    for (const auto bit : {TensorImpl::kContiguous, TensorImpl::kStopGradient, TensorImpl::kView}) {
      to.set(bit, from.has(bit));
    }
    Py_INCREF(self);
    return self;
  });
}

PyObject* is_contiguous(PyObject* self, PyObject*) {
  return PyBool_FromLong(at(self).has(TensorImpl::kContiguous));
}

PyObject* bump_version(PyObject* self, PyObject*) {
  if (at(self).storage != nullptr) at(self).storage->bump_version();
  Py_RETURN_NONE;
}

PyObject* retain_grads(PyObject* self, PyObject*) {
  TensorImpl& x = at(self);
  if (x.leaf() || x.has(TensorImpl::kRetainGrad)) Py_RETURN_NONE;
  x.set(TensorImpl::kRetainGrad, true);
  x.grad_fn->retain_grad(x.output, &x);
  Py_RETURN_NONE;
}

const char* const kClearGrad =
    "($self, set_to_zero=True)\n--\n\n"
    "Clear the gradient: from now on it is zeros, or None if not set_to_zero. One that never was "
    "stays None.";

PyMethodDef methods[] = {
    {"numpy", numpy, METH_VARARGS,
     "The values as a NumPy array on the same memory (bfloat16 as uint16)."},
    {"__array__", fast(array), METH_VARARGS | METH_KEYWORDS, nullptr},
    {"item", item, METH_VARARGS, "The one element, or that at the index, as a Python number."},
    {"tolist", tolist, METH_NOARGS, "The elements as nested lists."},
    {"data_ptr", data_ptr, METH_NOARGS, "Address of the first element."},
    {"backward", fast(backward_method), METH_VARARGS | METH_KEYWORDS,
     "Add the gradients of this tensor to the leaves' grad."},
    {"detach", detach_method, METH_NOARGS, "The same memory, unknown to the tape."},
    {"clone", clone_method, METH_NOARGS, "A copy through which gradients flow."},
    {"_clear_grad", forget_grad, METH_NOARGS, nullptr},
    {"clear_grad", fast(clear_grad), METH_FASTCALL | METH_KEYWORDS, kClearGrad},
    {"clear_gradient", fast(clear_grad), METH_FASTCALL | METH_KEYWORDS, kClearGrad},
    {"_share_from", share_from, METH_O, nullptr},
    {"_become", become, METH_O, nullptr},
    {"is_contiguous", is_contiguous, METH_NOARGS, "True if row-major without gaps."},
    {"_bump_inplace_version", bump_version, METH_NOARGS, nullptr},
    {"retain_grads", retain_grads, METH_NOARGS, "Keep the gradient of this computed tensor."},
    {nullptr, nullptr, 0, nullptr}};

Py_ssize_t length(PyObject* self) {
  return guarded_int([&] {
    if (at(self).view.rank == 0) raise_type("[len] the tensor must have an axis, got shape ()");
    if (at(self).view.shape[0] < 0) {
      throw Error(ErrorKind::kUnimplemented,
                  "[len] the size must be known, got a symbolic dimension: use x.shape[0], or "
                  "give its size in InputSpec");
    }
    return static_cast<int>(at(self).view.shape[0]);
  });
}

PyMemberDef members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(PyTensor, weakrefs), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

Py_hash_t hash(PyObject* self) { return _Py_HashPointer(self); }

template <class T>
PyType_Slot slot(int id, T value) {
  return {id, (void*)value};  // NOLINT: functions and strings alike become void*
}

}  // namespace

PyObject* wrap(Tensor x) {
  if (!x) Py_RETURN_NONE;
  if (x->python != nullptr) {
    auto* known = static_cast<PyObject*>(x->python);
    Py_INCREF(known);
    return known;
  }
  if (x->has(TensorImpl::kWeak)) x->set(TensorImpl::kWeak, false);
  PyTensor* object = allocate_object(tensor_type);
  if (object == nullptr) throw PythonError();
  object->impl = x.release();
  object->impl->python = object;
  return reinterpret_cast<PyObject*>(object);
}

bool init_tensor_type(PyObject* module) {
  std::vector<PyMethodDef>* all = new std::vector<PyMethodDef>();
  for (PyMethodDef* list : {methods, dlpack_methods}) {
    for (PyMethodDef* m = list; m->ml_name != nullptr; ++m) all->push_back(*m);
  }
  all->push_back({nullptr, nullptr, 0, nullptr});
  std::vector<PyType_Slot> slots = {
      slot(Py_tp_new, make),
      slot(Py_tp_init, initialize),
      slot(Py_tp_dealloc, deallocate),
      slot(Py_tp_getset, attributes),
      slot(Py_tp_methods, all->data()),
      slot(Py_tp_members, members),
      slot(Py_tp_hash, hash),
      slot(Py_tp_richcompare, compare),
      slot(Py_mp_length, length),
      slot(Py_mp_subscript, get_item),
      slot(Py_mp_ass_subscript, set_item),
      slot(Py_sq_item, sequence_item),
      slot(Py_tp_doc, "An n-dimensional array that gradients can flow through.")};
  add_number_slots(&slots);
  slots.push_back({0, nullptr});
  PyType_Spec spec = {"proa._core.Tensor", sizeof(PyTensor), 0,
                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots.data()};
  tensor_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  if (tensor_type == nullptr) return false;
  Py_INCREF(tensor_type);
  return PyModule_AddObject(module, "Tensor", reinterpret_cast<PyObject*>(tensor_type)) == 0;
}

}  // namespace proa::bind
