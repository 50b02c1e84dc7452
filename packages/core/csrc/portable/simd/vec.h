#pragma once
// Vectors as wide as the instruction set this file is compiled for, over the compiler's vector
// extension: + - * / < == & | and `mask ? a : b` work on them as on numbers. A comparison returns
// an integer vector of the same width with 0 or -1 in each lane.
#include <stddef.h>
#include <stdint.h>

#include "proa/base/arith.h"
#include "proa/base/half.h"
#include "proa/base/inline.h"
#include "proa/base/settings.h"
#include "proa/simd/tuning.h"
#include "proa/simd/vec_isa.h"

namespace proa::PROA_ISA {

template <class T>
struct VecOf {
  typedef T type __attribute__((vector_size(kVecBytes)));
};
// 16-bit floats are computed in float: they are converted as they are loaded and stored.
template <>
struct VecOf<F16> : VecOf<float> {};
template <>
struct VecOf<BF16> : VecOf<float> {};
template <class T>
using Vec = typename VecOf<T>::type;
/// Elements in a Vec<T>.
template <class T>
inline constexpr int kLanesOf = kVecBytes / static_cast<int>(sizeof(T));
template <>
inline constexpr int kLanesOf<F16> = kLanesOf<float>;
template <>
inline constexpr int kLanesOf<BF16> = kLanesOf<float>;

using VF = Vec<float>;
using VI = Vec<int32_t>;
using VU = Vec<uint32_t>;
using VD = Vec<double>;
using VL = Vec<int64_t>;
using VQ = Vec<uint64_t>;
/// Floats in a vector: 16, 8 or 4.
constexpr int kLanes = kLanesOf<float>;

/// As many 16-bit (8-bit) integers as a vector has floats.
typedef uint16_t VU16 __attribute__((vector_size(kVecBytes / 2)));
typedef uint8_t VU8 __attribute__((vector_size(kVecBytes / 4)));
typedef int8_t VI8 __attribute__((vector_size(kVecBytes / 4)));

/// x in every lane. (Subtracting 0 keeps -0; adding it would not.)
template <class T>
PROA_INLINE Vec<T> splat(T x) {
  return x - Vec<T>{};
}
PROA_INLINE VF splat(float x) { return x - VF{}; }

template <class To, class From>
PROA_INLINE To bit_cast(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  __builtin_memcpy(&to, &from, sizeof to);
  return to;
}

/// 0, 1, 2, ... in the lanes.
PROA_INLINE VI iota() {
  VI v;
  for (int i = 0; i < kLanes; ++i) v[i] = i;
  return v;
}

/// Lane i is lane `lanes[i]` of a and then b. `lanes` must be known at compile time.
template <class V, class I>
PROA_INLINE V shuffle(V a, V b, I lanes) {
#if defined(__clang__)
  constexpr int kCount = static_cast<int>(sizeof(I) / sizeof(lanes[0]));
  V y;
  for (int i = 0; i < kCount; ++i) {
    const int from = static_cast<int>(lanes[i]);
    y[i] = from < kCount ? a[from] : b[from - kCount];
  }
  return y;
#else
  return __builtin_shuffle(a, b, lanes);
#endif
}

// -- whole vectors; no alignment is needed --------------------------------------------------
template <class T>
PROA_INLINE Vec<T> load(const T* p) {
  Vec<T> v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
/// A vector or a number of another type than p's.
template <class V>
PROA_INLINE V load_as(const void* p) {
  V v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
template <class T>
PROA_INLINE void store(T* p, Vec<T> v) {
  __builtin_memcpy(p, &v, sizeof v);
}

// -- memory traffic -------------------------------------------------------------------------------
/// Prefetches the line at p for writing. The hardware prefetches lines that are read, to the end of
/// a page; a line that is written is fetched first as well, but not ahead of time.
template <class T>
PROA_INLINE void prefetch(const T* p) {
  if constexpr (kHasLarge) __builtin_prefetch(reinterpret_cast<const uint8_t*>(p));
}
/// As far ahead as a loop over memory prefetches.
template <class T>
PROA_INLINE void prefetch_ahead(const T* p) {
  prefetch(reinterpret_cast<const uint8_t*>(p) + kAheadBytes);
}

// -- the first n lanes, 0 <= n <= lanes; the others are 0 when loaded, untouched when stored --
template <class T>
PROA_INLINE Vec<T> load_n(const T* p, int64_t n) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) {
    const __mmask16 m = static_cast<__mmask16>((1u << n) - 1);
    return bit_cast<Vec<T>>(_mm512_maskz_loadu_epi32(m, p));
  } else if constexpr (sizeof(T) == 8) {
    const __mmask8 m = static_cast<__mmask8>((1u << n) - 1);
    return bit_cast<Vec<T>>(_mm512_maskz_loadu_epi64(m, p));
  }
#elif defined(__AVX2__)
  if constexpr (sizeof(T) == 4) {
    const __m256i i = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m256i m = _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), i);
    return bit_cast<Vec<T>>(_mm256_maskload_epi32(reinterpret_cast<const int*>(p), m));
  } else if constexpr (sizeof(T) == 8) {
    const __m256i m = _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), _mm256_setr_epi64x(0, 1, 2, 3));
    return bit_cast<Vec<T>>(_mm256_maskload_epi64(reinterpret_cast<const long long*>(p), m));
  }
#endif
  Vec<T> v = {};
  for (int64_t i = 0; i < n; ++i) v[i] = p[i];
  return v;
}
template <class T>
PROA_INLINE void store_n(T* p, Vec<T> v, int64_t n) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) {
    _mm512_mask_storeu_epi32(p, static_cast<__mmask16>((1u << n) - 1), bit_cast<__m512i>(v));
    return;
  } else if constexpr (sizeof(T) == 8) {
    _mm512_mask_storeu_epi64(p, static_cast<__mmask8>((1u << n) - 1), bit_cast<__m512i>(v));
    return;
  }
#elif defined(__AVX2__)
  if constexpr (sizeof(T) == 4) {
    const __m256i i = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m256i m = _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), i);
    _mm256_maskstore_epi32(reinterpret_cast<int*>(p), m, bit_cast<__m256i>(v));
    return;
  } else if constexpr (sizeof(T) == 8) {
    const __m256i m = _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), _mm256_setr_epi64x(0, 1, 2, 3));
    _mm256_maskstore_epi64(reinterpret_cast<long long*>(p), m, bit_cast<__m256i>(v));
    return;
  }
#endif
  for (int64_t i = 0; i < n; ++i) p[i] = v[i];
}

// -- arithmetic the operators do not have ------------------------------------------------------
/// mask ? a : b, lane by lane.
template <class M, class V>
PROA_INLINE V select(M mask, V a, V b) {
  return mask ? a : b;
}
/// a * b + c, rounded once where the hardware can.
PROA_INLINE VF fma(VF a, VF b, VF c) {
#if defined(__AVX512F__)
  return (VF)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__AVX2__)
  return (VF)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(__aarch64__)
  return (VF)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
  return a * b + c;
#endif
}
PROA_INLINE VF fma(VF a, VF b, float c) { return fma(a, b, splat(c)); }
/// sum + a * b of floats or doubles, rounded as the operators' would be, in the register of `sum`.
/// With 16 registers the compiler overwrites a or b instead where it can, moves sums between
/// registers and spills some of a micro-kernel's.
template <class V>
PROA_INLINE V add_product(V sum, V a, V b) {
#if defined(__AVX2__) && !defined(__AVX512F__)
  if constexpr (sizeof(sum[0]) == 4)
    __asm__("vfmadd231ps %2, %1, %0" : "+x"(sum) : "x"(a), "x"(b));
  else
    __asm__("vfmadd231pd %2, %1, %0" : "+x"(sum) : "x"(a), "x"(b));
  return sum;
#else
  return sum + a * b;
#endif
}
// Overloads for integers; those for vectors are below.
using proa::max;
using proa::min;
/// The maximum (minimum) of a and b; b if either is NaN.
PROA_INLINE VF max(VF a, VF b) {
#if defined(__AVX512F__)
  return (VF)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__)
  return (VF)_mm256_max_ps((__m256)a, (__m256)b);
#elif defined(__SSE2__)
  return (VF)_mm_max_ps((__m128)a, (__m128)b);
#else
  return a > b ? a : b;
#endif
}
PROA_INLINE VF min(VF a, VF b) {
#if defined(__AVX512F__)
  return (VF)_mm512_min_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__)
  return (VF)_mm256_min_ps((__m256)a, (__m256)b);
#elif defined(__SSE2__)
  return (VF)_mm_min_ps((__m128)a, (__m128)b);
#else
  return a < b ? a : b;
#endif
}
/// The maximum (minimum) of a and b; NaN if either is.
PROA_INLINE VF max_nan(VF a, VF b) {
  const VF m = max(a, b);
  return a == a ? m : a;
}
PROA_INLINE VF min_nan(VF a, VF b) {
  const VF m = min(a, b);
  return a == a ? m : a;
}
PROA_INLINE VF sqrt(VF x) {
#if defined(__AVX512F__)
  return (VF)_mm512_sqrt_ps((__m512)x);
#elif defined(__AVX2__)
  return (VF)_mm256_sqrt_ps((__m256)x);
#elif defined(__SSE2__)
  return (VF)_mm_sqrt_ps((__m128)x);
#elif defined(__aarch64__)
  return (VF)vsqrtq_f32((float32x4_t)x);
#else
  for (int i = 0; i < kLanes; ++i) x[i] = __builtin_sqrtf(x[i]);
  return x;
#endif
}
PROA_INLINE VF abs(VF x) { return bit_cast<VF>(bit_cast<VI>(x) & 0x7fffffff); }
/// The magnitude of x with the sign of s.
PROA_INLINE VF copysign(VF x, VF s) {
  const VI sign = bit_cast<VI>(s) & static_cast<int32_t>(0x80000000);
  return bit_cast<VF>((bit_cast<VI>(x) & 0x7fffffff) | sign);
}
/// The products of the low halves of the lanes.
PROA_INLINE VQ multiply_low_halves(VQ a, VQ b) {
#if defined(__AVX512F__)
  return (VQ)_mm512_mul_epu32((__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
  return (VQ)_mm256_mul_epu32((__m256i)a, (__m256i)b);
#elif defined(__SSE2__)
  return (VQ)_mm_mul_epu32((__m128i)a, (__m128i)b);
#else
  return (a & 0xffffffffu) * (b & 0xffffffffu);
#endif
}

// -- conversions -------------------------------------------------------------------------------
PROA_INLINE VF to_float(VI x) { return __builtin_convertvector(x, VF); }
/// Toward zero; lanes outside int32 are unspecified.
PROA_INLINE VI truncate(VF x) { return __builtin_convertvector(x, VI); }
/// To the nearest integer, halves to even, as a float.
PROA_INLINE VF round_even(VF x) {
#if defined(__AVX512F__)
  return (VF)_mm512_roundscale_ps((__m512)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#elif defined(__AVX2__)
  return (VF)_mm256_round_ps((__m256)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#elif defined(__aarch64__)
  return (VF)vrndnq_f32((float32x4_t)x);
#else
  // Adding 2**23 leaves no bits for a fraction; larger numbers have none anyway. The volatile-free
  // form is safe because float arithmetic is not reassociated.
  const VF big = copysign(splat(8388608.0f), x);
  const VF r = (x + big) - big;
  return abs(x) < 8388608.0f ? copysign(r, x) : x;
#endif
}
/// To the nearest integer, halves to even; lanes outside int32 are unspecified.
PROA_INLINE VI round_to_int(VF x) {
#if defined(__AVX512F__)
  return (VI)_mm512_cvtps_epi32((__m512)x);
#elif defined(__AVX2__)
  return (VI)_mm256_cvtps_epi32((__m256)x);
#elif defined(__SSE2__)
  return (VI)_mm_cvtps_epi32((__m128)x);
#elif defined(__aarch64__)
  return (VI)vcvtnq_s32_f32((float32x4_t)x);
#else
  return truncate(round_even(x));
#endif
}
/// x * 2**n for integers n in [-300, 300].
PROA_INLINE VF scale_by_power(VF x, VF n) {
#if defined(__AVX512F__)
  return (VF)_mm512_scalef_ps((__m512)x, (__m512)n);
#else
  // In two steps, because 2**n itself may be outside the normal range.
  const VI whole = round_to_int(n), half = whole >> 1;
  const VF a = bit_cast<VF>((half + 127) << 23), b = bit_cast<VF>((whole - half + 127) << 23);
  return x * a * b;
#endif
}

PROA_INLINE VF from_bf16(VU16 h) {
#if defined(__AVX512F__)
  // GCC 12 would convert by halves.
  return (VF)_mm512_slli_epi32(_mm512_cvtepu16_epi32((__m256i)h), 16);
#else
  return bit_cast<VF>(__builtin_convertvector(h, VU) << 16);
#endif
}
PROA_INLINE VU16 to_bf16(VF f) {
  const VU u = bit_cast<VU>(f);
  const VU rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  const VU nan = (u >> 16) | 0x40u;
  return __builtin_convertvector((u & 0x7fffffffu) > 0x7f800000u ? nan : rounded, VU16);
}
PROA_INLINE VF from_f16(VU16 h) {
#if defined(__AVX512F__)
  return (VF)_mm512_cvtph_ps((__m256i)h);
#elif defined(__AVX2__)
  return (VF)_mm256_cvtph_ps((__m128i)h);
#else
  // In the position of a float's, the exponent is 112 too small, also for subnormals.
  const VU u = __builtin_convertvector(h, VU);
  const VU magnitude = (u & 0x7fffu) << 13, sign = (u & 0x8000u) << 16;
  const VU finite = bit_cast<VU>(bit_cast<VF>(magnitude) * 0x1p112f);
  return bit_cast<VF>(((u & 0x7fffu) >= 0x7c00u ? magnitude | 0x7f800000u : finite) | sign);
#endif
}
PROA_INLINE VU16 to_f16(VF f) {
#if defined(__AVX512F__)
  return (VU16)_mm512_cvtps_ph((__m512)f, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#elif defined(__AVX2__)
  return (VU16)_mm256_cvtps_ph((__m256)f, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#else
  const VU sign = (bit_cast<VU>(f) >> 16) & 0x8000u, u = bit_cast<VU>(f) & 0x7fffffffu;
  const VU normal = (u + 0xc8000fffu + ((u >> 13) & 1u)) >> 13;
  const VU small = bit_cast<VU>(bit_cast<VF>(u) + 0.5f) - 0x3f000000u;
  VU h = u < 0x38800000u ? small : normal;
  h = u >= 0x477ff000u ? VU{} + 0x7c00u : h;
  h = u > 0x7f800000u ? VU{} + 0x7e00u : h;
  return __builtin_convertvector(h | sign, VU16);
#endif
}
PROA_INLINE VF load(const BF16* p) {
  VU16 h;
  __builtin_memcpy(&h, p, sizeof h);
  return from_bf16(h);
}
PROA_INLINE VF load(const F16* p) {
  VU16 h;
  __builtin_memcpy(&h, p, sizeof h);
  return from_f16(h);
}
PROA_INLINE void store(BF16* p, VF v) {
  const VU16 h = to_bf16(v);
  __builtin_memcpy(p, &h, sizeof h);
}
PROA_INLINE void store(F16* p, VF v) {
  const VU16 h = to_f16(v);
  __builtin_memcpy(p, &h, sizeof h);
}
template <class H>
PROA_INLINE VF load_half_n(const H* p, int64_t n) {
#if defined(__AVX512F__)
  const auto some = static_cast<__mmask16>((1u << n) - 1);
  const auto h = (VU16)_mm256_maskz_loadu_epi16(some, p);
  if constexpr (__is_same(H, BF16))
    return from_bf16(h);
  else
    return from_f16(h);
#else
  H lanes[kLanes] = {};
  for (int64_t i = 0; i < n; ++i) lanes[i] = p[i];
  return load(lanes);
#endif
}
PROA_INLINE VF load_n(const BF16* p, int64_t n) { return load_half_n(p, n); }
PROA_INLINE VF load_n(const F16* p, int64_t n) { return load_half_n(p, n); }
template <class H>
PROA_INLINE void store_half_n(H* p, VF v, int64_t n) {
#if defined(__AVX512F__)
  const auto some = static_cast<__mmask16>((1u << n) - 1);
  if constexpr (__is_same(H, BF16))
    _mm256_mask_storeu_epi16(p, some, (__m256i)to_bf16(v));
  else
    _mm256_mask_storeu_epi16(p, some, (__m256i)to_f16(v));
#else
  H lanes[kLanes];
  store(lanes, v);
  for (int64_t i = 0; i < n; ++i) p[i] = lanes[i];
#endif
}
PROA_INLINE void store_n(BF16* p, VF v, int64_t n) { store_half_n(p, v, n); }
PROA_INLINE void store_n(F16* p, VF v, int64_t n) { store_half_n(p, v, n); }

// -- across the lanes; the order is fixed, so results repeat ------------------------------------
/// The sum of the lanes, as a balanced tree.
template <class V>
PROA_INLINE auto sum_lanes(V v) {
  constexpr int n = static_cast<int>(sizeof(V) / sizeof(v[0]));
  auto at = [&](int i) { return v[i]; };
  decltype(at(0)) part[n];
  for (int i = 0; i < n; ++i) part[i] = v[i];
  for (int half = n / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) part[i] += part[i + half];
  return part[0];
}
PROA_INLINE float sum_lanes(VF v) {
#if defined(__AVX512F__)
  return _mm512_reduce_add_ps((__m512)v);
#else
  float part[kLanes];
  store(part, v);
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) part[i] += part[i + half];
  return part[0];
#endif
}
/// The maximum (minimum) lane; lanes must not be NaN.
PROA_INLINE float max_lanes(VF v) {
  float m = v[0];
  for (int i = 1; i < kLanes; ++i) m = v[i] > m ? v[i] : m;
  return m;
}
PROA_INLINE float min_lanes(VF v) {
  float m = v[0];
  for (int i = 1; i < kLanes; ++i) m = v[i] < m ? v[i] : m;
  return m;
}
/// True if any lane of a comparison's result is set.
template <class M>
PROA_INLINE bool any(M mask) {
#if defined(__AVX512F__)
  return _mm512_test_epi32_mask(bit_cast<__m512i>(mask), bit_cast<__m512i>(mask)) != 0;
#elif defined(__AVX2__)
  return _mm256_testz_si256(bit_cast<__m256i>(mask), bit_cast<__m256i>(mask)) == 0;
#else
  int64_t word[2];
  __builtin_memcpy(word, &mask, sizeof word);
  return (word[0] | word[1]) != 0;
#endif
}
/// Writes 0 or 1 for each lane of a comparison's result.
template <class T, class M>
PROA_INLINE void store_bools(uint8_t* p, M mask) {
#if defined(__AVX2__) && !defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) {
    const uint32_t bits = static_cast<uint32_t>(_mm256_movemask_ps((__m256)mask));
    const uint64_t bytes = _pdep_u64(bits, 0x0101010101010101u);
    __builtin_memcpy(p, &bytes, 8);
  } else {
    const uint32_t bits = static_cast<uint32_t>(_mm256_movemask_pd((__m256d)mask));
    const uint32_t bytes = _pdep_u32(bits, 0x01010101u);
    __builtin_memcpy(p, &bytes, 4);
  }
#else
  typedef int8_t Bytes __attribute__((vector_size(kLanesOf<T>)));
  const Bytes bytes = __builtin_convertvector(mask, Bytes) & 1;
  __builtin_memcpy(p, &bytes, sizeof bytes);
#endif
}

}  // namespace proa::PROA_ISA
