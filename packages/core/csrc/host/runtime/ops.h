#pragma once
// The operator table as host code reads it: rows and this machine's kernels side by side.
#include "proa/base/cpu.h"
#include "proa/base/op_table.h"

namespace proa {

struct OpEntry {
  const OpInfo* info;
  KernelEntry kernel;  // of the selected ISA
};

/// Every op by its id. The first call chooses the ISA: the best of this CPU and build, or what
/// PROA_ISA names; throws Error if that is unknown or not supported here.
const OpEntry* op_entries();
int op_entry_count();
/// The entry of the row of that name, or nullptr.
const OpEntry* find_entry(const char* name);

/// Whether kernels were chosen, so that settings of the environment have no effect any more.
bool kernels_are_chosen();
/// The ISA in use.
Isa active_isa();
/// The cache profile in use: for this CPU, or what PROA_CACHES names.
Caches active_caches();
/// How bfloat16 is multiplied: kWidened on other instruction sets than AVX-512.
Bf16 active_bf16();
Amx active_amx();
}  // namespace proa
