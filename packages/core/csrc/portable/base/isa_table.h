#pragma once
// The kernel tables that this build holds (generated), lowest ISA first.
#include "proa/base/op_table.h"

namespace proa {

struct IsaTable {
  Isa isa;
  const KernelEntry* kernels;
};
extern const IsaTable kIsaTables[];
extern const int kIsaTableCount;

}  // namespace proa
