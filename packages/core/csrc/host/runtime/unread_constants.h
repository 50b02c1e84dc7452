#pragma once
// Memory of constants that nothing reads once they are packed goes back to the system.
#include <vector>

#include "proa/exec/prepared.h"
#include "proa/runtime/engine.h"

namespace proa {

/// The constants of a bound model that kernels read in their packed form alone. A kernel that is
/// given `Call::packed` does not read the data of the input which that was made of.
class UnreadConstants {
 public:
  /// `prepared` must outlive this object. `bytes` are private memory that no one else reads or
  /// writes any more; what is no constant in them goes back at once.
  UnreadConstants(const Prepared& prepared, WeightBytes bytes);
  /// To be called when node i has been packed: pages of its constant go back, if it was the last
  /// reader and in those bytes.
  void packed(uint32_t i);
  /// The constants that nothing reads once all nodes are packed.
  std::vector<uint32_t> ids() const;

 private:
  struct Constant {
    const uint8_t* data;
    size_t size;
    uint32_t readers = 0;  // nodes that are still to be packed
    bool kept = false;     // read by others too, or its memory is
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
