// Operators whose kernel is a Python function: how a plan calls back into the process.
#include <cstring>

#include "proa/runtime/extension.h"
#include "proa/train/run.h"
#include "python.h"

namespace proa::bind {

namespace {

constexpr const char* kInputs[] = {"X@VECTOR"};
constexpr const char* kAttributes[] = {"key: int64_t"};

// What `own` of the operator points to. It lives as long as the process.
struct PythonOperator {
  ProaOperator abi = {};
  std::string name;
  std::vector<std::string> outputs;
  std::vector<const char*> output_names;
  PyObject* function = nullptr;
};

class WithLock {
 public:
  WithLock() : state_(PyGILState_Ensure()) {}
  ~WithLock() { PyGILState_Release(state_); }
  WithLock(const WithLock&) = delete;
  WithLock& operator=(const WithLock&) = delete;

 private:
  PyGILState_STATE state_;
};

std::string take_python_message() {
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
  PyErr_Fetch(&type, &value, &trace);
  const Ref held_type(type), held_value(value), held_trace(trace);
  const Ref text(value == nullptr ? nullptr : PyObject_Str(value));
  const char* message = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
  PyErr_Clear();
  return message == nullptr ? "[operator] a Python function raised an error" : message;
}

View view_of(const ProaTensor& t) {
  View view;
  std::memcpy(static_cast<void*>(&view), &t.view, sizeof view);
  return view;
}

// The function may keep what it is given, while a plan uses its memory again.
PyObject* copied(const View& view) {
  const size_t bytes = static_cast<size_t>(view.numel()) * size_of(view.dtype);
  const Tensor from = on_storage(Storage::borrow(view.data, bytes, [](void*) {}, nullptr), view);
  Tensor to = empty_as(view);
  copy_into(to->view, from.get());
  return wrap(std::move(to));
}

PyObject* described(const View& view) {
  return Py_BuildValue("(NO)", shape_list(view), dtype_object(view.dtype));
}

ProaTensor result_spec(PyObject* pair) {
  PyObject *shape, *dtype;
  if (!PyArg_ParseTuple(pair, "OO", &shape, &dtype)) throw PythonError();
  const View view = view_of_spec(shape, dtype);
  ProaTensor t = {};
  std::memcpy(&t.view, &view, sizeof view);
  return t;
}

void call(const PythonOperator& op, const ProaArguments& a) {
  int64_t key = 0;  // after the kind and count of the only attribute
  std::memcpy(&key, a.attributes + 8, sizeof key);
  Ref inputs = checked(PyList_New(static_cast<Py_ssize_t>(a.counts[0])));
  for (int64_t i = 0; i < a.counts[0]; ++i) {
    const View view = view_of(a.tensors[i]);
    PyObject* input = a.infers != 0 ? described(view) : copied(view);
    PyList_SET_ITEM(inputs.get(), static_cast<Py_ssize_t>(i), checked(input).release());
  }
  PyObject* infers = a.infers != 0 ? Py_True : Py_False;
  const Ref results = checked(
      PyObject_CallFunction(op.function, "LOO", static_cast<long long>(key), inputs.get(), infers));
  const Ref items =
      checked(PySequence_Fast(results.get(), "[operator] expected a list to be returned"));
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(items.get(), i);
    if (a.infers != 0) {
      const ProaTensor t = result_spec(item);
      extension_host().result(a.sink, &t);
      continue;
    }
    const Tensor x = to_tensor(item, op.name.c_str(), "a result");
    if (x->has(TensorImpl::kSymbolic)) {
      raise_type("[" + op.name + "] a result must have elements, got a symbolic tensor");
    }
    const Tensor whole = contiguous(x.get());
    ProaTensor t = {};
    std::memcpy(&t.view, &whole->view, sizeof t.view);
    t.memory = whole->storage;
    extension_host().result(a.sink, &t);
  }
}

int call_python(const ProaOperator* self, const ProaArguments* arguments) {
  const WithLock lock;
  try {
    call(*static_cast<const PythonOperator*>(self->own), *arguments);
    return 0;
  } catch (const PythonError&) {
    extension_host().fail(arguments->sink, take_python_message().c_str());
  } catch (const std::exception& error) {
    extension_host().fail(arguments->sink, error.what());
  }
  return 1;
}

}  // namespace

const ExtensionOp* define_python_operator(const char* name, int outputs, PyObject* function) {
  auto created = std::make_unique<PythonOperator>();
  created->name = name;
  for (int i = 0; i < outputs; ++i) created->outputs.push_back("Y" + std::to_string(i));
  for (const std::string& output : created->outputs)
    created->output_names.push_back(output.c_str());
  created->function = function;
  ProaOperator& abi = created->abi;
  abi.name = created->name.c_str();
  abi.inputs = kInputs;
  abi.input_count = 1;
  abi.outputs = created->output_names.data();
  abi.output_count = outputs;
  abi.attributes = kAttributes;
  abi.attribute_count = 1;
  abi.run = abi.infer = call_python;
  abi.own = created.get();
  const ExtensionOp* op = register_operator(abi);
  Py_INCREF(function);
  created.release();  // for ever; NOLINT(bugprone-unused-return-value)
  return op;
}

}  // namespace proa::bind
