#pragma once
// The tensor that kernels see: row-major memory with a shape and a dtype.
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "proa/extension/dtype.h"

PROA_EXTENSION_BEGIN

enum class PlaceType { kUNK = -1, kCPU, kGPU };

/// The device of a tensor: the CPU.
struct Place {
  PlaceType type = PlaceType::kCPU;
  Place() = default;
  Place(PlaceType place) : type(place) {}  // NOLINT: either names a place
  bool operator==(const Place& other) const { return type == other.type; }
  bool operator!=(const Place& other) const { return !(*this == other); }
};
inline Place CPUPlace() { return {}; }

/// The library that loaded this extension.
inline const ProaHost*& host() {
  static const ProaHost* loaded = nullptr;
  return loaded;
}

/// Calls body(begin, end) over chunks of [0, n) of at least `grain`, on the library's threads.
template <class Body>
void parallel_for(int64_t n, int64_t grain, Body&& body) {
  auto call = [](void* arg, int64_t begin, int64_t end) {
    (*static_cast<std::remove_reference_t<Body>*>(arg))(begin, end);
  };
  host()->parallel(n, grain, call, const_cast<void*>(static_cast<const void*>(&body)));
}

class Tensor {
 public:
  Tensor() = default;
  /// Memory comes with the first mutable_data<T>().
  explicit Tensor(Place place) : place_(place) {}
  Tensor(Place place, std::vector<int64_t> shape) : shape_(std::move(shape)), place_(place) {}
  Tensor(std::vector<int64_t> shape, DataType dtype) : shape_(std::move(shape)), dtype_(dtype) {
    allocate();
  }
  /// One that the library passed; without memory it has a shape and a dtype alone.
  static Tensor Of(const ProaTensor& given) {
    Tensor x;
    x.dtype_ = static_cast<DataType>(given.view.dtype);
    x.shape_.assign(given.view.shape, given.view.shape + given.view.rank);
    x.data_ = given.view.data;
    if (given.memory != nullptr) host()->retain(given.memory);
    x.own(given.memory);
    x.defined_ = true;
    return x;
  }

  const std::vector<int64_t>& shape() const { return shape_; }
  DataType dtype() const { return dtype_; }
  DataType type() const { return dtype_; }
  Place place() const { return place_; }
  bool is_cpu() const { return true; }
  bool is_gpu() const { return false; }
  bool defined() const { return defined_; }
  bool initialized() const { return defined_; }
  bool is_initialized() const { return defined_; }
  /// Number of elements.
  int64_t numel() const {
    int64_t n = 1;
    for (const int64_t d : shape_) n *= d;
    return n;
  }
  int64_t size() const { return numel(); }

  /// The elements, if T is the dtype's.
  template <class T>
  T* data() {
    check_type<T>();
    return static_cast<T*>(data_);
  }
  template <class T>
  const T* data() const {
    check_type<T>();
    return static_cast<const T*>(data_);
  }
  void* data() { return data_; }
  const void* data() const { return data_; }
  /// The elements as T, with new memory if there is none of that type.
  template <class T>
  T* mutable_data(Place = Place()) {
    if (!defined_ || dtype_ != DataTypeOf<T>::value) {
      dtype_ = DataTypeOf<T>::value;
      allocate();
    }
    return static_cast<T*>(data_);
  }
  /// Another shape of as many elements; before memory is there, any shape.
  void reshape(const std::vector<int64_t>& shape) {
    int64_t count = 1;
    for (const int64_t d : shape) count *= d;
    PD_CHECK(!defined_ || count == numel(), "reshape must keep the ", numel(), " elements");
    shape_ = shape;
  }
  /// A copy in new memory.
  Tensor copy() const {
    Tensor to(shape_, dtype_);
    std::memcpy(to.data_, data_, bytes());
    return to;
  }
  template <class T>
  Tensor copy_to(Place = Place()) const {
    check_type<T>();
    return copy();
  }
  /// The elements converted to another type.
  Tensor cast(DataType dtype) const;

  /// What the library is given; it lives as long as this tensor.
  ProaTensor raw() const {
    ProaTensor t = {};
    PD_CHECK(shape_.size() <= PROA_EXTENSION_MAX_RANK, "expected a rank of at most 8");
    t.view.data = data_;
    t.view.rank = static_cast<int8_t>(shape_.size());
    t.view.dtype = static_cast<uint8_t>(dtype_);
    int64_t stride = 1;
    for (size_t i = shape_.size(); i-- > 0;) {
      t.view.shape[i] = shape_[i];
      t.view.stride[i] = stride;
      stride *= shape_[i] > 0 ? shape_[i] : 1;
    }
    t.memory = memory_.get();
    return t;
  }

 private:
  size_t bytes() const { return static_cast<size_t>(numel()) * SizeOf(dtype_); }
  void own(void* memory) {
    if (memory != nullptr) memory_.reset(memory, [](void* m) { host()->drop(m); });
  }
  void allocate() {
    for (const int64_t d : shape_) PD_CHECK(d >= 0, "sizes must be known and not negative");
    void* memory = host()->allocate(bytes(), &data_);
    if (memory == nullptr) throw std::bad_alloc();
    own(memory);
    defined_ = true;
  }
  template <class T>
  void check_type() const {
    PD_CHECK(DataTypeOf<T>::value == dtype_, "expected data<T>() of ", NameOf(dtype_), ", got ",
             NameOf(DataTypeOf<T>::value));
  }

  std::vector<int64_t> shape_;
  DataType dtype_ = DataType::FLOAT32;
  Place place_;
  void* data_ = nullptr;
  std::shared_ptr<void> memory_;
  bool defined_ = false;
};

template <class T>
using optional = std::optional<T>;

inline Tensor empty(const std::vector<int64_t>& shape, DataType dtype = DataType::FLOAT32,
                    Place = Place()) {
  return Tensor(shape, dtype);
}
inline Tensor empty_like(const Tensor& x) { return Tensor(x.shape(), x.dtype()); }
inline Tensor empty_like(const Tensor& x, DataType dtype, Place = Place()) {
  return Tensor(x.shape(), dtype);
}

PROA_EXTENSION_END
