#include "proa/model/compressed.h"

#include <string.h>

namespace proa {

namespace {

constexpr size_t kHead = 16;  // the signature and the size
constexpr char kSignature[] = "PROADEFL";
constexpr uint64_t kMaxRatio = 1032;  // of deflate: 258 bytes in two bits

// RFC 1951, 3.2.5: the least length or distance of a symbol, and how many bits follow it.
constexpr uint16_t kLengths[29] = {3,  4,  5,  6,  7,  8,  9,  10, 11,  13,  15,  17,  19,  23, 27,
                                   31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258};
constexpr uint8_t kLengthBits[29] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
                                     2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
constexpr uint16_t kDistances[30] = {1,    2,    3,    4,    5,    7,    9,    13,    17,    25,
                                     33,   49,   65,   97,   129,  193,  257,  385,   513,   769,
                                     1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577};
constexpr uint8_t kDistanceBits[30] = {0, 0, 0, 0, 1, 1, 2, 2,  3,  3,  4,  4,  5,  5,  6,
                                       6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13};
// 3.2.7: the order of the lengths of the code that encodes lengths.
constexpr uint8_t kOrder[19] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};

constexpr int kMaxBits = 15;
constexpr int kEndOfBlock = 256, kLiterals = 288, kDistanceSymbols = 30, kCodeSymbols = 19;

/// A canonical Huffman code: how many symbols have each length, and the symbols in the order of
/// their codes.
struct Code {
  uint16_t counts[kMaxBits + 1];
  uint16_t symbols[kLiterals];

  /// From the length of each symbol's code, 0 of those without. False if lengths are no prefix
  /// code, or an incomplete one of more than one symbol.
  bool build(const uint8_t* lengths, int count) {
    memset(counts, 0, sizeof(counts));
    for (int i = 0; i < count; ++i) ++counts[lengths[i]];
    int coded = count - counts[0];
    counts[0] = 0;
    int left = 1;  // codes of this length that are not taken
    uint16_t first[kMaxBits + 2] = {};
    for (int n = 1; n <= kMaxBits; ++n) {
      left = 2 * left - counts[n];
      if (left < 0) return false;
      first[n + 1] = static_cast<uint16_t>(first[n] + counts[n]);
    }
    for (int i = 0; i < count; ++i) {
      if (lengths[i] != 0) symbols[first[lengths[i]]++] = static_cast<uint16_t>(i);
    }
    return left == 0 || coded <= 1;
  }
};

/// Reads bits, the low ones of a byte first, and writes what they decode to.
class Inflater {
 public:
  Inflater(const uint8_t* in, size_t size, uint8_t* out, size_t out_size)
      : in_(in), end_(in + size), out_(out), begin_(out), out_end_(out + out_size) {}

  bool run() {
    bool last = false;
    while (!last) {
      last = bits(1) != 0;
      const uint32_t kind = bits(2);
      const bool fine = kind == 0 ? stored() : kind == 1 ? fixed() : kind == 2 && dynamic();
      if (!fine || failed_) return false;
    }
    return in_ == end_ && out_ == out_end_;
  }

 private:
  uint32_t bits(int count) {
    while (held_ < count) {
      if (in_ == end_) {
        failed_ = true;
        return 0;
      }
      buffer_ |= static_cast<uint32_t>(*in_++) << held_;
      held_ += 8;
    }
    const uint32_t value = buffer_ & ((1u << count) - 1);
    buffer_ >>= count;
    held_ -= count;
    return value;
  }

  /// The next symbol, or -1. Codes of one length are consecutive numbers, and begin after twice
  /// those of the length before.
  int symbol(const Code& code) {
    int value = 0, first = 0, index = 0;
    for (int n = 1; n <= kMaxBits; ++n) {
      value |= static_cast<int>(bits(1));
      if (failed_) return -1;
      const int count = code.counts[n];
      if (value - first < count) return code.symbols[index + value - first];
      index += count;
      first = (first + count) << 1;
      value <<= 1;
    }
    return -1;
  }

  bool stored() {
    buffer_ = 0;  // less than a byte is held between symbols
    held_ = 0;
    if (end_ - in_ < 4) return false;
    const size_t size = in_[0] | in_[1] << 8;
    if ((size ^ 0xffff) != static_cast<size_t>(in_[2] | in_[3] << 8)) return false;
    in_ += 4;
    if (size > static_cast<size_t>(end_ - in_) || size > static_cast<size_t>(out_end_ - out_)) {
      return false;
    }
    memcpy(out_, in_, size);
    in_ += size;
    out_ += size;
    return true;
  }

  bool fixed() {
    uint8_t lengths[kLiterals];
    for (int i = 0; i < kLiterals; ++i) {
      lengths[i] = i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8;
    }
    literals_.build(lengths, kLiterals);
    memset(lengths, 5, kDistanceSymbols);
    distances_.build(lengths, kDistanceSymbols);  // two of the 32 codes have no meaning
    return symbols();
  }

  bool dynamic() {
    const int literals = static_cast<int>(bits(5)) + 257;
    const int distances = static_cast<int>(bits(5)) + 1;
    const int codes = static_cast<int>(bits(4)) + 4;
    if (failed_ || literals > kLiterals - 2 || distances > kDistanceSymbols) return false;
    uint8_t lengths[kLiterals + kDistanceSymbols] = {};
    for (int i = 0; i < codes; ++i) lengths[kOrder[i]] = static_cast<uint8_t>(bits(3));
    Code& code = literals_;
    if (failed_ || !code.build(lengths, kCodeSymbols)) return false;
    memset(lengths, 0, kCodeSymbols);
    for (int i = 0; i < literals + distances;) {
      const int next = symbol(code);
      if (next < 0) return false;
      if (next < 16) {
        lengths[i++] = static_cast<uint8_t>(next);
        continue;
      }
      if (next == 16 && i == 0) return false;
      const uint8_t value = next == 16 ? lengths[i - 1] : 0;
      const int count = next == 16   ? 3 + static_cast<int>(bits(2))
                        : next == 17 ? 3 + static_cast<int>(bits(3))
                                     : 11 + static_cast<int>(bits(7));
      if (failed_ || count > literals + distances - i) return false;
      memset(lengths + i, value, static_cast<size_t>(count));
      i += count;
    }
    if (lengths[kEndOfBlock] == 0) return false;
    return literals_.build(lengths, literals) && distances_.build(lengths + literals, distances) &&
           symbols();
  }

  /// Literals and copies of earlier bytes, to the end of the block.
  bool symbols() {
    for (;;) {
      const int next = symbol(literals_);
      if (next == kEndOfBlock) return true;
      if (next < 0 || next > kEndOfBlock + 29) return false;
      if (next < kEndOfBlock) {
        if (out_ == out_end_) return false;
        *out_++ = static_cast<uint8_t>(next);
        continue;
      }
      const int kind = next - kEndOfBlock - 1;
      const size_t length = kLengths[kind] + size_t{bits(kLengthBits[kind])};
      const int from = symbol(distances_);
      if (from < 0) return false;
      const size_t distance = kDistances[from] + size_t{bits(kDistanceBits[from])};
      if (failed_ || distance > static_cast<size_t>(out_ - begin_) ||
          length > static_cast<size_t>(out_end_ - out_)) {
        return false;
      }
      for (const uint8_t* stop = out_ + length; out_ != stop; ++out_) *out_ = *(out_ - distance);
    }
  }

  const uint8_t *in_, *end_;
  uint8_t *out_, *begin_, *out_end_;
  uint32_t buffer_ = 0;
  int held_ = 0;
  bool failed_ = false;
  Code literals_, distances_;
};

}  // namespace

bool is_compressed_model(const void* bytes, size_t size) {
  return size >= kHead && memcmp(bytes, kSignature, 8) == 0;
}

uint64_t expanded_model_size(const void* bytes, size_t size) {
  uint64_t stated;
  memcpy(&stated, static_cast<const uint8_t*>(bytes) + 8, 8);
  return stated / kMaxRatio <= size ? stated : 0;
}

Status expand_model(const void* bytes, size_t size, void* out) {
  const auto* in = static_cast<const uint8_t*>(bytes);
  const auto stated = static_cast<size_t>(expanded_model_size(bytes, size));
  return inflate(in + kHead, size - kHead, static_cast<uint8_t*>(out), stated);
}

Status inflate(const uint8_t* in, size_t size, uint8_t* out, size_t out_size) {
  return Inflater(in, size, out, out_size).run() ? Status::kOk : Status::kBadModel;
}

}  // namespace proa
