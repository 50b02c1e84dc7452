#pragma once
// Where random ops take their keys from: a seed and a count of numbers already drawn.
#include <atomic>
#include <cstdint>

namespace proa {

/// A stream of Philox counters. Thread-safe.
class Generator {
 public:
  explicit Generator(int64_t seed = 0) : seed_(seed) {}
  /// Starts the stream of `seed` from its beginning.
  void set_seed(int64_t seed) {
    seed_.store(seed);
    offset_.store(0);
  }
  int64_t seed() const { return seed_.load(); }
  int64_t offset() const { return offset_.load(); }
  void set_offset(int64_t offset) { offset_.store(offset); }
  /// The offset for a draw of `count` numbers; four come of one counter.
  int64_t next(int64_t count) { return offset_.fetch_add(count > 4 ? (count + 3) / 4 : 1); }

  /// The generator of ops that are given none.
  static Generator& global() {
    static Generator generator;
    return generator;
  }

 private:
  std::atomic<int64_t> seed_;
  std::atomic<int64_t> offset_{0};
};

}  // namespace proa
