#pragma once
// Settings of a process that kernels read. They are set before the first model is prepared and do
// not change: prepacked weights depend on them.
#include <stdint.h>

#include "proa/base/inline.h"

// A library for given models omits Winograd convolution if none of them uses it.
#if !defined(PROA_HAS_WINOGRAD)
#define PROA_HAS_WINOGRAD 1
#endif
// The same of the depthwise kernels; the general ones compute these too, but slowly.
#if !defined(PROA_HAS_DEPTHWISE)
#define PROA_HAS_DEPTHWISE 1
#endif
// Chains of elementwise ops and outputs that overwrite inputs, which model files do not contain.
#if !defined(PROA_HAS_CHAINS)
#define PROA_HAS_CHAINS 1
#endif
#if !defined(PROA_HAS_STORES)
#define PROA_HAS_STORES 1
#endif
// Norms within convolutions, which a library without that op does not need.
#if !defined(PROA_HAS_CHANNEL_END)
#define PROA_HAS_CHANNEL_END 1
#endif
// Code for arrays larger than the caches, which small devices seldom have.
#if !defined(PROA_HAS_LARGE)
#define PROA_HAS_LARGE 1
#endif
// What a refused call did not meet, as a text (base/expect.h).
#if !defined(PROA_HAS_FAILURES)
#define PROA_HAS_FAILURES 1
#endif

namespace proa {

constexpr bool kHasLarge = PROA_HAS_LARGE != 0;
constexpr bool kHasChains = PROA_HAS_CHAINS != 0;
constexpr bool kHasStores = PROA_HAS_STORES != 0;
constexpr bool kHasWinograd = PROA_HAS_WINOGRAD != 0;
constexpr bool kHasDepthwise = PROA_HAS_DEPTHWISE != 0;
constexpr bool kHasFailures = PROA_HAS_FAILURES != 0;
constexpr bool kHasChannelEpilogue = PROA_HAS_CHANNEL_END != 0;

/// How AVX-512 multiplies bfloat16: widened to float, or by the dot product of pairs.
enum class Bf16 : uint8_t { kWidened, kDots, kEmulatedDots };

/// Whether AVX-512 multiplies bfloat16 (unless Bf16::kWidened) and int8 by AMX's tiles.
enum class Amx : uint8_t { kOff, kTiles, kEmulatedTiles };

/// The data caches that blocks are sized for: the rows of kCacheProfiles (simd/tuning.h).
enum class Caches : uint8_t { kSmall, kLarge };
constexpr int kCachesCount = 2;

struct Settings {
  bool winograd = true;            // PROA_WINOGRAD=0: every convolution by direct summation
  Bf16 bf16 = Bf16::kWidened;      // PROA_BF16, see choose_bf16
  Amx amx = Amx::kOff;             // PROA_AMX, see choose_amx
  Caches caches = Caches::kSmall;  // PROA_CACHES, see choose_caches
};

/// The process's settings, in base/settings.cc: one object for all instruction sets.
extern Settings process_settings;
PROA_INLINE Settings& settings() { return process_settings; }

}  // namespace proa
