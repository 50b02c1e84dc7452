#pragma once
#include <stddef.h>

#include <string>
#include <vector>

namespace proa::serving {

/// A head of HTTP/1.1 that was parsed and accepted, and what another one may differ in.
///
/// Another head means the same where its request line agrees, and every line whose header the
/// server reads: those are compared byte by byte, in their order. Two headers are read as numbers,
/// Content-Length and Inference-Header-Content-Length. Lines of other headers, such as traceparent,
/// may change, come and go, if they are well-formed (RFC 9112, section 5). Whatever is not
/// recognised is left to the parser, which decides what it means.
/// Immutable once made; any thread may read it.
class HeadPattern {
 public:
  struct Found {
    size_t head = 0;  // bytes of the head
    size_t body = 0;  // and of what follows
    size_t text = 0;  // of that, what is JSON, where has_text
    bool has_text = false;
  };

  /// Makes the pattern of `text`, a whole head; false where it is none that may be repeated. `read`
  /// names the headers, in lower case, that must agree.
  bool learn(const std::string& text, std::vector<std::string> read);
  /// Whether `data` begins with a head that means the same.
  bool matches(const char* data, size_t size, Found* found) const;

 private:
  enum class Kind { kInvalid, kOther, kRead, kBody, kText };
  struct Line {
    Kind kind;
    std::string text;
    size_t number;
  };
  Kind classify(const char* line, size_t size, size_t* number) const;
  /// The line that `line` repeats, no earlier than `next`; SIZE_MAX if there is none.
  size_t find_same(size_t next, const char* line, size_t size) const;
  /// The next line that must be there, if it is of `kind`; SIZE_MAX if not.
  size_t find_kind(size_t next, Kind kind) const;

  std::string request_;
  std::vector<Line> lines_;
  std::vector<std::string> read_;
};

}  // namespace proa::serving
