// Comparisons and logic of two arrays: the result is bool.
#include "proa/kernels/elementwise/functions.h"

namespace proa::PROA_ISA {

namespace {

template <class F>
constexpr Loops compare_loops() {
  Loops loops = {compare_loop<float, F>, compare_loop<double, F>, compare_loop<int32_t, F>,
                 compare_loop<int64_t, F>};
  loops.bool_out = true;
  return loops;
}
template <class F>
constexpr Loops compare_loops_complex() {
  Loops loops = compare_loops<F>();
  loops.c128 = plain_binary_loop<C128, uint8_t, F>;
  return loops;
}

/// Non-zero, as a comparison's mask.
template <class V>
PROA_INLINE auto truth(V x) {
  return x != V{};
}

}  // namespace

#define PROA_COMPARE(name, expr)                     \
  PROA_FUNCTOR_(name##_f, NoAttrs, (V x, V y), expr) \
  PROA_KERNEL_(name, compare_loops<name##_f>())
#define PROA_COMPARE_COMPLEX(name, expr)             \
  PROA_FUNCTOR_(name##_f, NoAttrs, (V x, V y), expr) \
  PROA_KERNEL_(name, compare_loops_complex<name##_f>())

PROA_COMPARE_COMPLEX(equal, x == y)
PROA_COMPARE_COMPLEX(not_equal, x != y)
PROA_COMPARE(less_than, x < y)
PROA_COMPARE(less_equal, x <= y)
PROA_COMPARE(greater_than, x > y)
PROA_COMPARE(greater_equal, x >= y)
PROA_COMPARE_COMPLEX(logical_and, truth(x) & truth(y))
PROA_COMPARE_COMPLEX(logical_or, truth(x) | truth(y))
PROA_COMPARE_COMPLEX(logical_xor, truth(x) ^ truth(y))

}  // namespace proa::PROA_ISA
