#include "proa/base/cpu.h"

#if defined(__aarch64__) || defined(__arm__)
#include <sys/auxv.h>
#endif

namespace proa {

Isa cpu_isa() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("bmi2");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni");
  return avx512 ? Isa::kAvx512 : avx2 ? Isa::kAvx2 : Isa::kScalar;
#elif defined(__aarch64__)
  constexpr unsigned long kDotProduct = 1UL << 20;  // HWCAP_ASIMDDP
  return (getauxval(AT_HWCAP) & kDotProduct) != 0 ? Isa::kNeonDot : Isa::kNeon;
#elif defined(__arm__)
  constexpr unsigned long kNeonVfp4 = (1UL << 12) | (1UL << 16);  // HWCAP_NEON, HWCAP_VFPv4
  return (getauxval(AT_HWCAP) & kNeonVfp4) == kNeonVfp4 ? Isa::kNeon : Isa::kScalar;
#else
  return Isa::kScalar;
#endif
}

const char* isa_name(Isa isa) {
  constexpr const char* kNames[kIsaCount] = {"scalar", "avx2", "avx512", "neon", "neondot"};
  return kNames[static_cast<int>(isa)];
}

}  // namespace proa
