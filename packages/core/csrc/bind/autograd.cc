// backward, grad, hooks and the nodes of PyLayer.
#include "backward.h"
#include "python.h"

namespace proa::bind {

namespace {

class PythonHook final : public GradHook {
 public:
  explicit PythonHook(PyObject* function) : function_(keep(function)) {}
  Tensor call(const Tensor& grad) override {
    const Ref argument = checked(wrap(grad));
    const Ref result =
        checked(PyObject_CallOneArg(static_cast<PyObject*>(function_.get()), argument.get()));
    if (result.get() == Py_None) return {};
    if (!is_tensor(result.get())) raise_type("[hook] expected a Tensor or None to be returned");
    return Tensor::share(impl_of(result.get()));
  }

 private:
  std::shared_ptr<void> function_;
};

// The backward of a PyLayer: calls function(*grads).
class PythonBackward final : public CustomBackward {
 public:
  PythonBackward(std::string name, PyObject* function, size_t inputs, bool zeros, bool once)
      : name_(std::move(name)),
        function_(keep(function)),
        inputs_(inputs),
        zeros_(zeros),
        once_(once) {}
  bool wants_zeros() const override { return zeros_; }
  void free_saved() override {
    if (once_) function_ = nullptr;
  }
  const char* name() const override { return name_.c_str(); }
  void run(std::vector<Tensor>& grads, std::vector<Tensor>* result) override {
    if (function_ == nullptr) raise_freed(name_);
    const Ref args = checked(PyTuple_New(static_cast<Py_ssize_t>(grads.size())));
    for (size_t i = 0; i < grads.size(); ++i) {
      PyTuple_SET_ITEM(args.get(), static_cast<Py_ssize_t>(i), checked(wrap(grads[i])).release());
    }
    const Ref out =
        checked(PyObject_CallObject(static_cast<PyObject*>(function_.get()), args.get()));
    if (out.get() == Py_None && inputs_ != 1) {
      result->assign(inputs_, Tensor());
      return;
    }
    if (out.get() == Py_None || is_tensor(out.get())) {
      result->assign(1, out.get() == Py_None ? Tensor() : Tensor::share(impl_of(out.get())));
    } else {
      *result = to_tensors(out.get(), name_.c_str(), true);
    }
    if (result->size() != inputs_) {
      throw Error(ErrorKind::kInvalidArgument,
                  "[" + name_ + "] backward must return one gradient for each tensor input, " +
                      std::to_string(inputs_) + ", got " + std::to_string(result->size()));
    }
  }

 private:
  std::string name_;
  std::shared_ptr<void> function_;
  size_t inputs_;
  bool zeros_, once_;
};

PyObject* py_retains_graph(PyObject*, PyObject*) { return PyBool_FromLong(retains_graph()); }

PyObject* py_backward(PyObject*, PyObject* args) {
  PyObject *tensors, *grads = Py_None;
  int retain = 0, create = 0;
  if (!PyArg_ParseTuple(args, "O|Opp", &tensors, &grads, &retain, &create)) return nullptr;
  return guarded([&]() -> PyObject* {
    const auto roots = to_tensors(tensors, "backward", false);
    std::vector<Tensor> seeds;
    if (grads != Py_None) seeds = to_tensors(grads, "backward", true);
    if (!seeds.empty() && seeds.size() != roots.size()) {
      throw Error(ErrorKind::kInvalidArgument,
                  "[backward] expected as many gradients as tensors, got " +
                      std::to_string(seeds.size()) + " for " + std::to_string(roots.size()));
    }
    backward_from(roots, seeds, {retain != 0, create != 0});
    Py_RETURN_NONE;
  });
}

// grad(outputs, inputs, grad_outputs, retain_graph, create_graph, only_inputs, allow_unused,
// no_grad_vars)
PyObject* py_grad(PyObject*, PyObject* args) {
  PyObject *outputs, *inputs, *seeds = Py_None, *no_grad = Py_None;
  int retain = 0, create = 0, only = 1, unused = 0;
  if (!PyArg_ParseTuple(args, "OO|OppppO", &outputs, &inputs, &seeds, &retain, &create, &only,
                        &unused, &no_grad)) {
    return nullptr;
  }
  return guarded([&]() -> PyObject* {
    GradOptions options;
    options.retain_graph = retain != 0;
    options.create_graph = create != 0;
    options.only_inputs = only != 0;
    options.allow_unused = unused != 0;
    if (no_grad != Py_None) options.no_grad = to_tensors(no_grad, "grad", false);
    std::vector<Tensor> given;
    if (seeds != Py_None) given = to_tensors(seeds, "grad", true);
    auto result =
        grad(to_tensors(outputs, "grad", false), to_tensors(inputs, "grad", false), given, options);
    Ref list = checked(PyList_New(static_cast<Py_ssize_t>(result.size())));
    for (size_t i = 0; i < result.size(); ++i) {
      PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i),
                      checked(wrap(std::move(result[i]))).release());
    }
    return list.release();
  });
}

int64_t g_next_hook = 1;

PyObject* py_add_hook(PyObject*, PyObject* args) {
  PyObject *tensor, *function;
  if (!PyArg_ParseTuple(args, "OO", &tensor, &function)) return nullptr;
  return guarded([&]() -> PyObject* {
    if (!is_tensor(tensor) || !PyCallable_Check(function)) {
      raise_type("[register_hook] expected a Tensor and a function");
    }
    TensorImpl& x = *impl_of(tensor);
    if (!x.requires_grad()) {
      throw Error(ErrorKind::kPreconditionNotMet,
                  "[register_hook] the tensor must take a gradient, got stop_gradient=True");
    }
    auto hook = std::make_shared<PythonHook>(function);
    hook->id = g_next_hook++;
    const int64_t id = hook->id;
    if (x.leaf()) {
      x.extra().hooks.push_back(std::move(hook));
    } else {
      x.grad_fn->add_hook(x.output, std::move(hook));
    }
    return PyLong_FromLongLong(id);
  });
}

PyObject* py_remove_hook(PyObject*, PyObject* args) {
  PyObject* tensor;
  long long id;
  if (!PyArg_ParseTuple(args, "OL", &tensor, &id)) return nullptr;
  if (!is_tensor(tensor)) Py_RETURN_FALSE;
  TensorImpl& x = *impl_of(tensor);
  if (x.extras != nullptr) {
    auto& hooks = x.extras->hooks;
    for (size_t i = 0; i < hooks.size(); ++i) {
      if (hooks[i]->id != id) continue;
      hooks.erase(hooks.begin() + static_cast<std::ptrdiff_t>(i));
      Py_RETURN_TRUE;
    }
  }
  if (x.grad_fn != nullptr && x.grad_fn->hooks() != nullptr) {
    auto& hooks = *x.grad_fn->hooks();
    for (size_t i = 0; i < hooks.size(); ++i) {
      if (hooks[i].hook->id != id) continue;
      hooks.erase(hooks.begin() + static_cast<std::ptrdiff_t>(i));
      Py_RETURN_TRUE;
    }
  }
  Py_RETURN_FALSE;
}

// record_custom(name, inputs, outputs, backward, zeros=True, once=False): outputs become those of a
// node over the inputs. `zeros`: outputs without gradient get zeros, else None. With `once` the
// function is released after a backward that does not retain the graph.
PyObject* py_record_custom(PyObject*, PyObject* args) {
  const char* name;
  PyObject *inputs, *outputs, *function;
  int zeros = 1, once = 0;
  if (!PyArg_ParseTuple(args, "sOOO|pp", &name, &inputs, &outputs, &function, &zeros, &once)) {
    return nullptr;
  }
  return guarded([&]() -> PyObject* {
    const auto in = to_tensors(inputs, name, false);
    const auto out = to_tensors(outputs, name, false);
    auto custom =
        std::make_unique<PythonBackward>(name, function, in.size(), zeros != 0, once != 0);
    Node* node = Node::create_custom(std::move(custom), static_cast<int>(in.size()),
                                     static_cast<int>(out.size()));
    for (size_t i = 0; i < in.size(); ++i) node->connect(static_cast<int>(i), in[i].get());
    for (size_t i = 0; i < out.size(); ++i) node->adopt(static_cast<int>(i), out[i].get());
    node->drop();
    Py_RETURN_NONE;
  });
}

// A table of the gradient's height: given itself, or by its height alone.
Tensor table_like(PyObject* given) {
  if (!PyLong_Check(given)) return to_tensor(given, "row_sparse", "like");
  Tensor like = Tensor::take(TensorImpl::create());
  like->view.rank = 1;
  like->view.shape[0] = PyLong_AsLongLong(given);
  if (PyErr_Occurred()) throw PythonError();
  return like;
}

// row_sparse(rows, values, like): a gradient of a table like that which is zero but for some rows.
PyObject* py_row_sparse(PyObject*, PyObject* args) {
  PyObject *rows, *values, *like;
  if (!PyArg_ParseTuple(args, "OOO", &rows, &values, &like)) return nullptr;
  return guarded([&] {
    return wrap(row_sparse(to_tensor(rows, "row_sparse", "rows"),
                           to_tensor(values, "row_sparse", "values"), table_like(like)));
  });
}
// (rows, values) of a row-sparse tensor, None of any other.
PyObject* py_row_sparse_parts(PyObject*, PyObject* x) {
  return guarded([&]() -> PyObject* {
    if (!is_tensor(x)) raise_type("[row_sparse_parts] expected a Tensor");
    if (!is_row_sparse(impl_of(x))) Py_RETURN_NONE;
    const Ref rows = checked(wrap(impl_of(x)->extras->rows));
    const Ref values = checked(wrap(impl_of(x)->extras->values));
    return PyTuple_Pack(2, rows.get(), values.get());
  });
}

}  // namespace

void backward_from(std::vector<Tensor> roots, std::vector<Tensor> seeds, BackwardOptions options) {
  size_t count = 0;
  for (size_t i = 0; i < roots.size(); ++i) {
    if (roots[i]->requires_grad()) {
      if (!seeds.empty()) seeds[count] = seeds[i];
      roots[count++] = roots[i];
      continue;
    }
    const char* text = "[backward] the tensor has stop_gradient=True: no gradient is computed";
    if (PyErr_WarnEx(PyExc_UserWarning, text, 1) < 0) throw PythonError();
  }
  roots.resize(count);
  if (!seeds.empty()) seeds.resize(count);
  if (count != 0) backward(roots, seeds, options);
}

PyMethodDef autograd_functions[] = {{"backward", py_backward, METH_VARARGS, nullptr},
                                    {"retains_graph", py_retains_graph, METH_NOARGS, nullptr},
                                    {"grad", py_grad, METH_VARARGS, nullptr},
                                    {"add_hook", py_add_hook, METH_VARARGS, nullptr},
                                    {"remove_hook", py_remove_hook, METH_VARARGS, nullptr},
                                    {"record_custom", py_record_custom, METH_VARARGS, nullptr},
                                    {"row_sparse", py_row_sparse, METH_VARARGS, nullptr},
                                    {"row_sparse_parts", py_row_sparse_parts, METH_O, nullptr},
                                    {nullptr, nullptr, 0, nullptr}};

}  // namespace proa::bind
