#pragma once
// Free blocks of one address range, by size: allocation in constant time, as in the two-level
// segregated fit of Masmano et al. (TLSF, 2004). It places buffers of a plan: its tables are in
// memory of the caller and addresses are offsets.
#include <stddef.h>
#include <stdint.h>

namespace proa {

/// An address range that grows at its end.
///
///     FreeList list;
///     list.init(memory, FreeList::table_size(n));  // for at most n allocations
///     uint32_t block = list.allocate(bytes);
///     list.offset(block); list.release(block);
class FreeList {
 public:
  static size_t table_size(size_t allocations) { return (2 * allocations + 1) * sizeof(Extent); }
  void init(void* memory) { extents_ = static_cast<Extent*>(memory); }
  /// A block of `size` bytes, more than 0: one of the smallest free blocks that fit, else a new one
  /// at the end. At most as many calls as the table was sized for.
  uint32_t allocate(size_t size);
  /// Frees the block and merges it with adjacent free blocks.
  void release(uint32_t block);
  size_t offset(uint32_t block) const { return extents_[block].offset; }

 private:
  static constexpr uint32_t kNone = 0xffffffffu;
  static constexpr uint32_t kSteps = 8;  // classes from one power of two to the next
  static constexpr uint32_t kClasses = 64 * kSteps;
  /// A free or used part of the range, in a list by address; free ones also in a list by class.
  struct Extent {
    size_t offset, size;
    uint32_t before, after, previous, next;
    bool free;
  };
  static uint32_t class_of(size_t size);
  uint32_t find(size_t size) const;
  void insert(uint32_t e);
  void take_out(uint32_t e);
  uint32_t make(size_t offset, size_t size, uint32_t before, uint32_t after);
  void drop(uint32_t e);

  Extent* extents_ = nullptr;
  uint32_t count_ = 0, unused_ = kNone, last_ = kNone;
  uint32_t heads_[kClasses];
  uint64_t filled_[kClasses / 64] = {};
};

}  // namespace proa
