#include "pattern.h"

#include <string.h>

namespace proa::serving {

bool Pattern::are_valid(const std::vector<Range>& ranges, size_t size) {
  size_t last = 0;
  for (const Range& range : ranges) {
    if (range.begin < last || range.end <= range.begin || range.end > size) return false;
    last = range.end;
  }
  return true;
}

bool Pattern::matches(const char* data, size_t size) const {
  if (size < text_.size()) return false;
  for (const Range& range : literals_) {
    if (memcmp(data + range.begin, text_.data() + range.begin, range.end - range.begin) != 0) {
      return false;
    }
  }
  return true;
}

uint32_t read_stream(const char* at) {
  const auto* byte = reinterpret_cast<const unsigned char*>(at);
  if (byte[0] & 0x80) return kNoStream;
  return uint32_t{byte[0]} << 24 | uint32_t{byte[1]} << 16 | uint32_t{byte[2]} << 8 | byte[3];
}

}  // namespace proa::serving
