#include "proa/runtime/cache_size.h"

#include <unistd.h>

#include <fstream>
#include <string>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace proa {

namespace {

#if defined(__x86_64__)
/// One subleaf describes one cache: leaf 4 of Intel and 0x8000001D of AMD have the same form.
int64_t bytes_of_cpuid() {
  constexpr unsigned kIntelLeaf = 4, kAmdLeaf = 0x8000001d, kAmdFeatures = 0x80000001;
  constexpr unsigned kTopologyExtensions = 1u << 22;
  unsigned a, b, c, d;
  const bool amd = __get_cpuid(kAmdFeatures, &a, &b, &c, &d) != 0 && (c & kTopologyExtensions) != 0;
  for (unsigned i = 0; i < 16; ++i) {
    if (__get_cpuid_count(amd ? kAmdLeaf : kIntelLeaf, i, &a, &b, &c, &d) == 0) return 0;
    const unsigned type = a & 31, level = a >> 5 & 7;
    if (type == 0) return 0;  // the last
    if (level != 2) continue;
    const int64_t associativity = (b >> 22) + 1, partitions = (b >> 12 & 1023) + 1,
                  line = (b & 4095) + 1;
    return associativity * partitions * line * (int64_t{c} + 1);
  }
  return 0;
}
#endif

}  // namespace

int64_t l2_cache_bytes_of_files(const char* folder) {
  for (int i = 0;; ++i) {
    const std::string cache = std::string(folder) + "/index" + std::to_string(i) + "/";
    std::string unit;
    int64_t level = 0, size = 0;
    if (!(std::ifstream(cache + "level") >> level)) return 0;
    if (level != 2) continue;
    std::ifstream(cache + "size") >> size >> unit;  // such as 1024K
    return size << (unit == "M" ? 20 : 10);
  }
}

int64_t l2_cache_bytes() {
  int64_t bytes = 0;
#if defined(__x86_64__)
  bytes = bytes_of_cpuid();
#endif
#if defined(_SC_LEVEL2_CACHE_SIZE)
  if (bytes <= 0) bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
#endif
  return bytes > 0 ? bytes : l2_cache_bytes_of_files("/sys/devices/system/cpu/cpu0/cache");
}

}  // namespace proa
