#pragma once
// A compressed model file: 8 bytes "PROADEFL", the size of the model file (u64), and the model file
// as a raw deflate stream (RFC 1951). No heap; any bytes end in a Status. Thread-safe.
#include <stddef.h>
#include <stdint.h>

#include "proa/base/status.h"

namespace proa {

/// Whether the bytes begin as a compressed model file.
bool is_compressed_model(const void* bytes, size_t size);

/// The size of the model file in one, or 0 if so few bytes cannot hold as many as they state.
uint64_t expanded_model_size(const void* bytes, size_t size);

/// Writes the model file in one to `out`, of expanded_model_size() bytes. kBadModel if the stream
/// is broken or has another size; what was written until then is undefined.
Status expand_model(const void* bytes, size_t size, void* out);

/// Decodes a raw deflate stream of `size` bytes, which must give exactly `out_size` bytes and end
/// with its last byte.
Status inflate(const uint8_t* in, size_t size, uint8_t* out, size_t out_size);

}  // namespace proa
