#pragma once
// Returns the memory of constants to the operating system once no kernel reads them.
#include <vector>

#include "proa/exec/prepared.h"
#include "proa/runtime/engine.h"

namespace proa {

/// The constants of a bound model that kernels read only in packed form. A kernel that receives
/// `Call::packed` does not read the data of the input that was packed.
class UnreadConstants {
 public:
  /// `prepared` must outlive this object. `bytes` is private memory that nobody else accesses; the
  /// parts of it outside constants are released at once.
  UnreadConstants(const Prepared& prepared, WeightBytes bytes);
  /// Called when the constant of node i has been packed: releases its pages if node i was the last
  /// reader and they are in those bytes.
  void packed(uint32_t i);
  /// Whether one node packs the constant, and none reads it otherwise.
  bool is_packed_once(uint32_t id) const {
    return !constants_[id].read_unpacked && constants_[id].readers == 1;
  }
  uint32_t count() const { return static_cast<uint32_t>(constants_.size()); }
  /// Indices of the constants that no kernel reads once all nodes are packed.
  std::vector<uint32_t> ids() const;

 private:
  struct Constant {
    const uint8_t* data;
    size_t size;
    uint32_t readers = 0;        // nodes that are still to be packed
    bool read_unpacked = false;  // a kernel or an overlapping constant reads the unpacked data
  };
  void count_readers();
  void keep_overlapping();
  void drop_gaps() const;
  void drop(const uint8_t* from, const uint8_t* to) const;

  const Prepared& prepared_;
  const WeightBytes bytes_;
  std::vector<Constant> constants_;
};

}  // namespace proa
