// Sorting and selection along an axis. Numbers become unsigned keys of the same order, so one
// radix sort serves every dtype; NaN is the greatest key.
#include "proa/gen/attrs/sort.h"
#include "proa/kernels/elementwise/functions.h"
#include "proa/kernels/reduce/reducer.h"
#include "proa/kernels/sort/order.h"

namespace proa::PROA_ISA {

namespace {

void insertion_sort(Keyed* items, int64_t n) {
  for (int64_t i = 1; i < n; ++i) {
    const Keyed item = items[i];
    int64_t at = i;
    for (; at > 0 && items[at - 1].key > item.key; --at) items[at] = items[at - 1];
    items[at] = item;
  }
}

}  // namespace

Keyed* sort_keys(Keyed* items, Keyed* spare, int64_t n) {
  if (n <= 48) {
    insertion_sort(items, n);
    return items;
  }
  int64_t count[8][256] = {};
  for (int64_t i = 0; i < n; ++i) {
    for (int d = 0; d < 8; ++d) ++count[d][items[i].key >> (8 * d) & 255];
  }
  for (int d = 0; d < 8; ++d) {
    if (count[d][items[0].key >> (8 * d) & 255] == n) continue;  // all have the same digit
    int64_t before = 0;
    for (int64_t& slot : count[d]) {
      const int64_t here = slot;
      slot = before;
      before += here;
    }
    for (int64_t i = 0; i < n; ++i) spare[count[d][items[i].key >> (8 * d) & 255]++] = items[i];
    Keyed* other = items;
    items = spare;
    spare = other;
  }
  return items;
}

namespace {

// -0 is +0, NaN the greatest; the bits of negative numbers are inverted.
PROA_INLINE uint64_t key_of(float x) {
  if (x != x) return UINT32_MAX;
  const uint32_t bits = bit_cast<uint32_t>(x + 0.0f);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
PROA_INLINE uint64_t key_of(double x) {
  if (x != x) return UINT64_MAX;
  const uint64_t bits = bit_cast<uint64_t>(x + 0.0);
  return bits >> 63 ? ~bits : bits | (uint64_t{1} << 63);
}
PROA_INLINE uint64_t key_of(int64_t x) { return static_cast<uint64_t>(x) ^ (uint64_t{1} << 63); }

/// A line of the array: its elements' keys, greatest first if `falling`.
template <class T>
void read_keys(RunReader* reader, bool falling, Keyed* items) {
  // A float's keys have 32 bits: only those are inverted, which saves passes.
  const uint64_t flip = !falling ? 0 : sizeof(T) == 4 ? UINT32_MAX : UINT64_MAX;
  const void* run;
  int64_t at = 0;
  while (const int64_t n = reader->next(&run)) {
    for (int64_t i = 0; i < n; ++i, ++at) {
      items[at] = {key_of(static_cast<const T*>(run)[i]) ^ flip, at};
    }
  }
}

/// The first k of the items in order, by insertion into a sorted list; for small k.
void select_first(Keyed* items, int64_t n, int64_t k) {
  int64_t held = 0;
  for (int64_t i = 0; i < n; ++i) {
    const Keyed item = items[i];
    if (held == k && item.key >= items[k - 1].key) continue;
    int64_t at = held < k ? held++ : k - 1;
    for (; at > 0 && items[at - 1].key > item.key; --at) items[at] = items[at - 1];
    items[at] = item;
  }
}

constexpr int64_t kMaxParts = 8;

struct AxisLines {
  int64_t length, count, parts;
};
AxisLines lines_along(const View& x, int64_t axis) {
  AxisLines l;
  l.length = x.rank > 0 ? x.shape[normalize_axis(axis, x.rank)] : 1;
  l.count = l.length > 0 ? x.numel() / l.length : 0;
  l.parts = l.count < kMaxParts ? l.count : kMaxParts;
  return l;
}
size_t scratch_of(const Call& c, int64_t axis) {
  const AxisLines l = lines_along(c.in[0], axis);
  return static_cast<size_t>(l.parts * l.length * 2) * sizeof(Keyed);
}

/// out[0], out[1] = the first k in order along the axis, and where they were.
Status order(const Call& c, int64_t axis_attr, int64_t k, bool falling) {
  const View &x = c.in[0], &y = c.out[0], &where = c.out[1];
  const AxisLines l = lines_along(x, axis_attr);
  if (l.count == 0 || k == 0) return Status::kOk;
  if (is_complex(x.dtype) || x.dtype == DType::kBool) return Status::kUnimplemented;
  const int axis = x.rank > 0 ? normalize_axis(axis_attr, x.rank) : 0;
  const uint32_t mask = x.rank > 0 ? 1u << axis : 0;
  const Split s = split_axes(x, mask, y), t = split_axes(x, mask, where);
  const int64_t xs = x.rank > 0 ? x.stride[axis] : 1, ys = x.rank > 0 ? y.stride[axis] : 1;
  const int64_t ws = x.rank > 0 ? where.stride[axis] : 1;
  const DType as = x.dtype == DType::kF64 ? x.dtype
                   : is_floating(x.dtype) ? DType::kF32
                                          : DType::kI64;
  const size_t size = size_of(x.dtype);
  parallel_for(c, l.parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      Keyed* items = static_cast<Keyed*>(c.scratch) + part * l.length * 2;
      for (int64_t line = l.count * part / l.parts; line < l.count * (part + 1) / l.parts; ++line) {
        Cursor at, to;
        at.seek(s.parallel, line);
        to.seek(t.parallel, line);
        const uint8_t* from = x.as<uint8_t>() + at.offset[0] * static_cast<int64_t>(size);
        RunReader reader(s.reduced, from, x.dtype, as);
        reader.start(0, l.length);
        if (as == DType::kF32) read_keys<float>(&reader, falling, items);
        if (as == DType::kF64) read_keys<double>(&reader, falling, items);
        if (as == DType::kI64) read_keys<int64_t>(&reader, falling, items);
        const Keyed* sorted = items;
        if (k <= 32 && k < l.length) {
          select_first(items, l.length, k);
        } else {
          sorted = sort_keys(items, items + l.length, l.length);
        }
        uint8_t* out = y.as<uint8_t>() + at.offset[1] * static_cast<int64_t>(size);
        for (int64_t i = 0; i < k; ++i) {
          where.as<int64_t>()[to.offset[1] + i * ws] = sorted[i].index;
          __builtin_memcpy(out + i * ys * static_cast<int64_t>(size),
                           from + sorted[i].index * xs * static_cast<int64_t>(size), size);
        }
      }
    }
  });
  return Status::kOk;
}

}  // namespace

size_t sort_scratch(const Call& c) { return scratch_of(c, c.attr<SortAttrs>().axis); }
Status sort(const Call& c) {
  const auto& a = c.attr<SortAttrs>();
  return order(c, a.axis, lines_along(c.in[0], a.axis).length, a.descending != 0);
}

size_t topk_scratch(const Call& c) { return scratch_of(c, c.attr<TopkAttrs>().axis); }
Status topk(const Call& c) {
  const auto& a = c.attr<TopkAttrs>();
  return order(c, a.axis, a.k, a.largest != 0);
}

}  // namespace proa::PROA_ISA
