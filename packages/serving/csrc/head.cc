#include "head.h"

#include <stdint.h>
#include <string.h>

#include <algorithm>

namespace proa::serving {
namespace {

constexpr size_t kMaxHead = 8192;  // longer ones are parsed
constexpr size_t kMaxName = 64;
constexpr size_t kMaxDigits = 9;
constexpr char kBodyName[] = "content-length";
constexpr char kTextName[] = "inference-header-content-length";

/// Whether a header's name may have `byte` (RFC 9110, section 5.6.2).
bool is_token(unsigned char byte) {
  if ((byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z')) return true;
  if (byte >= '0' && byte <= '9') return true;
  return byte != 0 && strchr("!#$%&'*+-.^_`|~", byte) != nullptr;
}

bool is_value(const char* begin, const char* end) {
  return std::all_of(
      begin, end, [](unsigned char byte) { return byte == '\t' || (byte >= 0x20 && byte < 0x7f); });
}

bool read_number(const char* begin, const char* end, size_t* number) {
  if (begin != end && *begin == ' ') ++begin;
  if (begin == end || end - begin > static_cast<ptrdiff_t>(kMaxDigits)) return false;
  *number = 0;
  for (; begin != end; ++begin) {
    if (*begin < '0' || *begin > '9') return false;
    *number = *number * 10 + static_cast<size_t>(*begin - '0');
  }
  return true;
}

/// Bytes of the line that `data` begins with, CR and LF included; 0 if it does not end so.
size_t line_size(const char* data, size_t size) {
  const void* found = memchr(data, '\n', size);
  if (found == nullptr) return 0;
  const char* end = static_cast<const char*>(found);
  return end == data || end[-1] != '\r' ? 0 : static_cast<size_t>(end - data) + 1;
}

}  // namespace

HeadPattern::Kind HeadPattern::classify(const char* line, size_t size, size_t* number) const {
  char name[kMaxName];
  size_t length = 0;
  const size_t text = size - 2;  // without CR and LF
  while (length < text && is_token(static_cast<unsigned char>(line[length]))) {
    if (length == kMaxName) return Kind::kInvalid;
    const char byte = line[length];
    name[length++] = byte >= 'A' && byte <= 'Z' ? static_cast<char>(byte + 32) : byte;
  }
  if (length == 0 || length == text || line[length] != ':') return Kind::kInvalid;
  const char *begin = line + length + 1, *end = line + text;
  const std::string named(name, length);
  if (named == kBodyName) return read_number(begin, end, number) ? Kind::kBody : Kind::kInvalid;
  if (named == kTextName) return read_number(begin, end, number) ? Kind::kText : Kind::kInvalid;
  if (!is_value(begin, end)) return Kind::kInvalid;
  const bool is_read = std::find(read_.begin(), read_.end(), named) != read_.end();
  return is_read ? Kind::kRead : Kind::kOther;
}

bool HeadPattern::learn(const std::string& text, std::vector<std::string> read) {
  read_ = std::move(read);
  lines_.clear();
  size_t at = text.size() > kMaxHead ? 0 : line_size(text.data(), text.size());
  if (at < 3 || memchr(text.data(), '\r', at - 2) != nullptr) return false;
  request_ = text.substr(0, at);
  size_t bodies = 0, texts = 0;
  for (;;) {
    const size_t size = line_size(text.data() + at, text.size() - at);
    if (size == 0) return false;
    if (size == 2) break;
    Line line{Kind::kInvalid, text.substr(at, size), 0};
    line.kind = classify(text.data() + at, size, &line.number);
    if (line.kind == Kind::kInvalid) return false;
    bodies += line.kind == Kind::kBody;
    texts += line.kind == Kind::kText;
    lines_.push_back(std::move(line));
    at += size;
  }
  return at + 2 == text.size() && bodies == 1 && texts <= 1;
}

size_t HeadPattern::find_same(size_t next, const char* line, size_t size) const {
  for (; next < lines_.size(); ++next) {
    const std::string& text = lines_[next].text;
    if (text.size() == size && memcmp(text.data(), line, size) == 0) return next;
    if (lines_[next].kind != Kind::kOther) break;
  }
  return SIZE_MAX;
}

size_t HeadPattern::find_kind(size_t next, Kind kind) const {
  while (next < lines_.size() && lines_[next].kind == Kind::kOther) ++next;
  return next < lines_.size() && lines_[next].kind == kind ? next : SIZE_MAX;
}

bool HeadPattern::matches(const char* data, size_t size, Found* found) const {
  if (size < request_.size() || memcmp(data, request_.data(), request_.size()) != 0) return false;
  size = std::min(size, kMaxHead);
  size_t at = request_.size(), next = 0;
  *found = Found{};
  for (;;) {
    const size_t length = at < size ? line_size(data + at, size - at) : 0;
    if (length == 0) return false;
    if (length == 2) break;
    size_t same = find_same(next, data + at, length);
    Kind kind;
    size_t number = 0;
    if (same != SIZE_MAX) {
      kind = lines_[same].kind;
      number = lines_[same].number;
    } else {
      kind = classify(data + at, length, &number);
      if (kind == Kind::kInvalid || kind == Kind::kRead) return false;
      if (kind != Kind::kOther) same = find_kind(next, kind);
      if (kind != Kind::kOther && same == SIZE_MAX) return false;
    }
    if (same != SIZE_MAX) next = same + 1;
    if (kind == Kind::kBody) found->body = number;
    if (kind == Kind::kText) {
      found->text = number;
      found->has_text = true;
    }
    at += length;
  }
  while (next < lines_.size() && lines_[next].kind == Kind::kOther) ++next;
  found->head = at + 2;
  return next == lines_.size() && found->text <= found->body;
}

}  // namespace proa::serving
