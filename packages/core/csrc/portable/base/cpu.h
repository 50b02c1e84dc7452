#pragma once
// What the CPU can do.
#include "proa/base/op_table.h"

namespace proa {

constexpr int kIsaCount = 5;

/// The best ISA of this CPU, whatever the build holds.
Isa cpu_isa();
/// scalar, avx2, avx512, neon or neondot.
const char* isa_name(Isa isa);

}  // namespace proa
