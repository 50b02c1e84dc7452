#include "proa/train/tensor.h"

#include <cstring>
#include <new>

#include "proa/base/half.h"
#include "proa/runtime/thread_local.h"
#include "proa/train/tape.h"

namespace proa {

namespace {

// Free impls of this thread, and its epoch. Without a destructor, so that access stays cheap and
// safe while the thread ends; `Sweeper` empties the list. One struct, so that its address is
// found once.
struct ThreadImpls {
  TensorImpl* free;
  int free_count;
  uint32_t epoch;
};
thread_local ThreadImpls t_impls = {};
std::atomic<uint32_t> last_epoch{0};
constexpr int kKeep = 256;

struct Sweeper {
  bool armed = false;
  ~Sweeper() {
    ThreadImpls& impls = of_this_thread(t_impls);
    impls.free_count = kKeep;
    while (impls.free != nullptr) {
      TensorImpl* next = *reinterpret_cast<TensorImpl**>(impls.free);
      ::operator delete(impls.free);
      impls.free = next;
    }
  }
};
thread_local Sweeper t_sweeper;

DType default_float = DType::kF32;

template <class T>
void put(void* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

}  // namespace

TensorImpl* TensorImpl::create() {
  ThreadImpls& impls = of_this_thread(t_impls);
  void* memory = impls.free;
  if (memory != nullptr) {
    impls.free = *static_cast<TensorImpl**>(memory);
    --impls.free_count;
  } else {
    t_sweeper.armed = true;
    memory = ::operator new(sizeof(TensorImpl));
  }
  auto* impl = new (memory) TensorImpl();
  impl->epoch = impls.epoch;
  return impl;
}

uint32_t TensorImpl::begin_epoch() {
  return t_impls.epoch = last_epoch.fetch_add(1, std::memory_order_relaxed) + 1;
}

void TensorImpl::destroy(TensorImpl* impl) {
  if (impl->grad_fn != nullptr) {
    if (impl->has(kRetainGrad)) impl->grad_fn->forget_retained(impl);
    impl->grad_fn->drop();
  }
  if (impl->storage != nullptr) impl->storage->drop();
  delete impl->extras;
  impl->~TensorImpl();
  ThreadImpls& impls = of_this_thread(t_impls);
  if (impls.free_count < kKeep) {
    *reinterpret_cast<TensorImpl**>(impl) = impls.free;
    impls.free = impl;
    ++impls.free_count;
  } else {
    ::operator delete(impl);
  }
}

TensorExtras& TensorImpl::extra() {
  if (extras == nullptr) extras = new TensorExtras();
  return *extras;
}

Tensor on_storage(Storage* storage, const View& view) {
  TensorImpl* impl = TensorImpl::create();
  impl->storage = storage;
  impl->view = view;
  if (view.contiguous()) impl->flags |= TensorImpl::kContiguous;
  return Tensor::take(impl);
}

Tensor empty_as(const View& layout) {
  const auto count = static_cast<size_t>(layout.numel());
  Storage* storage = Storage::create(count * size_of(layout.dtype));
  TensorImpl* impl = TensorImpl::create();
  impl->storage = storage;
  impl->view = layout;
  impl->view.data = storage->data();
  if (layout.contiguous()) impl->flags |= TensorImpl::kContiguous;
  return Tensor::take(impl);
}

Tensor empty(DType dtype, const int64_t* shape, int rank) {
  View view;
  view.dtype = dtype;
  view.rank = static_cast<int8_t>(rank);
  for (int i = 0; i < rank; ++i) view.shape[i] = shape[i];
  view.set_contiguous();
  return empty_as(view);
}

Tensor detach(const Tensor& x) {
  TensorImpl* impl = TensorImpl::create();
  impl->view = x->view;
  constexpr int kCopiedFlags =
      TensorImpl::kContiguous | TensorImpl::kWeak | TensorImpl::kSymbolic | TensorImpl::kRowSparse;
  impl->flags = static_cast<uint16_t>((x->flags & kCopiedFlags) | TensorImpl::kStopGradient);
  if (x->has(TensorImpl::kSymbolic) && x->extras != nullptr) {
    impl->extra().handle = x->extras->handle;
  }
  if (x->has(TensorImpl::kRowSparse) && x->extras != nullptr) {
    impl->extra().rows = x->extras->rows;
    impl->extra().values = x->extras->values;
    impl->extra().table = x->extras->table;
  }
  if (x->storage != nullptr) {
    impl->storage = x->storage;
    impl->storage->retain();
  } else if (!x->has(TensorImpl::kSymbolic) && x->view.data != nullptr) {
    std::memcpy(impl->small, x->small, sizeof impl->small);
    impl->view.data = impl->small;
  }
  return Tensor::take(impl);
}

namespace {

Tensor small_scalar(DType dtype) {
  TensorImpl* impl = TensorImpl::create();
  impl->flags |= TensorImpl::kContiguous;
  impl->view.rank = 0;
  impl->view.dtype = dtype;
  impl->view.data = impl->small;
  return Tensor::take(impl);
}

void put_number(void* at, DType dtype, Scalar value) {
  const double f = value.to_double();
  switch (dtype) {
    case DType::kBool:
      return put<uint8_t>(at, f != 0.0);
    case DType::kU8:
      return put(at, static_cast<uint8_t>(value.to_int()));
    case DType::kI8:
      return put(at, static_cast<int8_t>(value.to_int()));
    case DType::kI16:
      return put(at, static_cast<int16_t>(value.to_int()));
    case DType::kI32:
      return put(at, static_cast<int32_t>(value.to_int()));
    case DType::kI64:
      return put(at, value.to_int());
    case DType::kF16:
      return put(at, F16(static_cast<float>(f)));
    case DType::kBF16:
      return put(at, BF16(static_cast<float>(f)));
    case DType::kF32:
      return put(at, static_cast<float>(f));
    case DType::kF64:
      return put(at, f);
    case DType::kC64:
      return put(at, C64{static_cast<float>(f), 0.0f});
    case DType::kC128:
      return put(at, C128{f, 0.0});
  }
}

}  // namespace

Tensor weak(double value) {
  Tensor x = small_scalar(DType::kF64);
  x->flags |= TensorImpl::kWeak;
  put(x->small, value);
  return x;
}

Tensor weak(int64_t value) {
  Tensor x = small_scalar(DType::kI64);
  x->flags |= TensorImpl::kWeak;
  put(x->small, value);
  return x;
}

Tensor weak(bool value) {
  Tensor x = small_scalar(DType::kBool);
  x->flags |= TensorImpl::kWeak;
  put<uint8_t>(x->small, value);
  return x;
}

Tensor weak_complex(double re, double im) {
  Tensor x = small_scalar(DType::kC128);
  x->flags |= TensorImpl::kWeak;
  put(x->small, C128{re, im});
  return x;
}

Tensor scalar(DType dtype, Scalar value) {
  Tensor x = small_scalar(dtype);
  put_number(x->small, dtype, value);
  return x;
}

double to_double(const Tensor& x) {
  const void* at = x->view.data;
  switch (x->view.dtype) {
    case DType::kBool:
    case DType::kU8:
      return *static_cast<const uint8_t*>(at);
    case DType::kI8:
      return *static_cast<const int8_t*>(at);
    case DType::kI16:
      return *static_cast<const int16_t*>(at);
    case DType::kI32:
      return *static_cast<const int32_t*>(at);
    case DType::kI64:
      return static_cast<double>(*static_cast<const int64_t*>(at));
    case DType::kF16:
      return static_cast<float>(*static_cast<const F16*>(at));
    case DType::kBF16:
      return static_cast<float>(*static_cast<const BF16*>(at));
    case DType::kF32:
      return *static_cast<const float*>(at);
    case DType::kF64:
      return *static_cast<const double*>(at);
    case DType::kC64:
      return static_cast<const C64*>(at)->re;
    case DType::kC128:
      return static_cast<const C128*>(at)->re;
  }
  return 0.0;
}

DType default_dtype() { return default_float; }
void set_default_dtype(DType dtype) { default_float = dtype; }

}  // namespace proa
