// DLPack: tensors given to, and taken from, other libraries without copying (dmlc/dlpack, version
// 0.x structures). The structures are laid out as that specification says.
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

struct Exported {
  DLManagedTensor managed;
  int64_t shape[kMaxRank], strides[kMaxRank];
  Storage* storage;
};

void delete_exported(DLManagedTensor* managed) {
  auto* exported = static_cast<Exported*>(managed->context);
  exported->storage->drop();
  delete exported;
}

// Not taken by anybody: the name would have been changed.
void drop_capsule(PyObject* capsule) {
  if (!PyCapsule_IsValid(capsule, "dltensor")) return;
  auto* managed = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule, "dltensor"));
  managed->deleter(managed);
}

PyObject* to_dlpack(PyObject* self, PyObject*, PyObject*) {
  return guarded([&] {
    TensorImpl* x = impl_of(self);
    if (x->storage == nullptr) {
      throw Error(ErrorKind::kPreconditionNotMet,
                  "[__dlpack__] expected a tensor with its own memory, got one without");
    }
    auto* exported = new Exported();
    const View& v = x->view;
    for (int i = 0; i < v.rank; ++i) {
      exported->shape[i] = v.shape[i];
      exported->strides[i] = v.stride[i];
    }
    exported->storage = x->storage;
    x->storage->retain();
    exported->managed = {
        {v.data, {1, 0}, v.rank, code_of(v.dtype), exported->shape, exported->strides, 0},
        exported,
        delete_exported};
    PyObject* capsule = PyCapsule_New(&exported->managed, "dltensor", drop_capsule);
    if (capsule == nullptr) delete_exported(&exported->managed);
    return capsule;
  });
}

PyObject* device(PyObject*, PyObject*) { return Py_BuildValue("(ii)", 1, 0); }

PyObject* from_dlpack(PyObject*, PyObject* source) {
  return guarded([&] {
    Ref capsule;
    if (PyCapsule_CheckExact(source)) {
      Py_INCREF(source);
      capsule = Ref(source);
    } else {
      capsule = checked(PyObject_CallMethod(source, "__dlpack__", nullptr));
    }
    auto* managed = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule.get(), "dltensor"));
    if (managed == nullptr) throw PythonError();
    const DLTensor& t = managed->tensor;
    if (t.device.type != 1 || t.ndim > kMaxRank) {
      throw Error(ErrorKind::kInvalidArgument,
                  "[from_dlpack] the array must be in host memory and have at most 8 axes, got "
                  "device " +
                      std::to_string(t.device.type) + ", " + std::to_string(t.ndim) + " axes");
    }
    View view;
    view.dtype = dtype_of(t.dtype);
    view.rank = static_cast<int8_t>(t.ndim);
    for (int i = 0; i < t.ndim; ++i) view.shape[i] = t.shape[i];
    view.set_contiguous();
    for (int i = 0; i < t.ndim && t.strides != nullptr; ++i) view.stride[i] = t.strides[i];
    view.data = static_cast<char*>(t.data) + t.byte_offset;
    PyCapsule_SetName(capsule.get(), "used_dltensor");
    const auto drop = [](void* context) {
      const PyGILState_STATE state = PyGILState_Ensure();
      auto* held = static_cast<DLManagedTensor*>(context);
      if (held->deleter != nullptr) held->deleter(held);
      PyGILState_Release(state);
    };
    const auto bytes = static_cast<size_t>(view.numel()) * size_of(view.dtype);
    return wrap(on_storage(Storage::borrow(view.data, bytes, drop, managed), view));
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
