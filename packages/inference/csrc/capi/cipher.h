#pragma once
// AES-256-GCM by OpenSSL's libcrypto, which is loaded when it is first needed.
#include <cstddef>
#include <cstdint>
#include <vector>

namespace proa::capi {

constexpr size_t kHeaderBytes = 24, kTagBytes = 16;

/// Whether the bytes begin as an encrypted model does.
bool is_encrypted(const void* bytes, size_t size);

/// Both throw EngineError: kUnimplemented without libcrypto, kVersion for a later format, kBadModel
/// if the bytes were changed or the key is another. `out` has size + 40 bytes, or size - 40.
void encrypt(const void* bytes, size_t size, const uint8_t* key, uint8_t* out);
void decrypt(const void* bytes, size_t size, const uint8_t* key, uint8_t* out);

}  // namespace proa::capi
