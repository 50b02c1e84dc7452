#pragma once
#include <stddef.h>
#include <stdint.h>

namespace proa {

/// CRC-32 (IEEE 802.3, as zlib) of bytes that follow others whose CRC-32 is `crc` (0 if none do),
/// by carry-less products where the CPU has them.
uint32_t crc32(uint32_t crc, const void* bytes, size_t size);

}  // namespace proa
