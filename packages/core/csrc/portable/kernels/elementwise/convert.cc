// Every pair of dtypes converts through one of three wide types (int64, double, complex of doubles)
// in blocks, so 12 loaders and 3 x 12 storers do the work of 144 loops. The pairs that networks
// use have a loop of their own.
#include "proa/kernels/elementwise/convert.h"

#include <string.h>

#include <type_traits>

#include "proa/base/dispatch.h"
#include "proa/simd/vec.h"

namespace proa::PROA_ISA {

namespace {

struct Bool {
  uint8_t value;
};

PROA_INLINE int64_t to_integer(double x) {
  if (!(x < 0x1p63)) return x == x ? INT64_MAX : 0;
  return x < -0x1p63 ? INT64_MIN : static_cast<int64_t>(x);
}

/// Rounds toward zero but sets the last bit if anything was lost, so that a second rounding to
/// fewer bits is right.
PROA_INLINE float round_to_odd(double x) {
  float f = static_cast<float>(x);
  const double back = f;
  if (back == x || x != x) return f;
  int32_t bits = bit_cast<int32_t>(f);
  const double over = (back > x) == (x > 0) ? 1 : 0;
  bits -= over != 0 ? 1 : 0;
  return bit_cast<float>(bits | 1);
}

template <class To, class From>
PROA_INLINE To to(From x) {
  if constexpr (std::is_same_v<From, Bool>) {
    return to<To>(static_cast<uint8_t>(x.value != 0));
  } else if constexpr (std::is_same_v<To, Bool>) {
    if constexpr (std::is_same_v<From, C64> || std::is_same_v<From, C128>) {
      return {static_cast<uint8_t>((x.re != 0) | (x.im != 0))};
    } else if constexpr (std::is_same_v<From, F16> || std::is_same_v<From, BF16>) {
      return {static_cast<uint8_t>((x.bits & 0x7fff) != 0)};
    } else {
      return {static_cast<uint8_t>(x != 0)};
    }
  } else if constexpr (std::is_same_v<From, C64> || std::is_same_v<From, C128>) {
    if constexpr (std::is_same_v<To, C64>) {
      return {static_cast<float>(x.re), static_cast<float>(x.im)};
    } else if constexpr (std::is_same_v<To, C128>) {
      return {static_cast<double>(x.re), static_cast<double>(x.im)};
    } else {
      return to<To>(x.re);
    }
  } else if constexpr (std::is_same_v<To, C64> || std::is_same_v<To, C128>) {
    return {to<decltype(To::re)>(x), 0};
  } else if constexpr (std::is_same_v<From, F16> || std::is_same_v<From, BF16>) {
    return to<To>(static_cast<float>(x));
  } else if constexpr (std::is_same_v<To, F16> || std::is_same_v<To, BF16>) {
    if constexpr (std::is_same_v<From, double>) {
      return To(round_to_odd(x));
    } else {
      return To(static_cast<float>(x));
    }
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    return static_cast<To>(to_integer(x));
  } else {
    return static_cast<To>(x);
  }
}

template <class From, class To>
PROA_NOINLINE void loop(const void* from, void* to_, int64_t n) {
  const From* x = static_cast<const From*>(from);
  To* y = static_cast<To*>(to_);
  for (int64_t i = 0; i < n; ++i) y[i] = to<To>(x[i]);
}

/// The same, small rather than fast.
template <class From, class To>
__attribute__((noinline, optimize("no-tree-vectorize", "no-unroll-loops"))) void rare_loop(
    const void* from, void* to_, int64_t n) {
  const From* x = static_cast<const From*>(from);
  To* y = static_cast<To*>(to_);
  for (int64_t i = 0; i < n; ++i) y[i] = to<To>(x[i]);
}

template <class H>
PROA_NOINLINE void widen_half(const void* from, void* to, int64_t n) {
  const H* x = static_cast<const H*>(from);
  float* y = static_cast<float*>(to);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(y + i, load(x + i));
  if (i < n) store_n(y + i, load_n(x + i, n - i), n - i);
}
template <class H>
PROA_NOINLINE void narrow_half(const void* from, void* to, int64_t n) {
  const float* x = static_cast<const float*>(from);
  H* y = static_cast<H*>(to);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(y + i, load(x + i));
  if (i < n) store_n(y + i, load_n(x + i, n - i), n - i);
}

using Loop = void (*)(const void*, void*, int64_t);

#define PROA_ALL_TYPES(F)                                                                        \
  F(Bool), F(uint8_t), F(int8_t), F(int16_t), F(int32_t), F(int64_t), F(F16), F(BF16), F(float), \
      F(double), F(C64), F(C128)

constexpr int pair(DType a, DType b) {
  return static_cast<int>(a) * kDTypeCount + static_cast<int>(b);
}

/// Null where the pair takes two steps by way of the widest type: rare pairs, and 16-bit numbers
/// in a build that does not compute in them.
Loop direct_loop(DType from, DType to) {
  using D = DType;
  switch (pair(from, to)) {
    case pair(D::kF16, D::kF32):
      return computes(D::kF16) ? widen_half<F16> : nullptr;
    case pair(D::kBF16, D::kF32):
      return computes(D::kBF16) ? widen_half<BF16> : nullptr;
    case pair(D::kF32, D::kF16):
      return computes(D::kF16) ? narrow_half<F16> : nullptr;
    case pair(D::kF32, D::kBF16):
      return computes(D::kBF16) ? narrow_half<BF16> : nullptr;
    case pair(D::kBool, D::kF32):
      return loop<Bool, float>;
    case pair(D::kU8, D::kF32):
      return loop<uint8_t, float>;
    case pair(D::kI8, D::kF32):
      return loop<int8_t, float>;
    case pair(D::kI32, D::kF32):
      return loop<int32_t, float>;
    case pair(D::kI64, D::kF32):
      return loop<int64_t, float>;
    case pair(D::kF64, D::kF32):
      return loop<double, float>;
    case pair(D::kI64, D::kI32):
      return loop<int64_t, int32_t>;
    case pair(D::kF32, D::kI32):
      return loop<float, int32_t>;
    case pair(D::kBool, D::kI32):
      return loop<Bool, int32_t>;
    case pair(D::kU8, D::kI32):
      return loop<uint8_t, int32_t>;
    case pair(D::kI8, D::kI32):
      return loop<int8_t, int32_t>;
    case pair(D::kI16, D::kI32):
      return loop<int16_t, int32_t>;
    case pair(D::kI32, D::kBool):
      return loop<int32_t, Bool>;
    case pair(D::kI32, D::kU8):
    case pair(D::kI32, D::kI8):
      return loop<int32_t, uint8_t>;
    case pair(D::kI32, D::kI16):
      return loop<int32_t, int16_t>;
    default:
      return nullptr;
  }
}

enum NumberKind { kInteger, kReal, kComplex };
constexpr NumberKind number_kind(DType t) {
  return is_complex(t) ? kComplex : is_floating(t) ? kReal : kInteger;
}
constexpr DType kWidestType[] = {DType::kI64, DType::kF64, DType::kC128};

Loop loader(DType from) {
  static constexpr Loop kLoops[kDTypeCount] = {
      rare_loop<Bool, int64_t>,   rare_loop<uint8_t, int64_t>,
      rare_loop<int8_t, int64_t>, rare_loop<int16_t, int64_t>,
      loop<int32_t, int64_t>,     nullptr,
      rare_loop<F16, double>,     rare_loop<BF16, double>,
      loop<float, double>,        nullptr,
      rare_loop<C64, C128>,       nullptr};
  return kLoops[static_cast<int>(from)];
}
Loop storer(NumberKind from, DType to) {
#define PROA_FROM_INTEGER(T) rare_loop<int64_t, T>
#define PROA_FROM_REAL(T) rare_loop<double, T>
#define PROA_FROM_COMPLEX(T) rare_loop<C128, T>
  static constexpr Loop kLoops[3][kDTypeCount] = {{PROA_ALL_TYPES(PROA_FROM_INTEGER)},
                                                  {PROA_ALL_TYPES(PROA_FROM_REAL)},
                                                  {PROA_ALL_TYPES(PROA_FROM_COMPLEX)}};
  return kLoops[from][static_cast<int>(to)];
}

}  // namespace

void convert(DType from_type, const void* from, DType to_type, void* to, int64_t n) {
  if (from_type == to_type) {
    if (from != to) memmove(to, from, static_cast<size_t>(n) * size_of(to_type));
    return;
  }
  if (const Loop direct = direct_loop(from_type, to_type)) return direct(from, to, n);
  const NumberKind kind = number_kind(from_type);
  const Loop load = loader(from_type), store = storer(kind, to_type);
  if (load == nullptr) return store(from, to, n);
  if (to_type == kWidestType[kind]) return load(from, to, n);
  constexpr int64_t kBlock = 128;
  C128 block[kBlock];
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t m = n - i < kBlock ? n - i : kBlock;
    load(static_cast<const uint8_t*>(from) + i * size_of(from_type), block, m);
    store(block, static_cast<uint8_t*>(to) + i * size_of(to_type), m);
  }
}

void write_scalar(const Scalar& s, DType t, void* value) {
  if (s.is_int != 0) {
    convert(DType::kI64, &s.i, t, value, 1);
  } else {
    convert(DType::kF64, &s.f, t, value, 1);
  }
}

void gather_row(size_t size, const void* from, int64_t stride, void* to, int64_t n) {
  PROA_MOVED(size, T, {
    const T* x = static_cast<const T*>(from);
    T* y = static_cast<T*>(to);
    if (stride == 1) {
      memcpy(y, x, static_cast<size_t>(n) * sizeof(T));
    } else {
      for (int64_t i = 0; i < n; ++i) y[i] = x[i * stride];
    }
  })
}

void scatter_row(size_t size, const void* from, void* to, int64_t stride, int64_t n) {
  PROA_MOVED(size, T, {
    const T* x = static_cast<const T*>(from);
    T* y = static_cast<T*>(to);
    if (stride == 1) {
      memcpy(y, x, static_cast<size_t>(n) * sizeof(T));
    } else {
      for (int64_t i = 0; i < n; ++i) y[i * stride] = x[i];
    }
  })
}

void fill_row(size_t size, const void* value, void* to, int64_t n) {
  PROA_MOVED(size, T, {
    const T x = *static_cast<const T*>(value);
    T* y = static_cast<T*>(to);
    for (int64_t i = 0; i < n; ++i) y[i] = x;
  })
}

}  // namespace proa::PROA_ISA
