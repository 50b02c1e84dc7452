// Symbolic tensors: made by the recorder in Python, to which their ops go.
#include <cstring>

#include "proa/shapes/infer.h"
#include "proa/train/run.h"
#include "proa/train/tape.h"
#include "python.h"

namespace proa::bind {

namespace {

// What a thread records with: a recording in one does not concern the others.
thread_local PyObject* t_recorder = nullptr;
thread_local PyObject* t_binder = nullptr;
// What threads that record nothing else record static programs with, and its binder.
PyObject* g_static_recorder = nullptr;
PyObject* g_static_binder = nullptr;
// Waits until no other thread records; false if none did.
PyObject* g_await_recording = nullptr;

bool await_recording(TensorImpl* const* in, int n_in) {
  if (t_recorder != nullptr || g_await_recording == nullptr) return false;
  const Ref waited = checked(PyObject_CallNoArgs(g_await_recording));
  if (waited.get() == Py_True) return true;
  for (int i = 0; i < n_in; ++i) {
    if (in[i] != nullptr && in[i]->has(TensorImpl::kSymbolic)) return false;
  }
  return true;  // the recording ended before the call
}

View view_of(PyObject* shape, PyObject* dtype, const char* where) {
  View view;
  if (!parse_dtype(dtype, &view.dtype)) raise_type(std::string("[") + where + "] a dtype");
  const Ref sizes = checked(PySequence_Fast(shape, "[symbol] the shape must be a sequence"));
  const Py_ssize_t rank = PySequence_Fast_GET_SIZE(sizes.get());
  if (rank > kMaxRank) {
    throw Error(
        ErrorKind::kInvalidArgument,
        std::string("[") + where + "] expected at most 8 axes, got " + std::to_string(rank));
  }
  view.rank = static_cast<int8_t>(rank);
  for (Py_ssize_t i = 0; i < rank; ++i) {
    PyObject* size = PySequence_Fast_GET_ITEM(sizes.get(), i);
    view.shape[i] = size == Py_None ? kUnknown : PyLong_AsLongLong(size);
    if (PyErr_Occurred()) throw PythonError();
  }
  view.set_contiguous();
  return view;
}

// symbol(shape, dtype, handle)
PyObject* symbol(PyObject*, PyObject* args) {
  PyObject *shape, *dtype, *handle;
  if (!PyArg_ParseTuple(args, "OOO", &shape, &dtype, &handle)) return nullptr;
  return guarded([&] {
    const View view = view_of(shape, dtype, "symbol");
    TensorImpl* impl = TensorImpl::create();
    Tensor x = Tensor::take(impl);
    impl->view = view;
    impl->flags |= TensorImpl::kSymbolic | TensorImpl::kContiguous;
    impl->extra().handle = keep(handle);
    return wrap(std::move(x));
  });
}

// Calls the recorder: fn(op, inputs, attrs) -> symbolic tensor(s).
void record(const OpEntry& entry, TensorImpl* const* in, int n_in, const void* attrs, Tensor* out) {
  const Ref dict = attribute_dict(*entry.info, attrs);
  const auto tensors = call_recorder(entry.info->name, in, n_in, dict.get());
  if (tensors.size() != entry.info->n_out) {
    throw Error(ErrorKind::kFatal,
                std::string("[") + entry.info->name + "] the recorder must return every output");
  }
  for (size_t i = 0; i < tensors.size(); ++i) out[i] = tensors[i];
}

// A symbol keeps its memory, unseen, until it is a plain tensor again.
PyObject* bind_symbol(PyObject*, PyObject* args) {
  PyObject *tensor, *handle;
  if (!PyArg_ParseTuple(args, "OO", &tensor, &handle)) return nullptr;
  return guarded([&]() -> PyObject* {
    if (!is_tensor(tensor) || impl_of(tensor)->has(TensorImpl::kSymbolic) ||
        impl_of(tensor)->storage == nullptr) {
      raise_type("[bind_symbol] expected a Tensor with memory");
    }
    TensorImpl* x = impl_of(tensor);
    Tensor before = detach(Tensor::share(x));
    x->view.data = nullptr;
    x->set(TensorImpl::kSymbolic, true);
    x->set(TensorImpl::kGradRead, false);
    x->set(TensorImpl::kGradAdded, false);
    x->extra().handle = keep(handle);
    return wrap(std::move(before));
  });
}

PyObject* release_symbol(PyObject*, PyObject* args) {
  PyObject *tensor, *before;
  int stop_gradient;
  if (!PyArg_ParseTuple(args, "OOp", &tensor, &before, &stop_gradient)) return nullptr;
  return guarded([&]() -> PyObject* {
    if (!is_tensor(tensor) || !is_tensor(before)) raise_type("[release_symbol] Tensors");
    TensorImpl *x = impl_of(tensor), *old = impl_of(before);
    x->view = old->view;
    x->set(TensorImpl::kSymbolic, false);
    x->set(TensorImpl::kStopGradient, stop_gradient != 0);
    x->set(TensorImpl::kContiguous, old->has(TensorImpl::kContiguous));
    x->extra().handle = nullptr;
    if (x->grad_fn != nullptr) std::exchange(x->grad_fn, nullptr)->drop();
    x->output = 0;
    Py_RETURN_NONE;
  });
}

// rebind_symbol(tensor, symbol): the tensor, a symbol, refers to the value of the other.
PyObject* rebind_symbol(PyObject*, PyObject* args) {
  PyObject *tensor, *symbol;
  if (!PyArg_ParseTuple(args, "OO", &tensor, &symbol)) return nullptr;
  return guarded([&]() -> PyObject* {
    for (PyObject* o : {tensor, symbol}) {
      if (!is_tensor(o) || !impl_of(o)->has(TensorImpl::kSymbolic)) raise_type("[rebind] symbols");
    }
    rebind(impl_of(tensor), impl_of(symbol));
    Py_RETURN_NONE;
  });
}

PyObject* begin_epoch(PyObject*, PyObject*) {
  return PyLong_FromUnsignedLong(TensorImpl::begin_epoch());
}

PyObject* set_binds_changes(PyObject*, PyObject* on) {
  const int wanted = PyObject_IsTrue(on);
  if (wanted < 0) return nullptr;
  const bool before = binds_all();
  set_binds_all(wanted != 0);
  return PyBool_FromLong(before);
}

// Calls visit(tensor) for every one of a list of Tensors, until it returns false.
template <class F>
bool for_all(PyObject* list, F visit) {
  if (!PyList_Check(list)) raise_type("expected a list of Tensors");
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) {
    PyObject* item = PyList_GET_ITEM(list, i);
    if (!is_tensor(item)) raise_type("expected a list of Tensors");
    if (!visit(impl_of(item))) return false;
  }
  return true;
}

PyObject* hold_no_grads(PyObject*, PyObject* list) {
  return guarded([&] {
    const auto has_no_grad = [](TensorImpl* x) { return x->extras == nullptr || !x->extras->grad; };
    return PyBool_FromLong(for_all(list, has_no_grad));
  });
}

PyObject* zero_grads(PyObject*, PyObject* list) {
  return guarded([&]() -> PyObject* {
    for_all(list, [](TensorImpl* x) {
      if (x->extras != nullptr) x->extras->grad = Tensor();
      x->set(TensorImpl::kZeroGrad, true);
      return true;
    });
    Py_RETURN_NONE;
  });
}

PyObject* g_symbolic_dim = nullptr;

PyObject* set_symbolic_dim(PyObject*, PyObject* function) {
  Py_INCREF(function);
  Py_XDECREF(std::exchange(g_symbolic_dim, function));
  Py_RETURN_NONE;
}

// Calls the recorder to make a plain tensor a symbol, as an op is about to change it in place.
void bind_target(TensorImpl* target) {
  PyObject* binder = t_binder;
  if (binder == nullptr && t_recorder == nullptr && builds_program()) binder = g_static_binder;
  if (binder == nullptr) return;
  const Ref tensor = checked(wrap(Tensor::share(target)));
  checked(PyObject_CallOneArg(binder, tensor.get()));
}

PyObject* set_binder(PyObject*, PyObject* args) {
  PyObject* function;
  int all = 0;
  if (!PyArg_ParseTuple(args, "Op", &function, &all)) return nullptr;
  PyObject* before = t_binder;
  if (function == Py_None) {
    t_binder = nullptr;
  } else {
    Py_INCREF(function);
    t_binder = function;
  }
  dispatch_hooks.bind_target = bind_target;  // calls this thread's binder, if there is one
  set_records_all(all != 0);
  if (before == nullptr) Py_RETURN_NONE;
  return before;
}

PyObject* set_await_recording(PyObject*, PyObject* function) {
  Py_INCREF(function);
  Py_XDECREF(std::exchange(g_await_recording, function));
  dispatch_hooks.await_recording = await_recording;
  Py_RETURN_NONE;
}

PyObject* is_recording(PyObject*, PyObject*) { return PyBool_FromLong(records_all()); }

PyObject* set_recorder(PyObject*, PyObject* function) {
  PyObject* before = t_recorder;
  if (function == Py_None) {
    t_recorder = nullptr;
  } else {
    Py_INCREF(function);
    t_recorder = function;
  }
  dispatch_hooks.record = record;
  if (before == nullptr) Py_RETURN_NONE;
  return before;
}

// set_static_recorder(record, bind): None and None end static mode.
PyObject* set_static_recorder(PyObject*, PyObject* args) {
  PyObject *recorder, *binder;
  if (!PyArg_ParseTuple(args, "OO", &recorder, &binder)) return nullptr;
  const bool on = recorder != Py_None;
  Py_XINCREF(on ? recorder : nullptr);
  Py_XINCREF(on ? binder : nullptr);
  Py_XDECREF(std::exchange(g_static_recorder, on ? recorder : nullptr));
  Py_XDECREF(std::exchange(g_static_binder, on ? binder : nullptr));
  dispatch_hooks.record = record;
  dispatch_hooks.bind_target = bind_target;
  set_builds_program(on);
  Py_RETURN_NONE;
}

PyObject* set_builds_here(PyObject*, PyObject* on) {
  const int wanted = PyObject_IsTrue(on);
  if (wanted < 0) return nullptr;
  const bool before = builds_here();
  proa::set_builds_here(wanted != 0);
  return PyBool_FromLong(before);
}

PyObject* builds_program_here(PyObject*, PyObject*) { return PyBool_FromLong(builds_program()); }

// Shape rules read every array of their row: those left out at the end are absent ones.
void check_arrays(const OpInfo& op, std::vector<View>* in) {
  const std::string where = std::string("[") + op.name + "] ";
  if (op.n_in != kVariadic) {
    if (in->size() > op.n_in) {
      throw Error(ErrorKind::kInvalidArgument, where + "expected at most " +
                                                   std::to_string(op.n_in) + " arrays, got " +
                                                   std::to_string(in->size()));
    }
    in->resize(op.n_in);
  } else if (in->empty()) {
    throw Error(ErrorKind::kInvalidArgument, where + "expected at least one array, got none");
  }
  for (size_t i = 0; i < in->size(); ++i) {
    const bool needed = op.n_in == kVariadic || i < op.n_required;
    if (!needed || (*in)[i].given()) continue;
    throw Error(ErrorKind::kInvalidArgument,
                where + "array " + std::to_string(i + 1) + " must not be None");
  }
}

// infer(op, inputs, attrs) -> [(shape, dtype)]: inputs are Tensors, (shape, dtype) pairs or None.
PyObject* infer_op(PyObject*, PyObject* args) {
  const char* name;
  PyObject *inputs, *attributes;
  if (!PyArg_ParseTuple(args, "sOO", &name, &inputs, &attributes)) return nullptr;
  return guarded([&]() -> PyObject* {
    const OpInfo& op = *entry_named(name).info;
    const HostOp& host = kHostOps[op.id];
    const Ref items = checked(PySequence_Fast(inputs, "[infer] inputs must be a sequence"));
    std::vector<View> in;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i) {
      PyObject* item = PySequence_Fast_GET_ITEM(items.get(), i);
      if (item == Py_None) {
        in.emplace_back();
      } else if (is_tensor(item)) {
        in.push_back(impl_of(item)->view);
        in.back().data = nullptr;
      } else {
        PyObject *shape, *dtype;
        if (!PyArg_ParseTuple(item, "OO", &shape, &dtype)) throw PythonError();
        in.push_back(view_of(shape, dtype, "infer"));
      }
    }
    check_arrays(op, &in);
    alignas(16) unsigned char attrs[1024];
    if (op.attr_size > 0) std::memcpy(attrs, op.attr_defaults, op.attr_size);
    for (int i = host.array_count; i < host.arg_count; ++i) {
      PyObject* value = PyDict_GetItemString(attributes, host.args[i].name);
      if (value != nullptr) parse_attribute(name, host.args[i], value, attrs);
    }
    View out[kMaxOutputs];
    Call call;
    call.in = in.data();
    call.n_in = static_cast<int>(in.size());
    call.out = out;
    call.n_out = op.n_out;
    call.attrs = attrs;
    check_dtype(op, call);
    const Status status = infer(op, call);
    if (status != Status::kOk && status != Status::kNotAView) {
      raise_status(op, call, status);
    }
    Ref list = checked(PyList_New(op.n_out));
    for (int i = 0; i < op.n_out; ++i) {
      PyObject* pair = Py_BuildValue("(NO)", shape_list(out[i]), dtype_object(out[i].dtype));
      PyList_SET_ITEM(list.get(), i, checked(pair).release());
    }
    return list.release();
  });
}

}  // namespace

void require_value(TensorImpl* x, const std::string& where) {
  while (x->has(TensorImpl::kSymbolic)) {
    if (!await_recording(&x, 1)) raise_symbolic_value(where);
  }
}

std::vector<Tensor> call_recorder(const char* op, TensorImpl* const* in, int n_in,
                                  PyObject* attrs) {
  PyObject* recorder = t_recorder == nullptr ? g_static_recorder : t_recorder;
  if (recorder == nullptr) {
    throw Error(
        ErrorKind::kPreconditionNotMet,
        std::string("[") + op +
            "] expected a program that is being recorded to use a symbolic tensor, got none");
  }
  const Ref inputs = checked(PyList_New(n_in));
  for (int i = 0; i < n_in; ++i) {
    PyList_SET_ITEM(inputs.get(), i, checked(wrap(Tensor::share(in[i]))).release());
  }
  const Ref result = checked(PyObject_CallFunction(recorder, "sOO", op, inputs.get(), attrs));
  return to_tensors(result.get(), "recorder", false);
}

PyObject* symbol_shape(PyObject* tensor) {
  const View& view = impl_of(tensor)->view;
  Ref list = checked(shape_list(view));
  for (int i = 0; i < view.rank && g_symbolic_dim != nullptr; ++i) {
    if (view.shape[i] != kUnknown) continue;
    PyObject* size = PyObject_CallFunction(g_symbolic_dim, "Oi", tensor, i);
    PyList_SetItem(list.get(), i, checked(size).release());
  }
  return list.release();
}

PyObject* symbolic_dim_type() { return g_symbolic_dim; }

bool is_symbolic_dim(PyObject* o) {
  return reinterpret_cast<PyObject*>(Py_TYPE(o)) == g_symbolic_dim;
}

View view_of_spec(PyObject* shape, PyObject* dtype) { return view_of(shape, dtype, "infer"); }

PyMethodDef symbol_functions[] = {
    {"symbol", symbol, METH_VARARGS, "symbol(shape, dtype, handle): a tensor without data."},
    {"set_recorder", set_recorder, METH_O,
     "set_recorder(fn): fn(op, inputs, attrs) serves ops on symbolic tensors; returns the last "
     "one."},
    {"bind_symbol", bind_symbol, METH_VARARGS,
     "bind_symbol(tensor, handle): makes it a symbol; what release_symbol makes of it again."},
    {"release_symbol", release_symbol, METH_VARARGS,
     "release_symbol(tensor, before, stop_gradient): makes a bound symbol the tensor it was."},
    {"rebind_symbol", rebind_symbol, METH_VARARGS,
     "rebind_symbol(tensor, symbol): makes a symbol represent the value of another."},
    {"begin_epoch", begin_epoch, METH_NOARGS,
     "begin_epoch(): tensors that this thread makes from now on have this number as _epoch, higher "
     "than that of any tensor so far."},
    {"set_binds_changes", set_binds_changes, METH_O,
     "set_binds_changes(on): in this thread the binder is called for any plain tensor that is "
     "about to change; returns what was set."},
    {"hold_no_grads", hold_no_grads, METH_O,
     "hold_no_grads(tensors): whether none of a list has a gradient with memory."},
    {"zero_grads", zero_grads, METH_O,
     "zero_grads(tensors): makes the gradients of a list cleared ones: zeros without memory."},
    {"set_symbolic_dim", set_symbolic_dim, METH_O,
     "set_symbolic_dim(fn): fn(tensor, axis) makes the symbolic dimensions of symbols."},
    {"set_await_recording", set_await_recording, METH_O,
     "set_await_recording(fn): fn() waits until no other thread records; whether one did. Called "
     "by a thread that does not record and meets a symbolic tensor."},
    {"set_binder", set_binder, METH_VARARGS,
     "set_binder(fn, all): fn(tensor) is called before a plain tensor changes by symbols; with "
     "`all` this thread's random ops and ops on what takes a gradient are recorded too."},
    {"set_static_recorder", set_static_recorder, METH_VARARGS,
     "set_static_recorder(record, bind): threads that record nothing else call record(op, inputs, "
     "attrs) for ops on symbolic tensors and ops without arrays, and bind(tensor) before symbols "
     "change a plain tensor. None and None end this."},
    {"set_builds_here", set_builds_here, METH_O,
     "set_builds_here(on): whether this thread's ops without arrays go to the static recorder; "
     "returns what was set."},
    {"builds_program", builds_program_here, METH_NOARGS,
     "Whether this thread's ops without arrays go to the static recorder."},
    {"is_recording", is_recording, METH_NOARGS,
     "Whether this thread records a program with all that it does."},
    {"infer", infer_op, METH_VARARGS, "infer(op, inputs, attrs) -> [(shape, dtype)]."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace proa::bind
