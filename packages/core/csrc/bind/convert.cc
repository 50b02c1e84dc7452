// Python values to tensors, dtypes and attributes, and back.
#include <cstring>

#include "python.h"

namespace proa::bind {

namespace {

PyObject* g_dtypes[kDTypeCount] = {};

std::string type_name(PyObject* o) { return std::string("'") + Py_TYPE(o)->tp_name + "'"; }

[[noreturn]] void bad_attribute(const char* op, const ArgSpec& spec, const char* must,
                                PyObject* value) {
  PyErr_Clear();
  raise_type(std::string("[") + op + "] " + spec.name + " must be " + must + ", got " +
             type_name(value));
}

bool to_int(PyObject* o, int64_t* value) {
  if (PyLong_Check(o)) {
    int overflow = 0;
    *value = PyLong_AsLongLongAndOverflow(o, &overflow);
    if (overflow != 0) *value = overflow > 0 ? INT64_MAX : INT64_MIN;
    return true;
  }
  const Ref index(PyNumber_Index(o));
  if (!index) return false;
  return to_int(index.get(), value);
}

bool to_float(PyObject* o, double* value) {
  if (PyUnicode_Check(o) || PyBytes_Check(o)) return false;
  *value = PyFloat_AsDouble(o);
  return !(*value == -1.0 && PyErr_Occurred());
}

bool to_scalar(PyObject* o, Scalar* value) {
  if (PyFloat_Check(o)) {
    value->is_int = 0;
    value->f = PyFloat_AS_DOUBLE(o);
    return true;
  }
  int64_t i = 0;
  if (PyLong_Check(o)) {
    to_int(o, &i);
    value->is_int = 1;
    value->i = i;
    return true;
  }
  const Ref index(PyNumber_Index(o));
  if (index) return to_scalar(index.get(), value);
  PyErr_Clear();
  double f = 0;
  if (!to_float(o, &f)) return false;
  value->is_int = 0;
  value->f = f;
  return true;
}

void parse_ints(const char* op, const ArgSpec& spec, PyObject* value, Ints* ints) {
  int64_t single = 0;
  if (value == Py_None) {
    if (spec.required) bad_attribute(op, spec, "a list of ints", value);
    ints->count = -1;
    return;
  }
  if (PyLong_Check(value)) {
    to_int(value, &single);
    ints->count = 1;
    ints->v[0] = single;
    return;
  }
  Ref list;
  if (is_tensor(value)) list = checked(PyObject_CallMethod(value, "tolist", nullptr));
  PyObject* source = list ? list.get() : value;
  if (PyLong_Check(source)) return parse_ints(op, spec, source, ints);
  const Ref items(PyUnicode_Check(source) ? nullptr : PySequence_Fast(source, ""));
  if (!items) bad_attribute(op, spec, "a list of ints", value);
  const Py_ssize_t count = PySequence_Fast_GET_SIZE(items.get());
  if (count > kMaxRank) {
    throw Error(ErrorKind::kInvalidArgument, std::string("[") + op + "] " + spec.name +
                                                 " must have at most " + std::to_string(kMaxRank) +
                                                 " elements, got " + std::to_string(count));
  }
  *ints = Ints();
  ints->count = count;
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (!to_int(PySequence_Fast_GET_ITEM(items.get(), i), &ints->v[i])) {
      bad_attribute(op, spec, "a list of ints", PySequence_Fast_GET_ITEM(items.get(), i));
    }
  }
}

void parse_choice(const char* op, const ArgSpec& spec, PyObject* value, int64_t* slot) {
  const char* text = PyUnicode_Check(value) ? PyUnicode_AsUTF8(value) : nullptr;
  std::string names;
  for (int i = 0; spec.choices[i] != nullptr; ++i) {
    if (text != nullptr && std::strcmp(text, spec.choices[i]) == 0) {
      *slot = i;
      return;
    }
    names += std::string(i > 0 ? ", '" : "'") + spec.choices[i] + "'";
  }
  if (text == nullptr) bad_attribute(op, spec, ("one of " + names).c_str(), value);
  throw Error(ErrorKind::kInvalidArgument, std::string("[") + op + "] " + spec.name +
                                               " must be one of " + names + ", got '" + text + "'");
}

void refuse_symbolic_dim(const char* op, const ArgSpec& spec, PyObject* value) {
  if (!is_symbolic_dim(value)) return;
  throw Error(ErrorKind::kUnimplemented,
              std::string("[") + op + "] " + spec.name +
                  " must be known, got a symbolic dimension: give its size in InputSpec");
}

}  // namespace

void parse_attribute(const char* op, const ArgSpec& spec, PyObject* value, void* attrs) {
  void* at = static_cast<char*>(attrs) + spec.offset;
  switch (spec.kind) {
    case 'i':
      if (!to_int(value, static_cast<int64_t*>(at))) bad_attribute(op, spec, "an int", value);
      return;
    case 'f':
      refuse_symbolic_dim(op, spec, value);
      if (!to_float(value, static_cast<double*>(at))) bad_attribute(op, spec, "a float", value);
      return;
    case 'b': {
      const bool number = PyBool_Check(value) || PyIndex_Check(value);
      const bool numpy_bool = std::strncmp(Py_TYPE(value)->tp_name, "numpy.bool", 10) == 0;
      if (!number && !numpy_bool) bad_attribute(op, spec, "a bool", value);
      const int truth = PyObject_IsTrue(value);
      if (truth < 0) throw PythonError();
      *static_cast<int64_t*>(at) = truth;
      return;
    }
    case 'I':
      return parse_ints(op, spec, value, static_cast<Ints*>(at));
    case 's':
      refuse_symbolic_dim(op, spec, value);
      if (!to_scalar(value, static_cast<Scalar*>(at))) bad_attribute(op, spec, "a number", value);
      return;
    case 'd': {
      DType dtype;
      if (!parse_dtype(value, &dtype)) bad_attribute(op, spec, "a dtype", value);
      *static_cast<int64_t*>(at) = static_cast<int64_t>(dtype);
      return;
    }
    default:
      return parse_choice(op, spec, value, static_cast<int64_t*>(at));
  }
}

namespace {

PyObject* attribute_value(const ArgSpec& spec, const void* attrs) {
  const void* at = static_cast<const char*>(attrs) + spec.offset;
  const int64_t i = *static_cast<const int64_t*>(at);
  switch (spec.kind) {
    case 'i':
      return PyLong_FromLongLong(i);
    case 'f':
      return PyFloat_FromDouble(*static_cast<const double*>(at));
    case 'b':
      return PyBool_FromLong(i != 0);
    case 'd':
      return PyUnicode_FromString(name_of(static_cast<DType>(i)));
    case 'c':
      return PyUnicode_FromString(spec.choices[i]);
    case 's': {
      const Scalar& s = *static_cast<const Scalar*>(at);
      return s.is_int ? PyLong_FromLongLong(s.i) : PyFloat_FromDouble(s.f);
    }
    default:
      break;
  }
  const Ints& ints = *static_cast<const Ints*>(at);
  if (ints.count < 0) Py_RETURN_NONE;
  Ref list = checked(PyList_New(ints.count));
  for (int k = 0; k < ints.count; ++k) {
    PyList_SET_ITEM(list.get(), k, PyLong_FromLongLong(ints.v[k]));
  }
  return list.release();
}

}  // namespace

Ref attribute_dict(const OpInfo& op, const void* attrs) {
  Ref dict = checked(PyDict_New());
  const HostOp& host = kHostOps[op.id];
  for (int i = host.array_count; i < host.arg_count; ++i) {
    const Ref value = checked(attribute_value(host.args[i], attrs));
    if (PyDict_SetItemString(dict.get(), host.args[i].name, value.get()) < 0) throw PythonError();
  }
  return dict;
}

const OpEntry& entry_named(const char* name) {
  const OpEntry* entry = find_entry(name);
  if (entry == nullptr) {
    throw Error(ErrorKind::kInvalidArgument,
                std::string("[ops] expected the name of an operator, got '") + name + "'");
  }
  return *entry;
}

// -- dtypes -----------------------------------------------------------------------------------

PyObject* set_dtypes(PyObject*, PyObject* list) {
  return guarded([&]() -> PyObject* {
    const Ref items = checked(PySequence_Fast(list, "a sequence of dtypes"));
    if (PySequence_Fast_GET_SIZE(items.get()) != kDTypeCount) raise_type("[set_dtypes] 12 dtypes");
    for (int i = 0; i < kDTypeCount; ++i) {
      PyObject* dtype = PySequence_Fast_GET_ITEM(items.get(), i);
      Py_INCREF(dtype);
      Py_XSETREF(g_dtypes[i], dtype);
    }
    Py_RETURN_NONE;
  });
}

PyObject* dtype_object(DType dtype) {
  PyObject* object = g_dtypes[static_cast<int>(dtype)];
  if (object == nullptr) {
    throw Error(ErrorKind::kFatal, "[dtype] proa.base.dtype must be imported first");
  }
  return object;
}

namespace {

bool parse_dtype_name(const char* text, DType* dtype) {
  for (const char* dot = std::strchr(text, '.'); dot != nullptr; dot = std::strchr(text, '.')) {
    text = dot + 1;  // paddle.float32, proa.float32
  }
  for (int i = 0; i < kDTypeCount; ++i) {
    if (std::strcmp(text, name_of(static_cast<DType>(i))) != 0) continue;
    *dtype = static_cast<DType>(i);
    return true;
  }
  return false;
}

}  // namespace

bool parse_dtype(PyObject* o, DType* dtype) {
  for (int i = 0; i < kDTypeCount; ++i) {
    if (o != g_dtypes[i]) continue;
    *dtype = static_cast<DType>(i);
    return true;
  }
  if (PyUnicode_Check(o)) return parse_dtype_name(PyUnicode_AsUTF8(o), dtype);
  const PyObject* const kinds[] = {
      reinterpret_cast<PyObject*>(&PyBool_Type), reinterpret_cast<PyObject*>(&PyLong_Type),
      reinterpret_cast<PyObject*>(&PyFloat_Type), reinterpret_cast<PyObject*>(&PyComplex_Type)};
  const DType theirs[] = {DType::kBool, DType::kI64, default_dtype(),
                          default_dtype() == DType::kF64 ? DType::kC128 : DType::kC64};
  for (int i = 0; i < 4; ++i) {
    if (o != kinds[i]) continue;
    *dtype = theirs[i];
    return true;
  }
  for (const char* attribute : {"name", "__name__"}) {  // np.dtype('float32'), np.float32
    const Ref name(PyObject_GetAttrString(o, attribute));
    if (name && PyUnicode_Check(name.get())) {
      return parse_dtype_name(PyUnicode_AsUTF8(name.get()), dtype);
    }
    PyErr_Clear();
  }
  return false;
}

// -- tensors ----------------------------------------------------------------------------------

namespace {

// The symbolic dimensions that `SymbolicDim` returned for unknown sizes.
Tensor symbolic_number(PyObject* expression) {
  const Ref number = checked(expression);
  return Tensor::share(impl_of(number.get()));
}

bool has_symbolic_dim(PyObject* o) {
  const Ref items(PySequence_Fast(o, ""));
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i) {
    if (is_symbolic_dim(PySequence_Fast_GET_ITEM(items.get(), i))) return true;
  }
  return false;
}

}  // namespace

Tensor to_operand(PyObject* o) {
  if (is_tensor(o)) return Tensor::share(impl_of(o));
  if (PyFloat_Check(o)) return weak(PyFloat_AS_DOUBLE(o));
  if (PyBool_Check(o)) return weak(o == Py_True);
  if (PyLong_Check(o)) {
    if (is_symbolic_dim(o)) return symbolic_number(PyObject_CallMethod(o, "number", nullptr));
    int64_t value = 0;
    to_int(o, &value);
    return weak(value);
  }
  if (PyComplex_Check(o)) {
    return weak_complex(PyComplex_RealAsDouble(o), PyComplex_ImagAsDouble(o));
  }
  if (is_array(o)) return from_numpy(o, false);
  return {};
}

namespace {

// The start of repr(o).
std::string shortened(PyObject* o) {
  constexpr size_t kShown = 80;
  const Ref text(PyObject_Repr(o));
  const char* bytes = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
  if (bytes == nullptr) {
    PyErr_Clear();
    return type_name(o);
  }
  const std::string whole = bytes;
  return whole.size() <= kShown ? whole : whole.substr(0, kShown) + " ..";
}

// numpy.asarray of a list, a tuple or what has __array__. NumPy's error becomes one that names the
// operator and its array.
Tensor from_array_like(PyObject* o, const char* where, const char* name) {
  const Ref numpy = checked(PyImport_ImportModule("numpy"));
  const Ref array(PyObject_CallMethod(numpy.get(), "asarray", "(O)", o));
  try {
    if (array) return from_numpy(array.get(), false);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kType) throw;
  }
  if (!array && !PyErr_ExceptionMatches(PyExc_ValueError) &&
      !PyErr_ExceptionMatches(PyExc_TypeError) && !PyErr_ExceptionMatches(PyExc_OverflowError)) {
    throw PythonError();
  }
  PyErr_Clear();
  throw Error(ErrorKind::kInvalidArgument,
              std::string("[") + where + "] expected " + name +
                  " to be a Tensor, an array or regularly nested numbers, got " + shortened(o));
}

// A list of numbers is an array of the default dtype if it holds floats.
Tensor from_list(PyObject* o, const char* where, const char* name) {
  if (has_symbolic_dim(o)) {
    PyObject* const type = symbolic_dim_type();
    return symbolic_number(PyObject_CallMethod(type, "stacked", "(O)", o));
  }
  Tensor x = from_array_like(o, where, name);
  if (x.dtype() == DType::kF64 && default_dtype() != DType::kF64) {
    const GradMode off(false);
    Tensor narrow;
    View layout = x.view();
    layout.dtype = default_dtype();
    layout.set_contiguous();
    narrow = empty_as(layout);
    return x->view.numel() == 0 ? narrow : [&] {
      TensorImpl* in = x.get();
      int64_t attrs = static_cast<int64_t>(default_dtype());
      Tensor out;
      dispatch(entry_named("cast"), &in, 1, &attrs, &out);
      return out;
    }();
  }
  return x;
}

}  // namespace

Tensor to_tensor(PyObject* o, const char* where, const char* name) {
  Tensor x = to_operand(o);
  if (x) return x;
  if (PyList_Check(o) || PyTuple_Check(o)) return from_list(o, where, name);
  if (PyObject_HasAttrString(o, "__array__")) return from_array_like(o, where, name);
  raise_type(std::string("[") + where + "] " + name + " must be a Tensor, array or number, got " +
             type_name(o));
}

std::vector<Tensor> to_tensors(PyObject* o, const char* where, bool admit_none) {
  std::vector<Tensor> list;
  if (is_tensor(o)) {
    list.push_back(Tensor::share(impl_of(o)));
    return list;
  }
  const Ref items(PySequence_Fast(o, ""));
  if (!items) {
    PyErr_Clear();
    raise_type(std::string("[") + where + "] expected a Tensor or a list of Tensors, got " +
               type_name(o));
  }
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(items.get(), i);
    if (item == Py_None && admit_none) {
      list.emplace_back();
      continue;
    }
    if (!is_tensor(item)) {
      raise_type(std::string("[") + where + "] expected a list of Tensors, got one with " +
                 type_name(item));
    }
    list.push_back(Tensor::share(impl_of(item)));
  }
  return list;
}

PyObject* shape_list(const View& view) {
  Ref list = checked(PyList_New(view.rank));
  for (int i = 0; i < view.rank; ++i) {
    PyList_SET_ITEM(list.get(), i, PyLong_FromLongLong(view.shape[i]));
  }
  return list.release();
}

}  // namespace proa::bind
