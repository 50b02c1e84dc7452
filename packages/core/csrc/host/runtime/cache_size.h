#pragma once
// The size of the second-level cache, as the CPU or else the operating system reports it.
#include <stdint.h>

namespace proa {

/// Bytes of the L2 cache of one core: from CPUID on x86, else from sysconf, else from Linux's
/// files; 0 where all are silent.
int64_t l2_cache_bytes();
/// The same from the files of one CPU: `folder`/index0/size and so on, as in
/// /sys/devices/system/cpu/cpu0/cache.
int64_t l2_cache_bytes_of_files(const char* folder);

}  // namespace proa
