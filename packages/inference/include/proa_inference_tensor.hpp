// Part of proa_inference.hpp: errors, and handles on inputs and outputs.
#ifndef PROA_INFERENCE_TENSOR_HPP_
#define PROA_INFERENCE_TENSOR_HPP_

#include <proa_inference.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

// NOLINTBEGIN(readability-identifier-naming): the names are Paddle Inference's.
namespace proa {
namespace inference {

enum class DataType {
  BOOL = PROA_BOOL,
  UINT8 = PROA_UINT8,
  INT8 = PROA_INT8,
  INT16 = PROA_INT16,
  INT32 = PROA_INT32,
  INT64 = PROA_INT64,
  FLOAT16 = PROA_FLOAT16,
  BFLOAT16 = PROA_BFLOAT16,
  FLOAT32 = PROA_FLOAT32,
  FLOAT64 = PROA_FLOAT64,
  COMPLEX64 = PROA_COMPLEX64,
  COMPLEX128 = PROA_COMPLEX128
};
enum class PlaceType { kUNK = -1, kCPU = 0, kGPU = 1, kXPU = 2 };
enum class PrecisionType { kFloat32 = 0, kInt8 = 1, kHalf = 2, kBf16 = 3 };

/// A failed call.
class Error : public std::runtime_error {
 public:
  Error(proa_status status, const std::string& what, const std::string& stack = std::string())
      : std::runtime_error(what), status_(status), stack_(stack) {}
  proa_status status() const { return status_; }
  /// The calls that led to it, one a line, the innermost first; empty after
  /// SetFlag("FLAGS_call_stack_level", "1").
  const std::string& stack() const { return stack_; }

 private:
  proa_status status_;
  std::string stack_;
};

namespace internal {

inline void check(proa_status status) {
  if (status != PROA_OK) throw Error(status, proa_last_error(), proa_last_error_stack());
}

[[noreturn]] inline void refuse(const char* name, const char* what) {
  throw Error(PROA_UNIMPLEMENTED, std::string("[Config::") + name +
                                      "] expected a predictor on the CPU, got a call for " + what);
}

template <proa_dtype kDtype>
using Dtype = std::integral_constant<proa_dtype, kDtype>;
template <class T>
struct TypeOf;
template <>
struct TypeOf<bool> : Dtype<PROA_BOOL> {};
template <>
struct TypeOf<uint8_t> : Dtype<PROA_UINT8> {};
template <>
struct TypeOf<int8_t> : Dtype<PROA_INT8> {};
template <>
struct TypeOf<int16_t> : Dtype<PROA_INT16> {};
template <>
struct TypeOf<int32_t> : Dtype<PROA_INT32> {};
template <>
struct TypeOf<int64_t> : Dtype<PROA_INT64> {};
template <>
struct TypeOf<float> : Dtype<PROA_FLOAT32> {};
template <>
struct TypeOf<double> : Dtype<PROA_FLOAT64> {};

inline std::size_t count_of(const proa_array& array) {
  std::size_t count = 1;
  for (int32_t i = 0; i < array.rank; ++i) count *= static_cast<std::size_t>(array.shape[i]);
  return count;
}

}  // namespace internal

/// A handle on an input or output.
class Tensor {
 public:
  explicit Tensor(proa_tensor* handle) : handle_(handle), name_(proa_tensor_name(handle)) {}

  const std::string& name() const { return name_; }
  DataType type() const { return static_cast<DataType>(proa_tensor_dtype(handle_)); }

  /// Gives an input memory of that shape.
  void Reshape(const std::vector<int>& shape) {
    const std::vector<int64_t> sizes(shape.begin(), shape.end());
    internal::check(proa_tensor_reshape(handle_, static_cast<int32_t>(sizes.size()), sizes.data()));
  }
  /// Copies a row-major array of the shape that Reshape gave.
  template <class T>
  void CopyFromCpu(const T* data) {
    check_type<T>("CopyFromCpu");
    internal::check(proa_tensor_copy_from(handle_, data));
  }
  /// Lets an input be memory of the caller's, which must live until the run has ended.
  template <class T>
  void ShareExternalData(const T* data, const std::vector<int>& shape,
                         PlaceType place = PlaceType::kCPU) {
    check_type<T>("ShareExternalData");
    check_place("ShareExternalData", place);
    proa_array array{};
    array.data = const_cast<T*>(data);
    array.dtype = internal::TypeOf<T>::value;
    array.rank = static_cast<int32_t>(shape.size());
    if (shape.size() > PROA_MAX_RANK) {
      throw Error(PROA_INVALID_ARGUMENT, "[Tensor::ShareExternalData] rank must be <= 8");
    }
    for (std::size_t i = 0; i < shape.size(); ++i) array.shape[i] = shape[i];
    internal::check(proa_tensor_share(handle_, &array));
  }
  template <class T>
  void CopyToCpu(T* data) const {
    check_type<T>("CopyToCpu");
    internal::check(proa_tensor_copy_to(handle_, data));
  }
  template <class T>
  std::vector<T> CopyToVector() const {
    std::vector<T> values(internal::count_of(array()));
    if (!values.empty()) CopyToCpu(values.data());
    return values;
  }
  /// The memory of an input, to be written.
  template <class T>
  T* mutable_data(PlaceType place = PlaceType::kCPU) {
    check_type<T>("mutable_data");
    check_place("mutable_data", place);
    return static_cast<T*>(array().data);
  }
  /// What the handle holds, in place, and how many elements.
  template <class T>
  T* data(PlaceType* place, int* size) const {
    check_type<T>("data");
    const proa_array held = array();
    if (place != nullptr) *place = PlaceType::kCPU;
    if (size != nullptr) *size = static_cast<int>(internal::count_of(held));
    return static_cast<T*>(held.data);
  }
  std::vector<int> shape() const {
    const proa_array held = array();
    return std::vector<int>(held.shape, held.shape + held.rank);
  }
  void SetLoD(const std::vector<std::vector<std::size_t>>& lod) {
    std::vector<const std::size_t*> offsets;
    std::vector<std::size_t> counts;
    for (const auto& level : lod) {
      offsets.push_back(level.data());
      counts.push_back(level.size());
    }
    internal::check(proa_tensor_set_lod(handle_, lod.size(), offsets.data(), counts.data()));
  }
  std::vector<std::vector<std::size_t>> lod() const {
    std::vector<std::vector<std::size_t>> found;
    const std::size_t* offsets = nullptr;
    while (const std::size_t count = proa_tensor_lod(handle_, found.size(), &offsets)) {
      found.emplace_back(offsets, offsets + count);
    }
    return found;
  }

 private:
  proa_array array() const {
    proa_array held{};
    internal::check(proa_tensor_array(handle_, &held));
    return held;
  }
  template <class T>
  void check_type(const char* where) const {
    if (proa_tensor_dtype(handle_) == internal::TypeOf<T>::value) return;
    throw Error(PROA_INVALID_ARGUMENT, std::string("[Tensor::") + where + "] '" + name_ +
                                           "' has elements of another type");
  }
  static void check_place(const char* where, PlaceType place) {
    if (place == PlaceType::kCPU) return;
    throw Error(PROA_UNIMPLEMENTED, std::string("[Tensor::") + where + "] expected the CPU");
  }

  proa_tensor* handle_;
  std::string name_;
};

}  // namespace inference
}  // namespace proa
// NOLINTEND(readability-identifier-naming)

#endif  // PROA_INFERENCE_TENSOR_HPP_
