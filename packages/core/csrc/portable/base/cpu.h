#pragma once
// What the CPU can do.
#include "proa/base/op_table.h"

namespace proa {

enum class Bf16 : uint8_t;    // see settings.h
enum class Caches : uint8_t;  // see settings.h

constexpr int kIsaCount = 5;

/// The best ISA of this CPU, whether or not the build has it.
Isa cpu_isa();
/// scalar, avx2, avx512, neon or neondot.
const char* isa_name(Isa isa);
/// True if the CPU has AVX512_BF16 in addition to AVX-512.
bool cpu_dots_bf16();
/// Settings::bf16 as `text` selects it: "off", "native", "emulate" (not in builds without doubles),
/// or nothing, which is the best for this CPU. False of other texts and of what the CPU cannot do.
bool choose_bf16(const char* text, Bf16* chosen);

/// Settings::caches as `text` selects it: "small", "large", or nothing, which is the profile for an
/// L2 cache of so many bytes (0: unknown). False of other texts.
bool choose_caches(const char* text, int64_t l2_bytes, Caches* chosen);
/// The name of a profile, as choose_caches takes it.
const char* caches_name(Caches caches);
const char* bf16_name(Bf16 bf16);

}  // namespace proa
