#include "proa/exec/free_list.h"

namespace proa {

/// Sizes of [2^k, 2^(k+1)) are in kSteps classes of equal width.
uint32_t FreeList::class_of(size_t size) {
  const auto power = static_cast<uint32_t>(63 - __builtin_clzll(size));
  const uint32_t step = power < 3 ? 0 : static_cast<uint32_t>(size >> (power - 3)) & (kSteps - 1);
  return power * kSteps + step;
}

/// One of the same class that is large enough, if one of the first few is; else the first of the
/// next class that has any, all of which are.
uint32_t FreeList::find(size_t size) const {
  const uint32_t own = class_of(size);
  uint32_t looked = 0;
  if ((filled_[own / 64] >> (own % 64) & 1) != 0) {
    for (uint32_t e = heads_[own]; e != kNone && looked < 16; e = extents_[e].next, ++looked) {
      if (extents_[e].size >= size) return e;
    }
  }
  uint32_t word = (own + 1) / 64;
  if (word >= kClasses / 64) return kNone;
  uint64_t bits = filled_[word] & (~uint64_t{0} << ((own + 1) % 64));
  while (bits == 0) {
    if (++word == kClasses / 64) return kNone;
    bits = filled_[word];
  }
  return heads_[word * 64 + static_cast<uint32_t>(__builtin_ctzll(bits))];
}

void FreeList::insert(uint32_t e) {
  const uint32_t c = class_of(extents_[e].size);
  const bool any = (filled_[c / 64] >> (c % 64) & 1) != 0;
  extents_[e].free = true;
  extents_[e].previous = kNone;
  extents_[e].next = any ? heads_[c] : kNone;
  if (any) extents_[heads_[c]].previous = e;
  heads_[c] = e;
  filled_[c / 64] |= uint64_t{1} << (c % 64);
}

void FreeList::take_out(uint32_t e) {
  Extent& x = extents_[e];
  x.free = false;
  if (x.next != kNone) extents_[x.next].previous = x.previous;
  if (x.previous != kNone) {
    extents_[x.previous].next = x.next;
    return;
  }
  const uint32_t c = class_of(x.size);
  heads_[c] = x.next;
  if (x.next == kNone) filled_[c / 64] &= ~(uint64_t{1} << (c % 64));
}

uint32_t FreeList::make(size_t offset, size_t size, uint32_t before, uint32_t after) {
  uint32_t e = unused_;
  if (e == kNone) {
    e = count_++;
  } else {
    unused_ = extents_[e].next;
  }
  extents_[e] = {offset, size, before, after, kNone, kNone, false};
  if (before != kNone) extents_[before].after = e;
  if (after != kNone) {
    extents_[after].before = e;
  } else {
    last_ = e;
  }
  return e;
}

void FreeList::drop(uint32_t e) {
  const Extent& x = extents_[e];
  if (x.before != kNone) extents_[x.before].after = x.after;
  if (x.after != kNone) {
    extents_[x.after].before = x.before;
  } else {
    last_ = x.before;
  }
  extents_[e].next = unused_;
  unused_ = e;
}

uint32_t FreeList::allocate(size_t size) {
  uint32_t e = find(size);
  if (e == kNone) {
    if (last_ == kNone || !extents_[last_].free) {
      const size_t end = last_ == kNone ? 0 : extents_[last_].offset + extents_[last_].size;
      return make(end, size, last_, kNone);
    }
    e = last_;
    take_out(e);
    extents_[e].size = size;
    return e;
  }
  take_out(e);
  const size_t rest = extents_[e].size - size;
  if (rest > 0) {
    extents_[e].size = size;
    insert(make(extents_[e].offset + size, rest, e, extents_[e].after));
  }
  return e;
}

void FreeList::release(uint32_t block) {
  uint32_t e = block;
  const uint32_t before = extents_[e].before, after = extents_[e].after;
  if (after != kNone && extents_[after].free) {
    take_out(after);
    extents_[e].size += extents_[after].size;
    drop(after);
  }
  if (before != kNone && extents_[before].free) {
    take_out(before);
    extents_[before].size += extents_[e].size;
    drop(e);
    e = before;
  }
  insert(e);
}

}  // namespace proa
