#pragma once
// Integer arithmetic of sizes and counts. Always inlined, see inline.h.
#include <stdint.h>

#include <type_traits>

#include "proa/base/inline.h"
#include "proa/base/settings.h"

namespace proa {

template <class A, class B>
PROA_INLINE constexpr int64_t min(A a, B b) {
  static_assert(std::is_integral_v<A> && std::is_integral_v<B>);
  return static_cast<int64_t>(a) < static_cast<int64_t>(b) ? static_cast<int64_t>(a)
                                                           : static_cast<int64_t>(b);
}

template <class A, class B>
PROA_INLINE constexpr int64_t max(A a, B b) {
  static_assert(std::is_integral_v<A> && std::is_integral_v<B>);
  return static_cast<int64_t>(a) > static_cast<int64_t>(b) ? static_cast<int64_t>(a)
                                                           : static_cast<int64_t>(b);
}

/// ceil(n / size) for n >= 0 and size > 0. 64-bit division is slow, and most counts fit 32 bits;
/// libraries for small devices do without the second division, for their size.
PROA_INLINE constexpr int64_t ceil_div(int64_t n, int64_t size) {
  n += size - 1;
  if (!kHasLarge || __builtin_constant_p(size) || ((n | size) >> 32) != 0) return n / size;
  return static_cast<uint32_t>(n) / static_cast<uint32_t>(size);
}

/// The smallest multiple of `size` that is at least n.
PROA_INLINE constexpr int64_t round_up(int64_t n, int64_t size) { return ceil_div(n, size) * size; }

}  // namespace proa
