// NumPy arrays and tensors on one memory. The only file that uses NumPy's C API.
#include "python.h"

#define NPY_NO_DEPRECATED_API NPY_1_23_API_VERSION
#define NPY_TARGET_VERSION NPY_1_23_API_VERSION
#include <numpy/arrayobject.h>

#include <cstring>

namespace proa::bind {

namespace {

// By DType; bfloat16 travels as uint16.
constexpr int kNumpyTypes[kDTypeCount] = {NPY_BOOL,    NPY_UINT8,   NPY_INT8,      NPY_INT16,
                                          NPY_INT32,   NPY_INT64,   NPY_FLOAT16,   NPY_UINT16,
                                          NPY_FLOAT32, NPY_FLOAT64, NPY_COMPLEX64, NPY_COMPLEX128};

bool dtype_of(int type, DType* dtype) {
  if (type == NPY_LONGLONG) type = NPY_INT64;
  for (int i = 0; i < kDTypeCount; ++i) {
    if (kNumpyTypes[i] != type || i == static_cast<int>(DType::kBF16)) continue;
    *dtype = static_cast<DType>(i);
    return true;
  }
  return false;
}

void drop_object(void* object) {
  if (!Py_IsInitialized()) return;
  const PyGILState_STATE state = PyGILState_Ensure();
  Py_DECREF(static_cast<PyObject*>(object));
  PyGILState_Release(state);
}

void drop_storage(PyObject* capsule) {
  static_cast<Storage*>(PyCapsule_GetPointer(capsule, nullptr))->drop();
}

bool shareable(PyArrayObject* array, size_t item) {
  if (!PyArray_ISBEHAVED(array)) return false;  // aligned, writeable, native byte order
  for (int i = 0; i < PyArray_NDIM(array); ++i) {
    if (PyArray_STRIDE(array, i) % static_cast<npy_intp>(item) != 0) return false;
  }
  return true;
}

}  // namespace

bool init_numpy() {
  import_array1(false);
  return true;
}

bool is_array(PyObject* o) { return PyArray_Check(o) || PyArray_IsScalar(o, Generic); }

Tensor from_numpy(PyObject* object, bool copy) {
  Ref held;
  if (PyArray_IsScalar(object, Generic)) {
    held = checked(PyArray_FromScalar(object, nullptr));
  } else {
    Py_INCREF(object);
    held = Ref(object);
  }
  auto* array = reinterpret_cast<PyArrayObject*>(held.get());
  DType dtype;
  if (!dtype_of(PyArray_TYPE(array), &dtype)) {
    const Ref text(PyObject_Str(reinterpret_cast<PyObject*>(PyArray_DESCR(array))));
    const char* name = text ? PyUnicode_AsUTF8(text.get()) : "?";
    raise_type(std::string("[from_numpy] expected a dtype of tensors, got ") + name);
  }
  if (PyArray_NDIM(array) > kMaxRank) {
    throw Error(ErrorKind::kInvalidArgument,
                "[from_numpy] the array must have at most 8 axes, got " +
                    std::to_string(PyArray_NDIM(array)));
  }
  if (copy || !shareable(array, size_of(dtype))) {
    int64_t shape[kMaxRank] = {};
    for (int i = 0; i < PyArray_NDIM(array); ++i) shape[i] = PyArray_DIM(array, i);
    Tensor x = empty(dtype, shape, PyArray_NDIM(array));
    const auto bytes = static_cast<size_t>(PyArray_NBYTES(array));
    if (bytes == 0) return x;
    if (PyArray_ISCARRAY_RO(array)) {
      std::memcpy(x->view.data, PyArray_DATA(array), bytes);
      return x;
    }
    PyArray_Descr* native = PyArray_DescrFromType(kNumpyTypes[static_cast<int>(dtype)]);
    constexpr int kFlags = NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED | NPY_ARRAY_WRITEABLE |
                           NPY_ARRAY_ENSURECOPY | NPY_ARRAY_ENSUREARRAY;
    const Ref fresh = checked(PyArray_FromArray(array, native, kFlags));
    auto* source = reinterpret_cast<PyArrayObject*>(fresh.get());
    std::memcpy(x->view.data, PyArray_DATA(source), bytes);
    return x;
  }
  View view;
  view.dtype = dtype;
  view.rank = static_cast<int8_t>(PyArray_NDIM(array));
  view.data = PyArray_DATA(array);
  for (int i = 0; i < view.rank; ++i) {
    view.shape[i] = PyArray_DIM(array, i);
    view.stride[i] = PyArray_STRIDE(array, i) / static_cast<npy_intp>(size_of(dtype));
  }
  const auto bytes = static_cast<size_t>(PyArray_NBYTES(array));
  Storage* storage = Storage::borrow(view.data, bytes, drop_object, held.release());
  return on_storage(storage, view);
}

PyObject* to_numpy(const Tensor& given) {
  const Tensor x = dense(given);
  require_value(x.get(), "numpy");
  const View& v = x.view();
  npy_intp shape[kMaxRank], strides[kMaxRank];
  for (int i = 0; i < v.rank; ++i) {
    shape[i] = v.shape[i];
    strides[i] = v.stride[i] * static_cast<npy_intp>(size_of(v.dtype));
  }
  PyArray_Descr* descr = PyArray_DescrFromType(kNumpyTypes[static_cast<int>(v.dtype)]);
  if (x->storage == nullptr) {
    Ref array = checked(
        PyArray_NewFromDescr(&PyArray_Type, descr, v.rank, shape, nullptr, nullptr, 0, nullptr));
    std::memcpy(PyArray_DATA(reinterpret_cast<PyArrayObject*>(array.get())), v.data,
                size_of(v.dtype));
    return array.release();
  }
  Ref array = checked(PyArray_NewFromDescr(&PyArray_Type, descr, v.rank, shape, strides, v.data,
                                           NPY_ARRAY_WRITEABLE, nullptr));
  x->storage->retain();
  PyObject* capsule = PyCapsule_New(x->storage, nullptr, drop_storage);
  if (capsule == nullptr) {
    x->storage->drop();
    throw PythonError();
  }
  auto* result = reinterpret_cast<PyArrayObject*>(array.get());
  if (PyArray_SetBaseObject(result, capsule) < 0) throw PythonError();
  PyArray_UpdateFlags(result, NPY_ARRAY_ALIGNED | NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_F_CONTIGUOUS);
  return array.release();
}

}  // namespace proa::bind
