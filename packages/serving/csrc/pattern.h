#pragma once
#include <stddef.h>
#include <stdint.h>

#include <string>
#include <vector>

namespace proa::serving {

/// Bytes that a client repeats, and the ranges of them that change.
///
/// The text is a request that was parsed and answered before. Another one is the same request with
/// other numbers where it is as long and agrees in every literal range; nothing is parsed again.
/// Immutable once made; any thread may read it.
class Pattern {
 public:
  struct Range {
    size_t begin, end;
  };
  /// Whether ranges are in order, apart, not empty, and within `size` bytes.
  static bool are_valid(const std::vector<Range>& ranges, size_t size);

  /// `literals` must be valid; what they leave out may be anything.
  Pattern(std::string text, std::vector<Range> literals)
      : text_(std::move(text)), literals_(std::move(literals)) {}

  size_t size() const { return text_.size(); }
  /// Whether `data` begins with a request of this pattern.
  bool matches(const char* data, size_t size) const;

 private:
  std::string text_;
  std::vector<Range> literals_;
};

/// A number of 31 bits, big-endian, as HTTP/2 names streams (RFC 9113, section 4.1); the bit above
/// them, which must be ignored, makes it `kNoStream`.
constexpr uint32_t kNoStream = UINT32_MAX;
uint32_t read_stream(const char* at);

}  // namespace proa::serving
