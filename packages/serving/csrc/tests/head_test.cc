// Heads of requests: against a reading of them line by line, and random bytes.
#include "head.h"

#include <stdio.h>
#include <string.h>

#include <map>
#include <memory>
#include <random>

using proa::serving::HeadPattern;

namespace {

int failures = 0;

void expect(bool held, const char* what) {
  if (held) return;
  fprintf(stderr, "head_test: %s\n", what);
  ++failures;
}

const std::vector<std::string> kRead = {"host", "connection", "transfer-encoding"};
const char kLine[] = "POST /v2/models/m/infer HTTP/1.1\r\n";
const std::string kHead = std::string(kLine) +
                          "Host: a\r\nTraceparent: 00-1-2-01\r\n"
                          "Inference-Header-Content-Length: 10\r\nContent-Length: 30\r\n\r\n";

HeadPattern learned(const std::string& head) {
  HeadPattern pattern;
  expect(pattern.learn(head, kRead), "a head that is learned");
  return pattern;
}

/// From memory that ends where the data does, so that a sanitizer sees a read past it.
bool matches(const HeadPattern& pattern, const std::string& data, HeadPattern::Found* found) {
  std::unique_ptr<char[]> copy(new char[data.size()]);
  memcpy(copy.get(), data.data(), data.size());
  return pattern.matches(copy.get(), data.size(), found);
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  expect(at != std::string::npos, "what is replaced is there");
  return text.replace(at, from.size(), to);
}

void test_other_headers_may_change() {
  const HeadPattern pattern = learned(kHead);
  HeadPattern::Found found;
  expect(matches(pattern, kHead + "body", &found), "the same head");
  expect(found.head == kHead.size() && found.body == 30 && found.text == 10, "its numbers");
  const char* lines[] = {"Traceparent: other\r\n", "", "A: 1\r\nB: 2\r\n", "a:\r\n",
                         "Traceparent: 00-1-2-01\r\nTraceparent: 00-1-2-01\r\n"};
  for (const char* each : lines) {
    const std::string head = replaced(kHead, "Traceparent: 00-1-2-01\r\n", each);
    expect(matches(pattern, head, &found) && found.head == head.size(), each);
    expect(matches(learned(head), kHead, &found) && found.body == 30, each);
  }
  const std::string numbers = replaced(replaced(kHead, ": 30", ": 444"), ": 10", ": 0");
  expect(matches(pattern, numbers, &found) && found.body == 444 && found.text == 0, "numbers");
}

void test_whatever_else_differs_is_not_the_same() {
  const HeadPattern pattern = learned(kHead);
  HeadPattern::Found found;
  const std::string others[] = {
      replaced(kHead, "/m/", "/n/"),
      replaced(kHead, "Host: a", "Host: b"),
      replaced(kHead, "Host: a", "host: a"),
      replaced(kHead, "Host: a\r\n", ""),
      replaced(kHead, "Host: a\r\n", "Host: a\r\nHost: a\r\n"),
      replaced(kHead, "Traceparent:", "Transfer-Encoding:"),
      replaced(kHead, "Traceparent:", "connection:"),
      replaced(kHead, "Traceparent:", "Traceparent :"),
      replaced(kHead, "Traceparent:", " Traceparent:"),
      replaced(kHead, "Traceparent: ", "Traceparent"),
      replaced(kHead, "Traceparent", ""),
      replaced(kHead, "00-1", "00\x01"),
      replaced(kHead, "00-1", "00\x7f"),
      replaced(kHead, "00-1", "00\xff"),
      replaced(kHead, "00-1", "00\r1"),
      replaced(kHead, "00-1", "00\n1"),
      replaced(kHead, "00-1", std::string("00\0", 3)),
      replaced(kHead, ": 30", ": +30"),
      replaced(kHead, ": 30", ": 3 0"),
      replaced(kHead, ": 30", ": "),
      replaced(kHead, ": 30", ": 0x30"),
      replaced(kHead, ": 30", ": 1234567890"),
      replaced(kHead, ": 30", ": 9"),  // less than its JSON
      replaced(kHead, "Content-Length: 30\r\n\r\n", "\r\n"),
      replaced(kHead, "Content-Length: 30", "Content-Length: 30\r\nContent-Length: 31"),
      replaced(kHead, "30\r\n\r\n", "30\r\n\n"),
      replaced(kHead, "30\r\n\r\n", "30\n\r\n"),
      kHead.substr(0, kHead.size() - 1),
      "",
  };
  for (const std::string& each : others) expect(!matches(pattern, each, &found), each.c_str());
}

void test_what_may_not_be_learned() {
  HeadPattern pattern;
  const std::string line(kLine);
  const std::string heads[] = {"",
                               "\r\n",
                               line,
                               line + "\r\n",
                               line + "Host: a\r\n\r\n",
                               line + "Content-Length: 1\r\n\r\nx",
                               line + "Content-Length: 1\r\nContent-Length: 1\r\n\r\n",
                               line + "Content-Length: 1\r\nA b: c\r\n\r\n"};
  for (const std::string& each : heads) expect(!pattern.learn(each, kRead), each.c_str());
  expect(pattern.learn(line + "Content-Length: 1\r\n\r\n", kRead), "the least");
}

/// What a head says: each header that is read, with its values in order; empty if malformed.
std::map<std::string, std::string> meaning(const std::string& head) {
  std::map<std::string, std::string> found;
  size_t at = head.find("\r\n");
  found["request"] = head.substr(0, at);
  for (at += 2; head.compare(at, 2, "\r\n") != 0;) {
    const size_t end = head.find("\r\n", at), colon = head.find(':', at);
    if (end == std::string::npos || colon == std::string::npos || colon > end) return {};
    std::string name = head.substr(at, colon - at);
    for (char& each : name) each = static_cast<char>(tolower(static_cast<unsigned char>(each)));
    for (const char* each : {"host", "connection", "transfer-encoding", "content-length",
                             "inference-header-content-length"}) {
      if (name == each) found[name] += head.substr(colon + 1, end - colon - 1) + "\n";
    }
    at = end + 2;
  }
  return found;
}

/// A head that is recognised must say the same, but for two numbers that are its own.
void fuzz_against_a_reading_line_by_line() {
  std::mt19937 random(18);
  const auto below = [&random](size_t limit) { return random() % limit; };
  const HeadPattern pattern = learned(kHead);
  const std::string pool =
      "\r\n :0129aZ-\t\x01\xff"
      "Content-Length: Host: Connection";
  size_t known = 0;
  for (int round = 0; round < 200000; ++round) {
    std::string data = kHead;
    for (size_t changes = 1 + below(4); changes; --changes) {
      const size_t at = strlen(kLine) - 3 + below(data.size() - strlen(kLine) + 3);
      const size_t from = below(pool.size());
      const std::string part = pool.substr(from, 1 + below(3));
      if (below(3) == 0) {
        data.insert(at, part);
      } else {
        data.replace(at, 1 + below(2), below(4) ? part.substr(0, 1) : "");
      }
    }
    HeadPattern::Found found;
    if (!matches(pattern, data, &found)) continue;
    ++known;
    expect(found.head <= data.size() && data.compare(found.head - 4, 4, "\r\n\r\n") == 0, "end");
    auto said = meaning(data.substr(0, found.head)), wanted = meaning(kHead);
    const std::string length = said["content-length"],
                      text = said["inference-header-content-length"];
    expect(std::stoul(length) == found.body && std::stoul(text) == found.text, "its numbers");
    wanted["content-length"] = length;
    wanted["inference-header-content-length"] = text;
    expect(said == wanted, "a random head");
  }
  expect(known > 1000, "some random heads are known");
}

}  // namespace

int main() {
  test_other_headers_may_change();
  test_whatever_else_differs_is_not_the_same();
  test_what_may_not_be_learned();
  fuzz_against_a_reading_line_by_line();
  return failures ? 1 : 0;
}
