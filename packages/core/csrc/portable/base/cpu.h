#pragma once
// What the CPU can do.
#include "proa/base/op_table.h"

namespace proa {

enum class Bf16 : uint8_t;    // see settings.h
enum class Amx : uint8_t;     // see settings.h
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

/// True if the CPU has AMX's tiles and their products of bfloat16 and int8, and the system keeps
/// them for the threads of processes that request it.
bool cpu_has_amx();
/// Settings::amx as `text` selects it: "off", "native", "emulate" (not in builds without doubles),
/// or nothing, which is the best if the system has `granted` the process tiles. False of other
/// texts and of "native" without them.
bool choose_amx(const char* text, bool granted, Amx* chosen);

/// Settings::caches as `text` selects it: "small", "large", or nothing, which is the profile for an
/// L2 cache of so many bytes (0: unknown). False of other texts.
bool choose_caches(const char* text, int64_t l2_bytes, Caches* chosen);
/// The name of a profile, as choose_caches takes it.
const char* caches_name(Caches caches);
const char* bf16_name(Bf16 bf16);
const char* amx_name(Amx amx);

}  // namespace proa
