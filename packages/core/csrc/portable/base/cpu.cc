#include "proa/base/cpu.h"

#include <string.h>

#include "proa/base/settings.h"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) || defined(__arm__)
#include <sys/auxv.h>
#endif

namespace proa {

Isa cpu_isa() {
#if defined(__x86_64__)
  // (The compiler's __builtin_cpu_supports would bring 5 KB of other processors' features.)
  unsigned a, b, c, d;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0) return Isa::kScalar;
  constexpr unsigned kFma = 1u << 12, kPopcnt = 1u << 23, kOsSaves = 1u << 27, kF16c = 1u << 29;
  constexpr unsigned kLeaf1 = kFma | kPopcnt | kOsSaves | kF16c;
  if ((c & kLeaf1) != kLeaf1 || __get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return Isa::kScalar;
  unsigned saved, high;  // which registers the system keeps for a thread
  __asm__("xgetbv" : "=a"(saved), "=d"(high) : "c"(0));
  constexpr unsigned kAvx2 = 1u << 5, kBmi2 = 1u << 8, kWideSaved = 0x6;
  if ((b & (kAvx2 | kBmi2)) != (kAvx2 | kBmi2) || (saved & kWideSaved) != kWideSaved)
    return Isa::kScalar;
  constexpr unsigned kF = 1u << 16, kDq = 1u << 17, kBw = 1u << 30, kVl = 1u << 31;
  constexpr unsigned kVnni = 1u << 11, kAllSaved = 0xe6;
  const bool avx512 = (b & (kF | kDq | kBw | kVl)) == (kF | kDq | kBw | kVl) && (c & kVnni) != 0 &&
                      (saved & kAllSaved) == kAllSaved;
  return avx512 ? Isa::kAvx512 : Isa::kAvx2;
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

bool cpu_dots_bf16() {
#if defined(__x86_64__)
  unsigned a, b, c, d;
  constexpr unsigned kBf16 = 1u << 5;
  return cpu_isa() == Isa::kAvx512 && __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 &&
         (a & kBf16) != 0;
#else
  return false;
#endif
}

bool choose_bf16(const char* text, Bf16* chosen) {
  const bool best = text == nullptr || *text == 0;
  if (best || strcmp(text, "native") == 0) {
    *chosen = cpu_dots_bf16() ? Bf16::kDots : Bf16::kWidened;
    return best || *chosen == Bf16::kDots;
  }
  const bool emulate = computes(DType::kF64) && strcmp(text, "emulate") == 0;
  *chosen = emulate ? Bf16::kEmulatedDots : Bf16::kWidened;
  return emulate || strcmp(text, "off") == 0;
}

bool cpu_has_amx() {
#if defined(__x86_64__)
  unsigned a, b, c, d, saved, high;
  if (cpu_isa() != Isa::kAvx512 || __get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  constexpr unsigned kBf16 = 1u << 22, kTile = 1u << 24, kInt8 = 1u << 25,
                     kAll = kBf16 | kTile | kInt8;
  constexpr unsigned kTilesSaved = 3u << 17;
  __asm__("xgetbv" : "=a"(saved), "=d"(high) : "c"(0));
  return (d & kAll) == kAll && (saved & kTilesSaved) == kTilesSaved;
#else
  return false;
#endif
}

bool choose_amx(const char* text, bool granted, Amx* chosen) {
  const bool best = text == nullptr || *text == 0;
  if (best || strcmp(text, "native") == 0) {
    *chosen = granted ? Amx::kTiles : Amx::kOff;
    return best || granted;
  }
  const bool emulate = computes(DType::kF64) && strcmp(text, "emulate") == 0;
  *chosen = emulate ? Amx::kEmulatedTiles : Amx::kOff;
  return emulate || strcmp(text, "off") == 0;
}

bool choose_caches(const char* text, int64_t l2_bytes, Caches* chosen) {
  constexpr int64_t kLargeL2 = 768 << 10;
  if (text == nullptr || *text == 0) {
    *chosen = l2_bytes < kLargeL2 ? Caches::kSmall : Caches::kLarge;
    return true;
  }
  for (int i = 0; i < kCachesCount; ++i) {
    const auto caches = static_cast<Caches>(i);
    if (strcmp(text, caches_name(caches)) != 0) continue;
    *chosen = caches;
    return true;
  }
  return false;
}

const char* caches_name(Caches caches) {
  constexpr const char* kNames[kCachesCount] = {"small", "large"};
  return kNames[static_cast<int>(caches)];
}

const char* bf16_name(Bf16 bf16) {
  constexpr const char* kNames[] = {"widened", "dots", "emulated dots"};
  return kNames[static_cast<int>(bf16)];
}

const char* amx_name(Amx amx) {
  constexpr const char* kNames[] = {"off", "tiles", "emulated tiles"};
  return kNames[static_cast<int>(amx)];
}

const char* isa_name(Isa isa) {
  constexpr const char* kNames[kIsaCount] = {"scalar", "avx2", "avx512", "neon", "neondot"};
  return kNames[static_cast<int>(isa)];
}

}  // namespace proa
