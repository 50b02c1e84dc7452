#include "proa/base/op_table.h"

#include "proa/base/isa_table.h"

namespace proa {

extern const OpInfo kOps[];
extern const uint16_t kOpsByName[];
extern const int kOpCount;

namespace {

Isa chosen = Isa::kScalar;
ExtraOp* extras = nullptr;  // the newest first
int extra_count = 0;

int compare(const char* a, const char* b) {
  while (*a != 0 && *a == *b) ++a, ++b;
  return static_cast<unsigned char>(*a) - static_cast<unsigned char>(*b);
}

}  // namespace

const OpInfo* find_op(const char* name) {
  int low = 0, high = kOpCount;
  while (low < high) {
    const int middle = (low + high) / 2;
    const OpInfo& op = kOps[kOpsByName[middle]];
    const int order = compare(name, op.name);
    if (order == 0) return &op;
    if (order < 0) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  for (const ExtraOp* op = extras; op != nullptr; op = op->next) {
    if (compare(name, op->info.name) == 0) return &op->info;
  }
  return nullptr;
}

void register_op(ExtraOp* op) {
  op->info.id = static_cast<uint16_t>(kOpCount + extra_count++);
  op->next = extras;
  extras = op;
}

const OpInfo& op_info(int id) { return kOps[id]; }

int op_count() { return kOpCount; }

// A kernel that the chosen ISA lacks is taken from the next lower one. The search takes a few
// steps; callers for whom that matters keep the entry (a plan binds it once).
const KernelEntry& kernel_of(int id) {
  static constexpr KernelEntry kNone{};
  if (id >= kOpCount) {
    for (const ExtraOp* op = extras; op != nullptr; op = op->next) {
      if (op->info.id == id) return op->kernel;
    }
    return kNone;
  }
  for (int i = kIsaTableCount - 1; i >= 0; --i) {
    if (kIsaTables[i].isa > chosen) continue;
    if (kIsaTables[i].kernels[id].run != nullptr) return kIsaTables[i].kernels[id];
  }
  return kNone;
}

void select_isa(Isa best) {
  chosen = kIsaTables[0].isa;
  for (int i = 0; i < kIsaTableCount; ++i) {
    if (kIsaTables[i].isa <= best) chosen = kIsaTables[i].isa;
  }
}

Isa selected_isa() { return chosen; }

}  // namespace proa
