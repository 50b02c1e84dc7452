// `_core.ops`: one fast-call function for each op and in-place form, all served by one parser over
// the generated argument tables.
#include <cstring>

#include "python.h"

namespace proa::bind {

namespace {

constexpr int kMaxArgs = 24;
constexpr size_t kMaxAttrBytes = 1024;

struct Binding {
  const OpEntry* entry;
  const HostOp* host;
  bool inplace;
  std::string name;
  std::string doc;
  PyMethodDef method;
  PyObject* names[kMaxArgs];  // interned, in the order of host->args
};

// What an operator's function is bound to: a module, as far as Python can see, so that the function
// has its own name as its qualified name and is pickled by it. The binding follows the module's own
// fields, which CPython does not declare.
PyTypeObject* home_type = nullptr;

const Binding*& bound_to(PyObject* home) {
  return *reinterpret_cast<const Binding**>(reinterpret_cast<char*>(home) +
                                            PyModule_Type.tp_basicsize);
}

bool init_home_type() {
  static PyType_Slot slots[] = {{0, nullptr}};
  static PyType_Spec spec = {"proa._core.OperatorHome", 0, 0, Py_TPFLAGS_DEFAULT, slots};
  spec.basicsize = static_cast<int>(PyModule_Type.tp_basicsize + sizeof(void*));
  PyObject* base = reinterpret_cast<PyObject*>(&PyModule_Type);
  home_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpecWithBases(&spec, base));
  return home_type != nullptr;
}

// The Python values of a call by argument, and the arrays of a variadic one.
struct Parsed {
  PyObject* values[kMaxArgs] = {};
  PyObject* const* arrays = nullptr;  // variadic
  Py_ssize_t array_count = 0;
  Ref sequence;
};

bool is_variadic(const Binding& b) {
  return b.host->array_count == 1 && b.host->args[0].kind == 'V';
}

// Paddle's signatures end with `name`, which callers give by position too; it has no effect.
bool is_name(PyObject* value) { return value == Py_None || PyUnicode_Check(value); }

void take_positional(const Binding& b, PyObject* const* args, Py_ssize_t count, Parsed* p) {
  if (!is_variadic(b)) {
    if (count == b.host->arg_count + 1 && is_name(args[count - 1])) --count;
    if (count > b.host->arg_count) {
      raise_type("[" + b.name + "] expected at most " + std::to_string(b.host->arg_count) +
                 " arguments, got " + std::to_string(count));
    }
    for (Py_ssize_t i = 0; i < count; ++i) p->values[i] = args[i];
    return;
  }
  if (count == 0) return;
  if (PyList_Check(args[0]) || PyTuple_Check(args[0])) {
    p->sequence = checked(PySequence_Fast(args[0], ""));
    p->arrays = PySequence_Fast_ITEMS(p->sequence.get());
    p->array_count = PySequence_Fast_GET_SIZE(p->sequence.get());
    for (Py_ssize_t i = 1; i < count && i < b.host->arg_count; ++i) p->values[i] = args[i];
    return;
  }
  p->arrays = args;
  p->array_count = count;
}

// The argument of that name, or -1. Names in source code are interned, as ours are.
int index_of(const Binding& b, PyObject* name) {
  for (int i = 0; i < b.host->arg_count; ++i) {
    if (b.names[i] == name) return i;
  }
  for (int i = 0; i < b.host->arg_count; ++i) {
    if (PyUnicode_Compare(b.names[i], name) == 0) return i;
  }
  return -1;
}

void take_keyword(const Binding& b, PyObject* name, PyObject* value, Parsed* p) {
  const int i = index_of(b, name);
  if (i >= 0) {
    if (b.host->args[i].kind == 'V') return take_positional(b, &value, 1, p);
    if (p->values[i] != nullptr) {
      raise_type("[" + b.name + "] " + b.host->args[i].name + " is given twice");
    }
    p->values[i] = value;
    return;
  }
  if (PyUnicode_CompareWithASCIIString(name, "name") == 0) return;
  std::string known;
  for (int i = 0; i < b.host->arg_count; ++i) {
    known += std::string(i > 0 ? ", " : "") + b.host->args[i].name;
  }
  const char* text = PyUnicode_AsUTF8(name);
  raise_type("[" + b.name + "] arguments must be among (" + known + "), got '" +
             (text != nullptr ? text : "?") + "'");
}

void read_attributes(const Binding& b, const Parsed& p, unsigned char* attrs) {
  const OpInfo& op = *b.entry->info;
  if (op.attr_size > 0) std::memcpy(attrs, op.attr_defaults, op.attr_size);
  for (int i = b.host->array_count; i < b.host->arg_count; ++i) {
    const ArgSpec& spec = b.host->args[i];
    if (p.values[i] != nullptr) {
      parse_attribute(b.name.c_str(), spec, p.values[i], attrs);
    } else if (spec.required) {
      raise_type("[" + b.name + "] " + spec.name + " is missing");
    }
  }
}

void run(const Binding& b, TensorImpl* const* in, int count, const void* attrs, Tensor* out) {
  if (b.inplace) {
    dispatch_inplace(*b.entry, in, count, attrs, out);
  } else {
    dispatch(*b.entry, in, count, attrs, out);
  }
}

// Converts and runs; `held` keeps converted arrays alive.
PyObject* invoke(const Binding& b, const Parsed& p) {
  const OpInfo& op = *b.entry->info;
  alignas(16) unsigned char attrs[kMaxAttrBytes];
  read_attributes(b, p, attrs);
  constexpr int kOnStack = 8;
  const bool variadic = is_variadic(b);
  const int count = variadic ? static_cast<int>(p.array_count) : b.host->array_count;
  TensorImpl* stack_in[kOnStack];
  Tensor stack_held[kOnStack];
  std::vector<TensorImpl*> many_in(count > kOnStack ? static_cast<size_t>(count) : 0);
  std::vector<Tensor> many_held(count > kOnStack ? static_cast<size_t>(count) : 0);
  TensorImpl** in = count > kOnStack ? many_in.data() : stack_in;
  Tensor* held = count > kOnStack ? many_held.data() : stack_held;
  for (int i = 0; i < count; ++i) {
    PyObject* value = variadic ? p.arrays[i] : p.values[i];
    const ArgSpec& spec = b.host->args[variadic ? 0 : i];
    if (value == nullptr || value == Py_None) {
      if (spec.kind != 't') {
        raise_type("[" + b.name + "] " + spec.name + " must be a Tensor, array or number, got " +
                   (value == nullptr ? "nothing" : "None"));
      }
      in[i] = nullptr;
      continue;
    }
    if (Py_TYPE(value) == tensor_type) {
      in[i] = impl_of(value);  // the caller's reference keeps it
    } else {
      held[i] = to_tensor(value, b.name.c_str(), spec.name);
      in[i] = held[i].get();
    }
  }
  Tensor out[kMaxOutputs];
  run(b, in, count, attrs, out);
  if (op.n_out == 1) return wrap(std::move(out[0]));
  Ref tuple = checked(PyTuple_New(op.n_out));
  for (int i = 0; i < op.n_out; ++i) {
    PyTuple_SET_ITEM(tuple.get(), i, checked(wrap(std::move(out[i]))).release());
  }
  return tuple.release();
}

PyObject* call_op(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* keywords) {
  return guarded([&]() -> PyObject* {
    const Binding& b = *bound_to(self);
    Parsed parsed;
    take_positional(b, args, count, &parsed);
    if (keywords != nullptr) {
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(keywords); ++i) {
        take_keyword(b, PyTuple_GET_ITEM(keywords, i), args[count + i], &parsed);
      }
    }
    return invoke(b, parsed);
  });
}

// A list of tensors, one for each call, or a tensor for all of them.
class Column {
 public:
  Column(const Binding& b, PyObject* given) : one_(is_tensor(given)) {
    // A copy: the list may change while other threads run.
    tuple_ = checked(one_ ? PyTuple_Pack(1, given) : PySequence_Tuple(given));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple_.get()); ++i) {
      PyObject* item = PyTuple_GET_ITEM(tuple_.get(), i);
      if (is_tensor(item)) continue;
      raise_type("[each] " + b.name + " takes Tensors, got " + Py_TYPE(item)->tp_name);
    }
  }
  bool one() const { return one_; }
  Py_ssize_t size() const { return PyTuple_GET_SIZE(tuple_.get()); }
  TensorImpl* at(Py_ssize_t i) const {
    return impl_of(PyTuple_GET_ITEM(tuple_.get(), one_ ? 0 : i));
  }

 private:
  bool one_;
  Ref tuple_;
};

const Binding& binding_of(PyObject* function) {
  PyObject* self = PyCFunction_Check(function) ? PyCFunction_GET_SELF(function) : nullptr;
  if (self == nullptr || Py_TYPE(self) != home_type) {
    raise_type(std::string("[each] the first argument must be an operator of _core.ops, got ") +
               Py_TYPE(function)->tp_name);
  }
  return *bound_to(self);
}

// The number of calls: the length of every column that is a list.
Py_ssize_t length_of(const Binding& b, const std::vector<Column>& columns) {
  Py_ssize_t length = -1;
  for (const Column& column : columns) {
    if (column.one()) continue;
    if (length >= 0 && column.size() != length) {
      raise_type("[each] lists for " + b.name + " must have one length, got " +
                 std::to_string(length) + " and " + std::to_string(column.size()));
    }
    length = column.size();
  }
  return length < 0 ? 1 : length;
}

PyObject* call_each(PyObject*, PyObject* const* args, Py_ssize_t count, PyObject* keywords) {
  return guarded([&]() -> PyObject* {
    if (count < 1) raise_type("[each] expected an operator");
    const Binding& b = binding_of(args[0]);
    if (!b.inplace && b.entry->info->n_out != 1) {
      raise_type("[each] " + b.name + " must have one output");
    }
    if (is_variadic(b) || count - 1 != b.host->array_count) {
      raise_type("[each] " + b.name + " takes a list for each of its " +
                 std::to_string(b.host->array_count) + " arrays, got " + std::to_string(count - 1));
    }
    Parsed parsed;
    for (Py_ssize_t i = 0; keywords != nullptr && i < PyTuple_GET_SIZE(keywords); ++i) {
      take_keyword(b, PyTuple_GET_ITEM(keywords, i), args[count + i], &parsed);
    }
    alignas(16) unsigned char attrs[kMaxAttrBytes];
    read_attributes(b, parsed, attrs);
    std::vector<Column> columns;
    for (Py_ssize_t i = 1; i < count; ++i) columns.emplace_back(b, args[i]);
    const Py_ssize_t length = length_of(b, columns);
    Ref results = checked(PyList_New(b.inplace ? 0 : length));
    TensorImpl* in[kMaxArgs];
    for (Py_ssize_t r = 0; r < length; ++r) {
      for (size_t k = 0; k < columns.size(); ++k) in[k] = columns[k].at(r);
      Tensor out[kMaxOutputs];
      run(b, in, static_cast<int>(columns.size()), attrs, out);
      if (b.inplace) continue;
      PyList_SET_ITEM(results.get(), r, checked(wrap(std::move(out[0]))).release());
    }
    return results.release();
  });
}

PyMethodDef each_method = {
    "each", fast(call_each), METH_FASTCALL | METH_KEYWORDS,
    "Call an operator once for every row of lists of tensors (a tensor alone serves all rows)."};

bool add(PyObject* module, const OpEntry& entry, bool inplace, const std::string& name) {
  auto* b = new Binding();  // lives as long as the process
  b->entry = &entry;
  b->host = &kHostOps[entry.info->id];
  b->inplace = inplace;
  b->name = name;
  if (b->host->arg_count > kMaxArgs || entry.info->attr_size > kMaxAttrBytes) {
    PyErr_Format(PyExc_SystemError, "op %s has too many arguments", name.c_str());
    return false;
  }
  for (int i = 0; i < b->host->arg_count; ++i) {
    b->names[i] = PyUnicode_InternFromString(b->host->args[i].name);
    if (b->names[i] == nullptr) return false;
  }
  // The doc begins with the parameters, as inspect.signature reads them.
  b->doc = name + b->host->doc;
  if (inplace) b->doc += "\n\nIn place.";
  b->method = {b->name.c_str(), fast(call_op), METH_FASTCALL | METH_KEYWORDS, b->doc.c_str()};
  const Ref path(PyUnicode_InternFromString("proa._core.ops"));
  const Ref home(path ? PyObject_CallOneArg(reinterpret_cast<PyObject*>(home_type), path.get())
                      : nullptr);
  if (!home) return false;
  bound_to(home.get()) = b;
  const Ref function(PyCFunction_NewEx(&b->method, home.get(), path.get()));
  return function && PyObject_SetAttrString(module, name.c_str(), function.get()) == 0;
}

}  // namespace

bool init_ops(PyObject* core) {
  const Ref module(PyModule_New("proa._core.ops"));
  if (!module || !init_home_type()) return false;
  for (int i = 0; i < op_entry_count(); ++i) {
    const OpEntry& entry = op_entries()[i];
    const HostOp& host = kHostOps[i];
    const std::string name = entry.info->name;
    if (!add(module.get(), entry, entry.info->mutates, name)) return false;
    if (host.has_inplace && !add(module.get(), entry, true, name + "_")) return false;
  }
  const Ref each(PyCFunction_New(&each_method, nullptr));
  if (!each || PyObject_SetAttrString(core, "each", each.get()) < 0) return false;
  PyObject* modules = PyImport_GetModuleDict();
  if (PyDict_SetItemString(modules, "proa._core.ops", module.get()) < 0) return false;
  return PyObject_SetAttrString(core, "ops", module.get()) == 0;
}

}  // namespace proa::bind
