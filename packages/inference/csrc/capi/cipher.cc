// The format is described in docs/inference.md and in encryption.py, which writes it as well.
#include "cipher.h"

#include <dlfcn.h>
#include <string.h>

#include <algorithm>
#include <string>

#include "proa/runtime/engine.h"

namespace proa::capi {

namespace {

constexpr char kMagic[] = "PROAENC";
constexpr size_t kMagicBytes = sizeof(kMagic) - 1, kNonceAt = 8, kNonceBytes = 12;
constexpr uint8_t kFormat = 1;
constexpr int kSetTag = 0x11, kGetTag = 0x10;  // EVP_CTRL_GCM_SET_TAG and _GET_TAG
constexpr size_t kChunk = size_t{1} << 26;     // its lengths are int

[[noreturn]] void refuse(Status status, const std::string& what) {
  throw EngineError(status, "[cipher] " + what);
}

/// The functions of libcrypto that are used.
struct Library {
  void* (*context_new)() = nullptr;
  void (*context_free)(void*) = nullptr;
  const void* (*aes_256_gcm)() = nullptr;
  int (*init)(void*, const void*, void*, const uint8_t*, const uint8_t*, int) = nullptr;
  int (*update)(void*, uint8_t*, int*, const uint8_t*, int) = nullptr;
  int (*finish)(void*, uint8_t*, int*) = nullptr;
  int (*control)(void*, int, int, void*) = nullptr;
  int (*random)(uint8_t*, int) = nullptr;
  bool whole = true;

  Library() {
    void* handle = nullptr;
    for (const char* name : {"libcrypto.so.3", "libcrypto.so.1.1", "libcrypto.so"}) {
      if (handle == nullptr) handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    }
    find(handle, "EVP_CIPHER_CTX_new", &context_new);
    find(handle, "EVP_CIPHER_CTX_free", &context_free);
    find(handle, "EVP_aes_256_gcm", &aes_256_gcm);
    find(handle, "EVP_CipherInit_ex", &init);
    find(handle, "EVP_CipherUpdate", &update);
    find(handle, "EVP_CipherFinal_ex", &finish);
    find(handle, "EVP_CIPHER_CTX_ctrl", &control);
    find(handle, "RAND_bytes", &random);
  }

 private:
  template <class Function>
  void find(void* handle, const char* name, Function* function) {
    *function = handle == nullptr ? nullptr : reinterpret_cast<Function>(dlsym(handle, name));
    whole = whole && *function != nullptr;
  }
};

const Library& library() {
  static const Library loaded;
  if (!loaded.whole) {
    refuse(Status::kUnimplemented, "expected OpenSSL's libcrypto of version 1.1 or 3, got none");
  }
  return loaded;
}

/// One pass over the data; `encrypts` is 1 or 0.
class Pass {
 public:
  Pass(const uint8_t* header, const uint8_t* key, int encrypts)
      : lib_(library()), context_(lib_.context_new()) {
    if (context_ == nullptr) refuse(Status::kResourceExhausted, "memory is exhausted");
    int count = 0;
    check(lib_.init(context_, lib_.aes_256_gcm(), nullptr, key, header + kNonceAt, encrypts));
    check(lib_.update(context_, nullptr, &count, header, kHeaderBytes));
  }
  ~Pass() { lib_.context_free(context_); }
  Pass(const Pass&) = delete;
  Pass& operator=(const Pass&) = delete;

  void convert(const uint8_t* from, size_t size, uint8_t* to) {
    for (size_t at = 0; at < size; at += kChunk) {
      const int count = static_cast<int>(std::min(kChunk, size - at));
      int written = 0;
      check(lib_.update(context_, to + at, &written, from + at, count));
    }
  }
  void write_tag(uint8_t* tag) {
    uint8_t rest[16];
    int count = 0;
    check(lib_.finish(context_, rest, &count));
    check(lib_.control(context_, kGetTag, kTagBytes, tag));
  }
  bool has_tag(const uint8_t* tag) {
    uint8_t rest[16], copy[kTagBytes];
    int count = 0;
    memcpy(copy, tag, kTagBytes);
    check(lib_.control(context_, kSetTag, kTagBytes, copy));
    return lib_.finish(context_, rest, &count) == 1;
  }

 private:
  static void check(int result) {
    if (result != 1) refuse(Status::kUnimplemented, "libcrypto refused AES-256-GCM");
  }
  const Library& lib_;
  void* context_;
};

}  // namespace

bool is_encrypted(const void* bytes, size_t size) {
  return size >= kMagicBytes && memcmp(bytes, kMagic, kMagicBytes) == 0;
}

void encrypt(const void* bytes, size_t size, const uint8_t* key, uint8_t* out) {
  memset(out, 0, kHeaderBytes);
  memcpy(out, kMagic, kMagicBytes);
  out[kMagicBytes] = kFormat;
  if (library().random(out + kNonceAt, kNonceBytes) != 1) {
    refuse(Status::kResourceExhausted, "libcrypto has no random numbers");
  }
  Pass pass(out, key, 1);
  pass.convert(static_cast<const uint8_t*>(bytes), size, out + kHeaderBytes);
  pass.write_tag(out + kHeaderBytes + size);
}

void decrypt(const void* bytes, size_t size, const uint8_t* key, uint8_t* out) {
  const auto* from = static_cast<const uint8_t*>(bytes);
  if (!is_encrypted(bytes, size) || size < kHeaderBytes + kTagBytes) {
    refuse(Status::kBadModel,
           "expected an encrypted model of at least 40 bytes, got " + std::to_string(size));
  }
  if (from[kMagicBytes] != kFormat) {
    refuse(Status::kVersion, "expected version 1 of the format of encrypted models, got " +
                                 std::to_string(from[kMagicBytes]));
  }
  const size_t count = size - kHeaderBytes - kTagBytes;
  Pass pass(from, key, 0);
  pass.convert(from + kHeaderBytes, count, out);
  if (pass.has_tag(from + kHeaderBytes + count)) return;
  memset(out, 0, count);
  refuse(Status::kBadModel,
         "expected the key and the bytes that the model was encrypted with, got another key or "
         "bytes that were changed");
}

}  // namespace proa::capi
