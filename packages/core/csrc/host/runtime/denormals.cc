#include "proa/runtime/denormals.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace proa {

namespace {

#if defined(__x86_64__)
constexpr uint64_t kFlush = 0x8040;  // FTZ and DAZ
#elif defined(__aarch64__)
constexpr uint64_t kFlush = uint64_t{1} << 24;  // FZ
#else
constexpr uint64_t kFlush = 0;
#endif

}  // namespace

uint64_t float_control() {
#if defined(__x86_64__)
  return _mm_getcsr() & ~uint64_t{0x3f};  // without the exceptions that have occurred
#elif defined(__aarch64__)
  uint64_t control;
  asm volatile("mrs %0, fpcr" : "=r"(control));
  return control;
#else
  return 0;
#endif
}

void set_float_control(uint64_t control) {
  if (control == float_control()) return;
#if defined(__x86_64__)
  _mm_setcsr(static_cast<unsigned>(control) | (_mm_getcsr() & 0x3f));
#elif defined(__aarch64__)
  asm volatile("msr fpcr, %0" : : "r"(control));
#endif
}

bool flushes_denormals() { return kFlush != 0 && (float_control() & kFlush) == kFlush; }

void set_flush_denormals(bool on) {
  const uint64_t control = float_control();
  set_float_control(on ? control | kFlush : control & ~kFlush);
}

}  // namespace proa
