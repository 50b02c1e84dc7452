// Operators of extensions: loading them, and one Python function for each.
#include <cstring>

#include "proa/runtime/extension.h"
#include "proa/train/extension_op.h"
#include "python.h"

namespace proa::bind {

namespace {

// The keyword by which tensors come one after the other, as in a recorded graph.
constexpr const char* kCounts = "input_counts";

[[noreturn]] void wrong_value(const ExtensionOp& op, const ExtensionAttribute& a, PyObject* got) {
  PyErr_Clear();
  const Ref text(PyObject_Repr(got));
  raise_type("[" + op.name + "] " + a.name + " must be " +
             (a.list            ? "a " + a.type
              : a.type == "int" ? "an int"
                                : "a " + a.type) +
             ", got " + (text ? PyUnicode_AsUTF8(text.get()) : "?"));
}

bool take_one(const ExtensionAttribute& a, PyObject* value, ExtensionValue* into) {
  if (a.kind == PROA_ATTRIBUTE_TEXTS) {
    if (!PyUnicode_Check(value)) return false;
    Py_ssize_t length = 0;
    const char* text = PyUnicode_AsUTF8AndSize(value, &length);
    if (text == nullptr) return false;
    into->texts.emplace_back(text, static_cast<size_t>(length));
    return true;
  }
  if (a.kind == PROA_ATTRIBUTE_FLOATS) {
    const double number = PyFloat_AsDouble(value);
    if (PyErr_Occurred()) return false;
    into->floats.push_back(number);
    return true;
  }
  if (a.type == "bool" && !PyBool_Check(value)) return false;
  const Ref index(PyNumber_Index(value));
  if (!index) return false;
  into->ints.push_back(PyLong_AsLongLong(index.get()));
  return !PyErr_Occurred();
}

ExtensionValue value_of(const ExtensionOp& op, const ExtensionAttribute& a, PyObject* given) {
  ExtensionValue value;
  value.kind = a.kind;
  if (!a.list) {
    if (!take_one(a, given, &value)) wrong_value(op, a, given);
    return value;
  }
  const Ref items(PyUnicode_Check(given) ? nullptr : PySequence_Fast(given, ""));
  if (!items) wrong_value(op, a, given);
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i) {
    if (!take_one(a, PySequence_Fast_GET_ITEM(items.get(), i), &value)) wrong_value(op, a, given);
  }
  return value;
}

std::vector<ExtensionValue> values_of(const ExtensionOp& op, PyObject* attrs) {
  std::vector<ExtensionValue> values;
  for (const ExtensionAttribute& a : op.attributes) {
    PyObject* given = PyDict_GetItemString(attrs, a.name.c_str());
    if (given == nullptr) raise_type("[" + op.name + "] " + a.name + " is missing");
    values.push_back(value_of(op, a, given));
  }
  return values;
}

PyObject* one_object(const ExtensionAttribute& a, const ExtensionValue& v, size_t i) {
  if (a.kind == PROA_ATTRIBUTE_TEXTS) return PyUnicode_FromString(v.texts[i].c_str());
  if (a.kind == PROA_ATTRIBUTE_FLOATS) return PyFloat_FromDouble(v.floats[i]);
  return a.type == "bool" ? PyBool_FromLong(v.ints[i] != 0) : PyLong_FromLongLong(v.ints[i]);
}

PyObject* value_object(const ExtensionAttribute& a, const ExtensionValue& v) {
  if (!a.list) return one_object(a, v, 0);
  const size_t count = a.kind == PROA_ATTRIBUTE_TEXTS    ? v.texts.size()
                       : a.kind == PROA_ATTRIBUTE_FLOATS ? v.floats.size()
                                                         : v.ints.size();
  Ref list = checked(PyList_New(static_cast<Py_ssize_t>(count)));
  for (size_t i = 0; i < count; ++i) {
    PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), one_object(a, v, i));
  }
  return list.release();
}

// -- calls ------------------------------------------------------------------------------------

struct Parsed {
  std::vector<Tensor> tensors;
  std::vector<int64_t> counts;
  std::vector<ExtensionValue> values;
};

void take_input(const ExtensionOp& op, const ExtensionInput& input, PyObject* given, Parsed* p) {
  const size_t before = p->tensors.size();
  if (input.kind == ExtensionInput::kVector) {
    const Ref items(is_tensor(given) || given == Py_None ? nullptr : PySequence_Fast(given, ""));
    if (!items) {
      PyErr_Clear();
      raise_type("[" + op.name + "] " + input.name + " must be a list of Tensors, got " +
                 Py_TYPE(given)->tp_name);
    }
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i) {
      p->tensors.push_back(
          to_tensor(PySequence_Fast_GET_ITEM(items.get(), i), op.name.c_str(), input.name.c_str()));
    }
  } else if (given != Py_None) {
    p->tensors.push_back(to_tensor(given, op.name.c_str(), input.name.c_str()));
  } else if (input.kind == ExtensionInput::kOne) {
    raise_type("[" + op.name + "] " + input.name + " must be a Tensor, array or number, got None");
  }
  p->counts.push_back(static_cast<int64_t>(p->tensors.size() - before));
}

// Tensors one after the other, counts and attributes by keyword.
void parse_flat(const ExtensionOp& op, PyObject* const* args, Py_ssize_t count, PyObject* counts,
                PyObject* attrs, Parsed* p) {
  const Ref items = checked(PySequence_Fast(counts, "[extension] counts must be a sequence"));
  int64_t total = 0;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i) {
    p->counts.push_back(PyLong_AsLongLong(PySequence_Fast_GET_ITEM(items.get(), i)));
    if (PyErr_Occurred()) throw PythonError();
    total += p->counts.back();
  }
  if (p->counts.size() != op.inputs.size() || total != count) {
    throw Error(ErrorKind::kInvalidArgument,
                "[" + op.name + "] the counts of " + std::to_string(op.inputs.size()) +
                    " inputs must add up to the number of tensors, got " + std::to_string(count) +
                    " tensors");
  }
  for (Py_ssize_t i = 0; i < count; ++i) {
    p->tensors.push_back(to_tensor(args[i], op.name.c_str(), "input"));
  }
  p->values = values_of(op, attrs);
}

std::string signature(const ExtensionOp& op) {
  std::string text = op.name + "(";
  for (const ExtensionInput& input : op.inputs) {
    text += (text.back() == '(' ? "" : ", ") + input.name;
  }
  for (const ExtensionAttribute& a : op.attributes) {
    text += (text.back() == '(' ? "" : ", ") + a.name + ": " + a.type;
  }
  return text + ")";
}

// Inputs, then attributes, by position or name.
void parse_named(const ExtensionOp& op, PyObject* const* args, Py_ssize_t count, PyObject* keywords,
                 Parsed* p) {
  const size_t inputs = op.inputs.size();
  std::vector<PyObject*> given(inputs + op.attributes.size());
  if (static_cast<size_t>(count) > given.size()) {
    raise_type("[" + op.name + "] expected arguments of " + signature(op) + ", got " +
               std::to_string(count));
  }
  for (Py_ssize_t i = 0; i < count; ++i) given[static_cast<size_t>(i)] = args[i];
  PyObject *key, *value;
  for (Py_ssize_t at = 0; PyDict_Next(keywords, &at, &key, &value) != 0;) {
    size_t i = 0;
    for (; i < given.size(); ++i) {
      const std::string& name = i < inputs ? op.inputs[i].name : op.attributes[i - inputs].name;
      if (PyUnicode_CompareWithASCIIString(key, name.c_str()) == 0) break;
    }
    if (i == given.size() || given[i] != nullptr) {
      raise_type("[" + op.name + "] expected arguments of " + signature(op) + ", got " +
                 (i == given.size() ? "" : "twice ") + "'" + PyUnicode_AsUTF8(key) + "'");
    }
    given[i] = value;
  }
  for (size_t i = 0; i < inputs; ++i) {
    const bool optional = op.inputs[i].kind == ExtensionInput::kOptional;
    if (given[i] == nullptr && !optional) {
      raise_type("[" + op.name + "] " + op.inputs[i].name + " is missing");
    }
    take_input(op, op.inputs[i], given[i] == nullptr ? Py_None : given[i], p);
  }
  for (size_t i = 0; i < op.attributes.size(); ++i) {
    if (given[inputs + i] == nullptr) {
      raise_type("[" + op.name + "] " + op.attributes[i].name + " is missing");
    }
    p->values.push_back(value_of(op, op.attributes[i], given[inputs + i]));
  }
}

PyObject* call_extension_op(PyObject* self, PyObject* const* args, Py_ssize_t count,
                            PyObject* names) {
  return guarded([&]() -> PyObject* {
    const auto& op = *static_cast<const ExtensionOp*>(PyCapsule_GetPointer(self, nullptr));
    const Ref keywords = checked(PyDict_New());
    for (Py_ssize_t i = 0; names != nullptr && i < PyTuple_GET_SIZE(names); ++i) {
      if (PyDict_SetItem(keywords.get(), PyTuple_GET_ITEM(names, i), args[count + i]) < 0) {
        throw PythonError();
      }
    }
    Parsed p;
    PyObject* counts = PyDict_GetItemString(keywords.get(), kCounts);
    if (counts != nullptr) {
      parse_flat(op, args, count, counts, keywords.get(), &p);
    } else {
      parse_named(op, args, count, keywords.get(), &p);
    }
    std::vector<Tensor> outputs = call_operator(op, p.tensors, p.counts, p.values);
    if (outputs.size() == 1 && op.plannable) return wrap(std::move(outputs[0]));
    Ref list = checked(PyList_New(static_cast<Py_ssize_t>(outputs.size())));
    for (size_t i = 0; i < outputs.size(); ++i) {
      PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i),
                      checked(wrap(std::move(outputs[i]))).release());
    }
    return list.release();
  });
}

// -- recorded graphs --------------------------------------------------------------------------

std::vector<Tensor> record_extension(const ExtensionOp& op, const std::vector<Tensor>& inputs,
                                     const std::vector<int64_t>& counts,
                                     const std::vector<ExtensionValue>& values) {
  if (!op.plannable) {
    throw Error(ErrorKind::kUnimplemented,
                "[" + op.name +
                    "] an operator in a recorded graph must have a fixed number of "
                    "outputs, got a list");
  }
  const Ref dict = checked(PyDict_New());
  Ref list = checked(PyList_New(static_cast<Py_ssize_t>(counts.size())));
  for (size_t i = 0; i < counts.size(); ++i) {
    PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), PyLong_FromLongLong(counts[i]));
  }
  if (PyDict_SetItemString(dict.get(), kCounts, list.get()) < 0) throw PythonError();
  for (size_t i = 0; i < values.size(); ++i) {
    const Ref value = checked(value_object(op.attributes[i], values[i]));
    if (PyDict_SetItemString(dict.get(), op.attributes[i].name.c_str(), value.get()) < 0) {
      throw PythonError();
    }
  }
  std::vector<TensorImpl*> in;
  in.reserve(inputs.size());
  for (const Tensor& x : inputs) in.push_back(x.get());
  return call_recorder(op.name.c_str(), in.data(), static_cast<int>(in.size()), dict.get());
}

const ExtensionOp& extension_named(const char* name) {
  const ExtensionOp* op = find_extension_op(name);
  if (op == nullptr) {
    throw Error(ErrorKind::kUnavailable,
                std::string("[") + name + "] expected the operator's extension to be loaded first");
  }
  return *op;
}

std::vector<int64_t> counts_of(PyObject* attrs) {
  PyObject* given = PyDict_GetItemString(attrs, kCounts);
  if (given == nullptr) raise_type("[extension] input_counts is missing");
  const Ref items = checked(PySequence_Fast(given, "[extension] counts must be a sequence"));
  std::vector<int64_t> counts;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i) {
    counts.push_back(PyLong_AsLongLong(PySequence_Fast_GET_ITEM(items.get(), i)));
    if (PyErr_Occurred()) throw PythonError();
  }
  return counts;
}

// pack_extension(name, attrs): the bytes of the attribute struct.
PyObject* py_pack(PyObject*, PyObject* args) {
  const char* name;
  PyObject* attrs;
  if (!PyArg_ParseTuple(args, "sO!", &name, &PyDict_Type, &attrs)) return nullptr;
  return guarded([&]() -> PyObject* {
    const ExtensionOp& op = extension_named(name);
    const auto bytes = pack_struct(counts_of(attrs), pack_values(values_of(op, attrs)));
    if (bytes.size() > op.row.info.attr_size) {
      throw Error(ErrorKind::kInvalidArgument,
                  std::string("[") + name + "] attributes in a recorded graph must take at most " +
                      std::to_string(op.row.info.attr_size) + " bytes, got " +
                      std::to_string(bytes.size()));
    }
    return PyBytes_FromStringAndSize(reinterpret_cast<const char*>(bytes.data()),
                                     static_cast<Py_ssize_t>(bytes.size()));
  });
}

// infer_extension(name, inputs, attrs) -> [(shape, dtype)]: inputs are (shape, dtype) pairs.
PyObject* py_infer(PyObject*, PyObject* args) {
  const char* name;
  PyObject *inputs, *attrs;
  if (!PyArg_ParseTuple(args, "sOO!", &name, &inputs, &PyDict_Type, &attrs)) return nullptr;
  return guarded([&]() -> PyObject* {
    const ExtensionOp& op = extension_named(name);
    const Ref items = checked(PySequence_Fast(inputs, "[infer] inputs must be a sequence"));
    std::vector<ProaTensor> tensors;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i) {
      PyObject *shape, *dtype;
      if (!PyArg_ParseTuple(PySequence_Fast_GET_ITEM(items.get(), i), "OO", &shape, &dtype)) {
        throw PythonError();
      }
      const View view = view_of_spec(shape, dtype);
      ProaTensor t = {};
      std::memcpy(&t.view, &view, sizeof view);
      tensors.push_back(t);
    }
    const auto results = call_extension(op, tensors.data(), counts_of(attrs),
                                        pack_values(values_of(op, attrs)), true);
    Ref list = checked(PyList_New(0));
    for (const ProaTensor& t : results.tensors) {
      View view;
      std::memcpy(static_cast<void*>(&view), &t.view, sizeof view);
      const Ref pair = checked(Py_BuildValue("(NO)", shape_list(view), dtype_object(view.dtype)));
      if (PyList_Append(list.get(), pair.get()) < 0) throw PythonError();
    }
    return list.release();
  });
}

// -- loading ----------------------------------------------------------------------------------

PyObject* names_of(const std::vector<ExtensionInput>& from) {
  static constexpr const char* kKinds[] = {"one", "vector", "optional"};
  Ref list = checked(PyList_New(0));
  for (const ExtensionInput& x : from) {
    const Ref pair = checked(Py_BuildValue("(ss)", x.name.c_str(), kKinds[x.kind]));
    if (PyList_Append(list.get(), pair.get()) < 0) throw PythonError();
  }
  return list.release();
}

PyObject* function_of(const ExtensionOp& op) {
  auto* text = new std::string(signature(op) + "\n\nAn operator of an extension.");
  auto* method = new PyMethodDef{op.name.c_str(), fast(call_extension_op),
                                 METH_FASTCALL | METH_KEYWORDS, text->c_str()};  // for ever
  const Ref self = checked(PyCapsule_New(const_cast<ExtensionOp*>(&op), nullptr, nullptr));
  return PyCFunction_NewEx(method, self.get(), nullptr);
}

PyObject* describe(const ExtensionOp& op) {
  Ref attributes = checked(PyList_New(0));
  for (const ExtensionAttribute& a : op.attributes) {
    const Ref pair = checked(Py_BuildValue("(ss)", a.name.c_str(), a.type.c_str()));
    if (PyList_Append(attributes.get(), pair.get()) < 0) throw PythonError();
  }
  Ref inputs = checked(names_of(op.inputs)), outputs = checked(names_of(op.outputs));
  Ref function = checked(function_of(op));
  return Py_BuildValue("(sNNNN)", op.name.c_str(), inputs.release(), outputs.release(),
                       attributes.release(), function.release());
}

// load_extension(path) -> [(name, inputs, outputs, attributes, function)]
PyObject* py_load(PyObject*, PyObject* path) {
  const char* text = PyUnicode_AsUTF8(path);
  if (text == nullptr) return nullptr;
  return guarded([&]() -> PyObject* {
    Ref list = checked(PyList_New(0));
    for (const ExtensionOp* op : load_extension(text)) {
      const Ref item = checked(describe(*op));
      if (PyList_Append(list.get(), item.get()) < 0) throw PythonError();
    }
    return list.release();
  });
}

// define_operator(name, outputs, function) -> (name, inputs, outputs, attributes, function)
PyObject* py_define(PyObject*, PyObject* args) {
  const char* name;
  int outputs;
  PyObject* function;
  if (!PyArg_ParseTuple(args, "siO", &name, &outputs, &function)) return nullptr;
  return guarded(
      [&]() -> PyObject* { return describe(*define_python_operator(name, outputs, function)); });
}

}  // namespace

void init_extensions() { extension_recorder = record_extension; }

PyMethodDef extension_functions[] = {
    {"load_extension", py_load, METH_O,
     "load_extension(path) -> [(name, inputs, outputs, attributes, function)]"},
    {"define_operator", py_define, METH_VARARGS,
     "define_operator(name, outputs, function) -> (name, inputs, outputs, attributes, function)\n"
     "function(key, inputs, infers): Tensors to Tensors, or (shape, dtype) pairs to such pairs."},
    {"infer_extension", py_infer, METH_VARARGS, nullptr},
    {"pack_extension", py_pack, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace proa::bind
