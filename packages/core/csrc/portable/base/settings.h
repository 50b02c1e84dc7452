#pragma once
// Choices of a process that kernels follow. They are made before the first model is prepared and
// stay: prepacked weights depend on them.
#include <stdint.h>

// A library for given models leaves Winograd's way out if none of them takes it.
#if !defined(PROA_HAS_WINOGRAD)
#define PROA_HAS_WINOGRAD 1
#endif
// The same of depthwise convolutions' own way; others take them, but slowly.
#if !defined(PROA_HAS_DEPTHWISE)
#define PROA_HAS_DEPTHWISE 1
#endif
// Chains of elementwise ops and outputs that overwrite inputs, which files do not tell of.
#if !defined(PROA_HAS_CHAINS)
#define PROA_HAS_CHAINS 1
#endif
#if !defined(PROA_HAS_STORES)
#define PROA_HAS_STORES 1
#endif
// Norms within convolutions, which a library without that op has no use for.
#if !defined(PROA_HAS_CHANNEL_END)
#define PROA_HAS_CHANNEL_END 1
#endif
// What helps with arrays beyond the caches alone, which small devices seldom have.
#if !defined(PROA_HAS_LARGE)
#define PROA_HAS_LARGE 1
#endif

namespace proa {

constexpr bool kHasLarge = PROA_HAS_LARGE != 0;
constexpr bool kHasChains = PROA_HAS_CHAINS != 0;
constexpr bool kHasStores = PROA_HAS_STORES != 0;
constexpr bool kHasWinograd = PROA_HAS_WINOGRAD != 0;
constexpr bool kHasDepthwise = PROA_HAS_DEPTHWISE != 0;
constexpr bool kHasChannelEpilogue = PROA_HAS_CHANNEL_END != 0;

/// How AVX-512 multiplies bfloat16: as floats, or by the dot product of pairs.
enum class Bf16 : uint8_t { kWidened, kDots, kEmulatedDots };

struct Settings {
  bool winograd = true;        // PROA_WINOGRAD=0: every convolution as a direct sum of products
  Bf16 bf16 = Bf16::kWidened;  // PROA_BF16, see choose_bf16
};

inline Settings& settings() {
  static Settings chosen;
  return chosen;
}

}  // namespace proa
