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

void take_positional(const Binding& b, PyObject* const* args, Py_ssize_t count, Parsed* p) {
  if (!is_variadic(b)) {
    if (count > b.host->arg_count) {
      raise_type("[" + b.name + "] at most " + std::to_string(b.host->arg_count) +
                 " arguments must be given, got " + std::to_string(count));
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

void take_keyword(const Binding& b, PyObject* name, PyObject* value, Parsed* p) {
  for (int i = 0; i < b.host->arg_count; ++i) {
    if (b.names[i] != name && PyUnicode_Compare(b.names[i], name) != 0) continue;
    if (b.host->args[i].kind == 'V') return take_positional(b, &value, 1, p);
    if (p->values[i] != nullptr) {
      raise_type("[" + b.name + "] " + b.host->args[i].name + " must be given once, got it twice");
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

// Converts and runs; `held` keeps converted arrays alive.
PyObject* invoke(const Binding& b, const Parsed& p) {
  const OpInfo& op = *b.entry->info;
  alignas(16) unsigned char attrs[kMaxAttrBytes];
  if (op.attr_size > 0) std::memcpy(attrs, op.attr_defaults, op.attr_size);
  for (int i = b.host->array_count; i < b.host->arg_count; ++i) {
    const ArgSpec& spec = b.host->args[i];
    if (p.values[i] != nullptr) {
      parse_attribute(b.name.c_str(), spec, p.values[i], attrs);
    } else if (spec.required) {
      raise_type("[" + b.name + "] " + spec.name + " must be given");
    }
  }
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
  if (b.inplace) {
    dispatch_inplace(*b.entry, in, count, attrs, out);
  } else {
    dispatch(*b.entry, in, count, attrs, out);
  }
  if (op.n_out == 1) return wrap(std::move(out[0]));
  Ref tuple = checked(PyTuple_New(op.n_out));
  for (int i = 0; i < op.n_out; ++i) {
    PyTuple_SET_ITEM(tuple.get(), i, checked(wrap(std::move(out[i]))).release());
  }
  return tuple.release();
}

PyObject* call_op(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* keywords) {
  return guarded([&]() -> PyObject* {
    const auto& b = *static_cast<const Binding*>(PyCapsule_GetPointer(self, nullptr));
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
  std::string signature = name + "(";
  for (int i = 0; i < b->host->arg_count; ++i) {
    const ArgSpec& spec = b->host->args[i];
    b->names[i] = PyUnicode_InternFromString(spec.name);
    if (b->names[i] == nullptr) return false;
    signature += std::string(i > 0 ? ", " : "") + (spec.kind == 'V' ? "*" : "") + spec.name +
                 (spec.required ? "" : "=...");
  }
  b->doc = signature + ")\n\n" + b->host->doc;
  b->method = {b->name.c_str(), fast(call_op), METH_FASTCALL | METH_KEYWORDS, b->doc.c_str()};
  const Ref self(PyCapsule_New(b, nullptr, nullptr));
  const Ref function(self ? PyCFunction_NewEx(&b->method, self.get(), nullptr) : nullptr);
  return function && PyObject_SetAttrString(module, name.c_str(), function.get()) == 0;
}

}  // namespace

bool init_ops(PyObject* core) {
  const Ref module(PyModule_New("proa._core.ops"));
  if (!module) return false;
  for (int i = 0; i < op_entry_count(); ++i) {
    const OpEntry& entry = op_entries()[i];
    const HostOp& host = kHostOps[i];
    const std::string name = entry.info->name;
    if (!add(module.get(), entry, host.only_inplace, name)) return false;
    if (host.has_inplace && !host.only_inplace && !add(module.get(), entry, true, name + "_")) {
      return false;
    }
  }
  PyObject* modules = PyImport_GetModuleDict();
  if (PyDict_SetItemString(modules, "proa._core.ops", module.get()) < 0) return false;
  return PyObject_SetAttrString(core, "ops", module.get()) == 0;
}

}  // namespace proa::bind
