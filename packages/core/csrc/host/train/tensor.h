#pragma once
// The eager tensor: counted value, storage and view, and its node on the tape.
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "proa/base/call.h"
#include "proa/runtime/storage.h"

namespace proa {

class Node;
class Tensor;

/// A function of a gradient: returns the gradient to use from there (an empty tensor: unchanged).
struct GradHook {
  virtual ~GradHook() = default;
  virtual Tensor call(const Tensor& grad) = 0;
  int64_t id = 0;
};

/// What few tensors have.
struct TensorExtras;

/// A tensor's value. Counted by Tensor; comes from a list of free ones of the thread.
struct TensorImpl {
  enum Flag : uint16_t {
    kStopGradient = 1,  // no gradient flows to it
    kPersistable = 2,   // part of a model's state
    kRetainGrad = 4,    // a computed tensor that keeps its gradient
    kContiguous = 8,    // row-major without gaps
    kWeak = 16,         // a Python number: takes the dtype of the other inputs
    kSymbolic = 32,     // refers to a value of a graph being recorded; has no data
    kView = 64,         // made by a view op: shares another tensor's memory
    kParameter = 128,   // trained by optimizers
    kRowSparse = 256,   // a gradient stored as some rows (row_sparse.h); has no data
    kZeroGrad = 512,    // its gradient was cleared: zeros, which are allocated when they are read
    kGradRead = 1024,   // of a symbol: its gradient was read while there was none, or zeros
    kGradAdded = 2048,  // of a symbol: a gradient was added to its own
  };

  std::atomic<int32_t> refs{1};
  uint16_t flags = kStopGradient;
  uint16_t output = 0;           // which output of grad_fn it is
  uint32_t version_at_view = 0;  // of the storage when a view was recorded
  uint32_t epoch = 0;            // creation epoch of the thread that made it
  View view;
  Storage* storage = nullptr;      // null: a weak number (data in `small`) or symbolic
  Node* grad_fn = nullptr;         // counted
  TensorExtras* extras = nullptr;  // owned
  void* python = nullptr;          // the Python object that wraps it, borrowed
  alignas(16) unsigned char small[16];

  bool has(Flag flag) const { return (flags & flag) != 0; }
  void set(Flag flag, bool on) { flags = static_cast<uint16_t>(on ? flags | flag : flags & ~flag); }
  void retain() { refs.fetch_add(1, std::memory_order_relaxed); }
  void drop() {
    if (refs.fetch_sub(1, std::memory_order_acq_rel) == 1) destroy(this);
  }
  uint32_t version() const { return storage == nullptr ? 0 : storage->version(); }
  bool leaf() const { return grad_fn == nullptr; }
  /// True if it requires a gradient.
  bool requires_grad() const { return !has(kStopGradient); }
  TensorExtras& extra();

  static TensorImpl* create();
  /// Begins a creation epoch of this thread: tensors that it makes from now on have the returned
  /// number, which is higher than that of any tensor so far.
  static uint32_t begin_epoch();
  static void destroy(TensorImpl* impl);
};

/// A counted reference to a TensorImpl; may be empty.
class Tensor {
 public:
  Tensor() = default;
  Tensor(const Tensor& other) : impl_(other.impl_) {
    if (impl_ != nullptr) impl_->retain();
  }
  Tensor(Tensor&& other) noexcept : impl_(std::exchange(other.impl_, nullptr)) {}
  Tensor& operator=(Tensor other) noexcept {
    std::swap(impl_, other.impl_);
    return *this;
  }
  ~Tensor() {
    if (impl_ != nullptr) impl_->drop();
  }

  /// Takes over a reference that the caller owns.
  static Tensor take(TensorImpl* impl) {
    Tensor tensor;
    tensor.impl_ = impl;
    return tensor;
  }
  /// A further reference.
  static Tensor share(TensorImpl* impl) {
    if (impl != nullptr) impl->retain();
    return take(impl);
  }
  /// Releases the reference to the caller.
  TensorImpl* release() { return std::exchange(impl_, nullptr); }

  explicit operator bool() const { return impl_ != nullptr; }
  TensorImpl* get() const { return impl_; }
  TensorImpl* operator->() const { return impl_; }
  const View& view() const { return impl_->view; }
  DType dtype() const { return impl_->view.dtype; }
  int rank() const { return impl_->view.rank; }
  int64_t numel() const { return impl_->view.numel(); }
  template <class T>
  T* data() const {
    return static_cast<T*>(impl_->view.data);
  }

 private:
  TensorImpl* impl_ = nullptr;
};

struct TensorExtras {
  Tensor grad;
  std::string name;
  std::vector<std::shared_ptr<GradHook>> hooks;  // of a leaf; those of others are on their node
  std::shared_ptr<void> handle;                  // of a symbolic tensor
  Tensor rows, values, table;                    // of a row-sparse tensor
};

/// New memory for the view's shape, dtype and strides (which must be dense).
Tensor empty_as(const View& layout);
/// New row-major memory.
Tensor empty(DType dtype, const int64_t* shape, int rank);
/// A tensor on `storage` (of which it takes over one reference).
Tensor on_storage(Storage* storage, const View& view);
/// Another tensor on the same memory, not recorded on the tape.
Tensor detach(const Tensor& x);
/// A number without a dtype of its own: it takes that of the arrays it is combined with.
Tensor weak(double value);
Tensor weak(int64_t value);
Tensor weak(bool value);
Tensor weak_complex(double re, double im);
/// A one-element tensor of rank 0.
Tensor scalar(DType dtype, Scalar value);
/// Element 0 of a host tensor as a number (real part of a complex).
double to_double(const Tensor& x);

/// dtype of Python floats (float32 unless set).
DType default_dtype();
void set_default_dtype(DType dtype);

}  // namespace proa
