#include "proa/runtime/ops.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "proa/base/cpu.h"
#include "proa/base/isa_table.h"
#include "proa/base/settings.h"
#include "proa/runtime/cache_size.h"
#include "proa/runtime/error.h"

namespace proa {

namespace {

std::atomic<bool> g_chosen{false};

bool in_build(Isa isa) {
  for (int i = 0; i < kIsaTableCount; ++i) {
    if (kIsaTables[i].isa == isa) return true;
  }
  return false;
}

bool runs_here(Isa isa) {
  if (isa == Isa::kScalar) return true;
  const bool x86 = isa == Isa::kAvx2 || isa == Isa::kAvx512;
  const bool cpu_x86 = cpu_isa() == Isa::kAvx2 || cpu_isa() == Isa::kAvx512;
  return x86 == cpu_x86 && isa <= cpu_isa();
}

std::string built_isas() {
  std::string names;
  for (int i = 0; i < kIsaTableCount; ++i) {
    names += (i > 0 ? ", " : "") + std::string(isa_name(kIsaTables[i].isa));
  }
  return names;
}

Isa wanted_isa() {
  const char* text = std::getenv("PROA_ISA");
  if (text == nullptr || *text == 0) return cpu_isa();
  for (int i = 0; i < kIsaCount; ++i) {
    const auto isa = static_cast<Isa>(i);
    if (std::strcmp(text, isa_name(isa)) != 0) continue;
    if (!runs_here(isa)) {
      throw Error(ErrorKind::kUnsupportedCpu,
                  std::string("[PROA_ISA] expected an instruction set of this CPU, got ") + text +
                      " on a CPU whose best is " + isa_name(cpu_isa()));
    }
    if (!in_build(isa)) {
      throw Error(ErrorKind::kUnsupportedCpu,
                  "[PROA_ISA] expected an instruction set of this build (" + built_isas() +
                      "), got " + text);
    }
    return isa;
  }
  throw Error(
      ErrorKind::kInvalidArgument,
      std::string("[PROA_ISA] expected one of scalar, avx2, avx512, neon, neondot, got ") + text);
}

/// Lets Linux keep AMX's tiles for the threads of this process and of its children. False where
/// it does not (before 5.16, or under a hypervisor that hides them).
bool request_amx() {
#if defined(__linux__) && defined(__x86_64__)
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

std::vector<OpEntry> make_entries() {
  const Isa isa = wanted_isa();
  bool any = false;
  for (int i = 0; i < kIsaTableCount; ++i) any |= runs_here(kIsaTables[i].isa);
  if (!any) {
    throw Error(ErrorKind::kUnsupportedCpu,
                "[proa] expected a CPU with one of the instruction sets of this build (" +
                    built_isas() + "), got one whose best is " + isa_name(cpu_isa()) +
                    "; a wheel of Proa has kernels for every CPU, a build for this one needs "
                    "PROA_ISAS=" +
                    isa_name(cpu_isa()));
  }
  select_isa(isa);
  const char* winograd = std::getenv("PROA_WINOGRAD");
  settings().winograd = winograd == nullptr || std::strcmp(winograd, "0") != 0;
  const char* bf16 = std::getenv("PROA_BF16");
  if (!choose_bf16(bf16, &settings().bf16)) {
    throw Error(ErrorKind::kInvalidArgument,
                std::string("[PROA_BF16] expected off, emulate, or native on a CPU that has "
                            "AVX512_BF16, got ") +
                    bf16);
  }
  const char* amx = std::getenv("PROA_AMX");
  if (!choose_amx(amx, cpu_has_amx() && request_amx(), &settings().amx)) {
    throw Error(ErrorKind::kInvalidArgument,
                std::string("[PROA_AMX] expected off, emulate, or native on a CPU that has AMX's "
                            "tiles, under a system that grants them, got ") +
                    amx);
  }
  const char* caches = std::getenv("PROA_CACHES");
  if (!choose_caches(caches, l2_cache_bytes(), &settings().caches)) {
    throw Error(ErrorKind::kInvalidArgument,
                std::string("[PROA_CACHES] expected one of small, large, got ") + caches);
  }
  std::vector<OpEntry> entries(static_cast<size_t>(op_count()));
  for (int i = 0; i < op_count(); ++i) {
    entries[static_cast<size_t>(i)] = {&op_info(i), kernel_of(i)};
  }
  g_chosen.store(true);
  return entries;
}

}  // namespace

const OpEntry* op_entries() {
  static const std::vector<OpEntry>* entries = new std::vector<OpEntry>(make_entries());
  return entries->data();
}

bool kernels_are_chosen() { return g_chosen.load(); }

int op_entry_count() { return op_count(); }

const OpEntry* find_entry(const char* name) {
  const OpInfo* info = find_op(name);
  if (info == nullptr || info->id >= op_count()) return nullptr;  // an extension's
  return op_entries() + info->id;
}

Isa active_isa() {
  op_entries();
  return selected_isa();
}

Bf16 active_bf16() { return active_isa() == Isa::kAvx512 ? settings().bf16 : Bf16::kWidened; }

Amx active_amx() { return active_isa() == Isa::kAvx512 ? settings().amx : Amx::kOff; }

Caches active_caches() {
  op_entries();
  return settings().caches;
}

}  // namespace proa
