// Patterns of requests: against bytes that are compared one by one, and random bytes.
#include "pattern.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <memory>
#include <random>

using proa::serving::kNoStream;
using proa::serving::Pattern;
using proa::serving::read_stream;

namespace {

int failures = 0;

void expect(bool held, const char* what) {
  if (held) return;
  fprintf(stderr, "pattern_test: %s\n", what);
  ++failures;
}

/// A copy that ends where its memory does, so that a sanitizer sees a read past it.
std::unique_ptr<char[]> exact(const std::string& text) {
  std::unique_ptr<char[]> copy(new char[text.size()]);
  memcpy(copy.get(), text.data(), text.size());
  return copy;
}

bool matches(const Pattern& pattern, const std::string& data) {
  return pattern.matches(exact(data).get(), data.size());
}

void test_literals_must_agree() {
  const Pattern pattern("HEAD....tail", {{0, 4}, {8, 12}});
  expect(matches(pattern, "HEADxyz!tail"), "what is not literal may change");
  expect(matches(pattern, "HEAD....tail and more"), "more may follow");
  expect(!matches(pattern, "HEAd....tail"), "a literal byte must not change");
  expect(!matches(pattern, "HEAD....tai"), "all of it must be there");
  expect(!matches(pattern, ""), "nothing is not a request");
}

void test_ranges_must_be_in_order() {
  expect(Pattern::are_valid({}, 0), "no ranges");
  expect(Pattern::are_valid({{0, 1}, {1, 2}}, 2), "adjacent ranges");
  expect(!Pattern::are_valid({{0, 3}}, 2), "a range beyond the end");
  expect(!Pattern::are_valid({{1, 1}}, 2), "an empty range");
  expect(!Pattern::are_valid({{0, 2}, {1, 3}}, 4), "ranges that overlap");
  expect(!Pattern::are_valid({{2, 3}, {0, 1}}, 4), "ranges out of order");
  expect(!Pattern::are_valid({{SIZE_MAX, 1}}, 4), "a range that wraps");
}

void test_streams_have_31_bits() {
  expect(read_stream("\x00\x00\x00\x01") == 1, "the first stream");
  expect(read_stream("\x7f\xff\xff\xff") == 0x7fffffff, "the last stream");
  expect(read_stream("\x80\x00\x00\x01") == kNoStream, "the reserved bit");
}

void fuzz_against_bytes_compared_one_by_one() {
  std::mt19937 random(18);
  const auto below = [&random](size_t limit) { return random() % limit; };
  for (int round = 0; round < 20000; ++round) {
    std::string text(1 + below(40), 'a');
    for (char& each : text) each = "ab"[below(2)];
    std::vector<Pattern::Range> ranges;
    std::vector<bool> literal(text.size(), false);
    for (size_t at = below(4); at < text.size(); at += below(4)) {
      const size_t end = std::min(text.size(), at + 1 + below(5));
      ranges.push_back({at, end});
      for (; at < end; ++at) literal[at] = true;
    }
    expect(Pattern::are_valid(ranges, text.size()), "ranges of the fuzz test");
    const Pattern pattern(text, ranges);
    std::string data = text.substr(0, below(text.size() + 1));
    data.resize(data.size() + below(8) + (below(2) ? text.size() - data.size() : 0), 'a');
    for (size_t flips = below(3); flips && !data.empty(); --flips) data[below(data.size())] ^= 3;
    bool wanted = data.size() >= text.size();
    for (size_t at = 0; wanted && at < text.size(); ++at) {
      wanted = !literal[at] || data[at] == text[at];
    }
    expect(matches(pattern, data) == wanted, "a random request");
  }
}

}  // namespace

int main() {
  test_literals_must_agree();
  test_ranges_must_be_in_order();
  test_streams_have_31_bits();
  fuzz_against_bytes_compared_one_by_one();
  return failures ? 1 : 0;
}
