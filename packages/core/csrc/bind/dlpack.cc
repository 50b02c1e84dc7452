// DLPack: tensors given to, and taken from, other libraries without copying (dmlc/dlpack). The
// structures are laid out as that specification says: those of version 0, and those of version 1,
// which state their version and whether the memory may be written.
#include "proa/gen/ops.h"
#include "proa/train/row_sparse.h"
#include "python.h"

namespace proa::bind {

namespace {

struct DLDevice {
  int32_t type;  // 1: CPU
  int32_t id;
};
struct DLDataType {
  uint8_t code, bits;
  uint16_t lanes;
};
struct DLTensor {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
};
struct DLManagedTensor {
  DLTensor tensor;
  void* context;
  void (*deleter)(DLManagedTensor*);
};

struct DLPackVersion {
  uint32_t major, minor;
};
struct DLManagedTensorVersioned {
  DLPackVersion version;
  void* context;
  void (*deleter)(DLManagedTensorVersioned*);
  uint64_t flags;
  DLTensor tensor;
};
constexpr uint64_t kReadOnly = 1, kCopied = 2;
constexpr uint32_t kMajor = 1, kMinor = 0;

const char* capsule_name(const DLManagedTensor*) { return "dltensor"; }
const char* capsule_name(const DLManagedTensorVersioned*) { return "dltensor_versioned"; }
const char* used_name(const DLManagedTensor*) { return "used_dltensor"; }
const char* used_name(const DLManagedTensorVersioned*) { return "used_dltensor_versioned"; }

enum Code : uint8_t { kInt = 0, kUInt = 1, kFloat = 2, kBfloat = 4, kComplex = 5, kBool = 6 };

DLDataType code_of(DType dtype) {
  const auto bits = static_cast<uint8_t>(size_of(dtype) * 8);
  if (dtype == DType::kBool) return {kBool, 8, 1};
  if (dtype == DType::kU8) return {kUInt, 8, 1};
  if (dtype == DType::kBF16) return {kBfloat, 16, 1};
  if (is_integer(dtype)) return {kInt, bits, 1};
  return {is_complex(dtype) ? kComplex : kFloat, bits, 1};
}

DType dtype_of(DLDataType code) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const DLDataType own = code_of(static_cast<DType>(i));
    if (own.code == code.code && own.bits == code.bits && code.lanes == 1) {
      return static_cast<DType>(i);
    }
  }
  throw Error(ErrorKind::kInvalidArgument,
              "[from_dlpack] expected an element type of tensors, got code " +
                  std::to_string(code.code) + " of " + std::to_string(code.bits) + " bits");
}

template <class Managed>
struct Exported {
  Managed managed;
  int64_t shape[kMaxRank], strides[kMaxRank];
  Storage* storage;
};

template <class Managed>
void delete_exported(Managed* managed) {
  auto* exported = static_cast<Exported<Managed>*>(managed->context);
  exported->storage->drop();
  delete exported;
}

// Not taken by anybody: the name would have been changed.
template <class Managed>
void drop_capsule(PyObject* capsule) {
  const char* name = capsule_name(static_cast<Managed*>(nullptr));
  if (!PyCapsule_IsValid(capsule, name)) return;
  auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
  managed->deleter(managed);
}

void state_version(DLManagedTensor*, bool) {}
void state_version(DLManagedTensorVersioned* managed, bool copied) {
  managed->version = {kMajor, kMinor};
  managed->flags = copied ? kCopied : 0;
}

template <class Managed>
PyObject* exported_capsule(const TensorImpl* x, bool copied) {
  auto* exported = new Exported<Managed>();
  const View& v = x->view;
  for (int i = 0; i < v.rank; ++i) {
    exported->shape[i] = v.shape[i];
    exported->strides[i] = v.stride[i];
  }
  exported->storage = x->storage;
  x->storage->retain();
  Managed& managed = exported->managed;
  managed.tensor = {v.data, {1, 0}, v.rank, code_of(v.dtype), exported->shape, exported->strides,
                    0};
  managed.context = exported;
  managed.deleter = delete_exported<Managed>;
  state_version(&managed, copied);
  PyObject* capsule = PyCapsule_New(&managed, capsule_name(&managed), drop_capsule<Managed>);
  if (capsule == nullptr) delete_exported(&managed);
  return capsule;
}

// Whether a consumer that reads up to this version (None: one of before version 1) reads ours.
bool reads_versioned(PyObject* version) {
  if (version == Py_None) return false;
  int major = 0, minor = 0;
  if (!PyTuple_Check(version) || !PyArg_ParseTuple(version, "ii", &major, &minor)) {
    PyErr_Clear();
    raise_type("[__dlpack__] expected max_version to be a tuple of two ints, or None");
  }
  return major >= static_cast<int>(kMajor);
}

void require_host(PyObject* device) {
  if (device == Py_None) return;
  long kind = 0, id = 0;
  if (!PyTuple_Check(device) || !PyArg_ParseTuple(device, "ll", &kind, &id)) {
    PyErr_Clear();
    raise_type("[__dlpack__] expected dl_device to be a tuple of two ints, or None");
  }
  if (kind != 1 || id != 0) {
    raise_exchange("[__dlpack__] expected dl_device=(1, 0), the host's memory, got (" +
                   std::to_string(kind) + ", " + std::to_string(id) + ")");
  }
}

PyObject* to_dlpack(PyObject* self, PyObject* args, PyObject* keywords) {
  static const char* names[] = {"stream", "max_version", "dl_device", "copy", nullptr};
  PyObject *stream = Py_None, *version = Py_None, *device = Py_None, *copy = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "|$OOOO:__dlpack__", const_cast<char**>(names),
                                   &stream, &version, &device, &copy)) {
    return nullptr;
  }
  return guarded([&] {
    if (stream != Py_None) raise_exchange("[__dlpack__] expected stream=None for host memory");
    require_host(device);
    const bool versioned = reads_versioned(version);
    const GradMode off(false);
    Tensor x = dense(Tensor::share(impl_of(self)));
    if (copy == Py_True && x->storage != nullptr) x = ops::assign(x);
    if (x->storage == nullptr) {
      throw Error(ErrorKind::kPreconditionNotMet,
                  "[__dlpack__] expected a tensor with its own memory, got one without");
    }
    return versioned ? exported_capsule<DLManagedTensorVersioned>(x.get(), copy == Py_True)
                     : exported_capsule<DLManagedTensor>(x.get(), false);
  });
}

PyObject* device(PyObject*, PyObject*) { return Py_BuildValue("(ii)", 1, 0); }

void require_readable(const DLManagedTensor&) {}
void require_readable(const DLManagedTensorVersioned& managed) {
  if (managed.version.major != kMajor) {
    raise_exchange("[from_dlpack] expected DLPack version " + std::to_string(kMajor) + ", got " +
                   std::to_string(managed.version.major));
  }
  if ((managed.flags & kReadOnly) != 0) {
    raise_exchange("[from_dlpack] expected memory that may be written, got read-only memory");
  }
}

template <class Managed>
void drop_borrowed(void* context) {
  const PyGILState_STATE state = PyGILState_Ensure();
  auto* held = static_cast<Managed*>(context);
  if (held->deleter != nullptr) held->deleter(held);
  PyGILState_Release(state);
}

View view_of(const DLTensor& t) {
  if (t.device.type != 1 || t.ndim > kMaxRank) {
    throw Error(
        ErrorKind::kInvalidArgument,
        "[from_dlpack] the array must be in host memory and have at most 8 axes, got device " +
            std::to_string(t.device.type) + ", " + std::to_string(t.ndim) + " axes");
  }
  View view;
  view.dtype = dtype_of(t.dtype);
  view.rank = static_cast<int8_t>(t.ndim);
  for (int i = 0; i < t.ndim; ++i) view.shape[i] = t.shape[i];
  view.set_contiguous();
  for (int i = 0; i < t.ndim && t.strides != nullptr; ++i) view.stride[i] = t.strides[i];
  view.data = static_cast<char*>(t.data) + t.byte_offset;
  return view;
}

template <class Managed>
PyObject* taken(PyObject* capsule) {
  const char* name = capsule_name(static_cast<Managed*>(nullptr));
  auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
  if (managed == nullptr) throw PythonError();
  require_readable(*managed);
  const View view = view_of(managed->tensor);
  PyCapsule_SetName(capsule, used_name(managed));
  const auto bytes = static_cast<size_t>(view.numel()) * size_of(view.dtype);
  return wrap(on_storage(Storage::borrow(view.data, bytes, drop_borrowed<Managed>, managed), view));
}

PyObject* from_dlpack(PyObject*, PyObject* source) {
  return guarded([&] {
    Ref capsule;
    if (PyCapsule_CheckExact(source)) {
      Py_INCREF(source);
      capsule = Ref(source);
    } else {
      capsule = checked(PyObject_CallMethod(source, "__dlpack__", nullptr));
    }
    const bool versioned = PyCapsule_IsValid(capsule.get(), "dltensor_versioned") != 0;
    return versioned ? taken<DLManagedTensorVersioned>(capsule.get())
                     : taken<DLManagedTensor>(capsule.get());
  });
}

}  // namespace

PyMethodDef dlpack_methods[] = {
    {"__dlpack__", fast(to_dlpack), METH_VARARGS | METH_KEYWORDS, nullptr},
    {"__dlpack_device__", device, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};

PyMethodDef dlpack_functions[] = {
    {"from_dlpack", from_dlpack, METH_O, "A tensor on the memory of another library's array."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace proa::bind
