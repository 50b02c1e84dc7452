// Reading and writing by index arrays: loops over the elements of a `small` array, each of which
// belongs to the element of a `big` array that the indices name. All indices are checked before
// anything changes. Work that writes is split by where it writes, so that its order is fixed.
#include <string.h>

#include "proa/base/dispatch.h"
#include "proa/base/expect.h"
#include "proa/gen/attrs/index.h"
#include "proa/kernels/elementwise/functions.h"
#include "proa/kernels/index/line.h"
#include "proa/kernels/movement/copy.h"
#include "proa/kernels/reduce/reducer.h"

namespace proa::PROA_ISA {

namespace {

enum class Mode { kRead, kWrite, kAdd };

struct IndexLoop {
  enum { kSmall, kIndex, kBig };
  Nest nest;  // over small's shape; the strides of the index array and big are 0 along skipped
              // dimensions
  View small, index, big;
  Coordinate coordinates[kMaxRank];
  int depth = 0;
  int64_t skip = -1;   // an index that reads zeros and writes nothing
  bool fresh = false;  // big is to be cleared before anything is added

  /// True if along the innermost dimension every element has an index of its own, for one axis.
  bool in_lines() const {
    const bool stays = nest.rank > 0 && nest.stride[kIndex][nest.rank - 1] == 0;
    return !stays && depth == 1 && skip < 0;
  }
  /// True if whole rows are added to a fresh big: its first axis is indexed and all else is dense.
  bool adds_rows() const {
    return fresh && depth == 1 && nest.rank == 2 && nest.stride[kIndex][1] == 0 &&
           nest.stride[kSmall][1] == 1 && nest.stride[kBig][1] == 1 && nest.stride[kBig][0] == 0 &&
           coordinates[0].size == big.shape[0] && coordinates[0].stride == nest.shape[1] &&
           big.contiguous();
  }
  /// True if dense rows are read: one axis is indexed, and the elements of all others are
  /// contiguous.
  bool reads_rows() const {
    return depth == 1 && nest.rank == 2 && nest.stride[kIndex][1] == 0 &&
           nest.stride[kSmall][1] == 1 && nest.stride[kBig][1] == 1 && nest.stride[kBig][0] == 0;
  }
};

/// True if every index names an element.
template <class I>
bool all_inside(const IndexLoop& w) {
  // Every index that the loop reads; dimensions with a step of 0 are skipped.
  Nest nest;
  nest.arrays = 1;
  for (int d = 0; d < w.nest.rank; ++d) {
    if (w.nest.stride[IndexLoop::kIndex][d] == 0) continue;
    nest.shape[nest.rank] = w.nest.shape[d];
    nest.stride[0][nest.rank++] = w.nest.stride[IndexLoop::kIndex][d];
  }
  if (nest.size() == 0 || w.index.numel() == 0) return true;  // then it may be 0
  const I* index = w.index.as<const I>();
  Cursor at;
  at.seek(nest, 0);
  const int64_t inner = nest.inner(), step = nest.inner_stride(0);
  for (int64_t i = nest.size(); i > 0; i -= inner, at.advance(nest, inner)) {
    for (int k = 0; k < w.depth; ++k) {
      const I* p = index + at.offset[0] + w.coordinates[k].at;
      const int64_t size = w.coordinates[k].size;
      int64_t bad = 0;
      for (int64_t j = 0; j < inner; ++j) bad |= (p[j * step] < -size) | (p[j * step] >= size);
      if (bad) return false;
    }
  }
  return true;
}

/// to[i * ts] += from[i * fs].
template <class T>
void add_run(T* to, int64_t ts, const T* from, int64_t fs, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    if constexpr (std::is_same_v<T, C64>) {
      to[i * ts].re += from[i * fs].re;
      to[i * ts].im += from[i * fs].im;
    } else if constexpr (std::is_integral_v<T>) {
      to[i * ts] = static_cast<T>(to[i * ts] + from[i * fs]);
    } else {
      to[i * ts] = to[i * ts] + from[i * fs];
    }
  }
}
/// Prefetches what the next run will read and write.
void add_run_f32(float* to, const float* from, int64_t n, const uint8_t* next_to,
                 const uint8_t* next_from) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    prefetch(next_to + i * 4);
    prefetch(next_from + i * 4);
    store(to + i, load(to + i) + load(from + i));
  }
  for (; i < n; ++i) to[i] += from[i];
}

void add_elements(DType t, void* to, int64_t ts, const void* from, int64_t fs, int64_t n,
                  const uint8_t* next_to, const uint8_t* next_from) {
#define PROA_ADD(code, T)                                                   \
  case DType::code:                                                         \
    if constexpr (computes(DType::code))                                    \
      add_run(static_cast<T*>(to), ts, static_cast<const T*>(from), fs, n); \
    break;
  if (t == DType::kF32 && ts == 1 && fs == 1) {
    return add_run_f32(static_cast<float*>(to), static_cast<const float*>(from), n, next_to,
                       next_from);
  }
  switch (t) {
    PROA_ADD(kF16, F16)
    PROA_ADD(kBF16, BF16)
    PROA_ADD(kF32, float)
    PROA_ADD(kF64, double)
    PROA_ADD(kI16, uint16_t)
    PROA_ADD(kI32, uint32_t)
    PROA_ADD(kI64, uint64_t)
    PROA_ADD(kC64, C64)
    PROA_ADD(kC128, C128)
    default:
      add_run(static_cast<uint8_t*>(to), ts, static_cast<const uint8_t*>(from), fs, n);
  }
#undef PROA_ADD
}

template <class T>
void copy_run(T* to, int64_t ts, const T* from, int64_t fs, int64_t n) {
  if (ts == 1 && fs == 1) {
    memcpy(to, from, static_cast<size_t>(n) * sizeof(T));
  } else {
    for (int64_t i = 0; i < n; ++i) to[i * ts] = from[i * fs];
  }
}

/// Elements of small that belong to contiguous elements of big, and where those begin.
struct Run {
  uint8_t *small, *big;
  bool skipped;
};

/// Reads, writes or adds the `run` elements of a run, and prefetches the next.
void move_run(const IndexLoop& w, Mode mode, const Run& p, const Run& next, int64_t run) {
  const int64_t ss = w.nest.inner_stride(IndexLoop::kSmall),
                bs = w.nest.inner_stride(IndexLoop::kBig);
  const int64_t size = static_cast<int64_t>(size_of(w.big.dtype));
  if (mode != Mode::kRead && p.skipped) return;
  if (mode == Mode::kAdd) {
    add_elements(w.big.dtype, p.big, bs, p.small, ss, run, next.big, next.small);
  } else if (run > 1 && ss == 1 && bs == 1 && !p.skipped) {
    if (mode == Mode::kRead) {
      copy_prefetching(p.big, p.small, run * size, next.big, next.small);
    } else {
      copy_prefetching(p.small, p.big, run * size, next.small, next.big);
    }
  } else if (mode == Mode::kRead) {
    const Bytes16 zero = {0, 0};
    PROA_MOVED(size, T, {
      const T* from = reinterpret_cast<const T*>(p.big);
      if (p.skipped) from = reinterpret_cast<const T*>(&zero);
      copy_run(reinterpret_cast<T*>(p.small), ss, from, p.skipped ? 0 : bs, run);
    })
  } else {
    PROA_MOVED(size, T,
               copy_run(reinterpret_cast<T*>(p.big), bs, reinterpret_cast<T*>(p.small), ss, run))
  }
}

/// n elements of a line, read or added as floats. False if an index that is read is out of range.
template <class I>
bool run_line(const IndexLoop& w, Mode mode, const Cursor& at, int64_t n, int64_t low,
              int64_t high) {
  const int64_t size = static_cast<int64_t>(size_of(w.big.dtype));
  const int64_t index_step = w.nest.inner_stride(IndexLoop::kIndex);
  const int64_t ss = w.nest.inner_stride(IndexLoop::kSmall), bs = w.nest.inner_stride(w.kBig);
  const Coordinate& q = w.coordinates[0];
  const I* index = w.index.as<const I>() + at.offset[IndexLoop::kIndex] + q.at;
  uint8_t* s = w.small.as<uint8_t>() + at.offset[IndexLoop::kSmall] * size;
  uint8_t* b = w.big.as<uint8_t>() + at.offset[IndexLoop::kBig] * size;
  if (mode == Mode::kAdd) {
    add_line(index, index_step, reinterpret_cast<float*>(b), bs, q,
             reinterpret_cast<const float*>(s), ss, n, low, high);
    return true;
  }
  PROA_MOVED(size, T,
             return read_line(index, index_step, reinterpret_cast<const T*>(b), bs, q,
                              reinterpret_cast<T*>(s), ss, n))
  return true;
}

/// Elements [begin, end) of the loop whose first coordinate is in [low, high). False if an index is
/// out of range: indices of lines that are read are checked here.
template <class I>
bool run_part(const IndexLoop& w, Mode mode, int64_t begin, int64_t end, int64_t low,
              int64_t high) {
  const int64_t size = static_cast<int64_t>(size_of(w.big.dtype));
  const Nest& nest = w.nest;
  const int64_t index_step = nest.inner_stride(IndexLoop::kIndex);
  const int64_t ss = nest.inner_stride(IndexLoop::kSmall), bs = nest.inner_stride(IndexLoop::kBig);
  Cursor at;
  at.seek(nest, begin);
  const bool adds = mode == Mode::kAdd && w.big.dtype == DType::kF32;
  const bool forms_lines = w.in_lines() && (mode == Mode::kRead || adds);
  // A run is copied once the address of the next is known.
  Run last = {};
  int64_t waiting = 0;
  for (int64_t i = begin; i < end;) {
    const int64_t left = nest.rank > 0 ? nest.inner() - at.at[nest.rank - 1] : 1;
    const int64_t n = end - i < left ? end - i : left;
    // Along the innermost dimension the index is constant, or advances with every element.
    const bool stays = nest.rank > 0 && index_step == 0;
    const int64_t run = stays ? n : 1;
    if (forms_lines) {
      if (!run_line<I>(w, mode, at, n, low, high)) return false;
      at.advance(nest, n);
      i += n;
      continue;
    }
    for (int64_t j = 0; j < n; j += run) {
      const I* index = w.index.as<const I>() + at.offset[IndexLoop::kIndex] + j * index_step;
      int64_t big = at.offset[IndexLoop::kBig] + j * bs;
      bool skipped = false, elsewhere = false;
      for (int k = 0; k < w.depth && !elsewhere; ++k) {
        const Coordinate& q = w.coordinates[k];
        int64_t v = index[q.at];
        skipped |= w.skip >= 0 && v == w.skip;
        v = v < 0 ? v + q.size : v;
        elsewhere = k == 0 && (v < low || v >= high);
        big += v * q.stride;
      }
      if (elsewhere) continue;
      const Run here = {w.small.as<uint8_t>() + (at.offset[IndexLoop::kSmall] + j * ss) * size,
                        w.big.as<uint8_t>() + big * size, skipped};
      if (stays) {
        if (waiting > 0) move_run(w, mode, last, here, waiting);
        last = here;
        waiting = run;
      } else {
        move_run(w, mode, here, here, 1);
      }
    }
    at.advance(nest, n);
    i += n;
  }
  if (waiting > 0) move_run(w, mode, last, last, waiting);
  return true;
}

/// Adds rows part by part: a part of big is cleared and filled while it is in the cache. The parts
/// follow from shapes, and within one the rows come in order.
template <class I>
void add_rows(const Call& c, const IndexLoop& w) {
  constexpr int64_t kPart = 1 << 23, kLooks = 1 << 22;  // bytes; indices looked at by all parts
  const int64_t count = w.nest.shape[0], width = w.nest.shape[1], rows = w.coordinates[0].size;
  const int64_t bytes = width * static_cast<int64_t>(size_of(w.big.dtype));
  const int64_t small_step = w.nest.stride[IndexLoop::kSmall][0] * (bytes / width);
  const int64_t largest = kLooks / count > 8 ? kLooks / count : 8;
  int64_t parts = rows * bytes / kPart + 1;
  parts = parts < largest ? parts : largest;
  parts = parts < 8 && count * bytes > kPart ? 8 : parts;
  parts = parts < rows ? parts : rows;
  const I* const index = w.index.as<const I>();
  const int64_t step = w.nest.stride[IndexLoop::kIndex][0];
  parallel_for(c, parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      const int64_t low = rows * p / parts, high = rows * (p + 1) / parts;
      Call alone;
      clear(alone, narrow(w.big, 0, low, high - low));
      uint8_t *from = nullptr, *to = nullptr;  // a row is added when the next is known
      for (int64_t i = 0; i < count; ++i) {
        int64_t row = index[i * step];
        if (w.skip >= 0 && row == w.skip) continue;
        row = row < 0 ? row + rows : row;
        if (row < low || row >= high) continue;
        uint8_t* const next = w.small.as<uint8_t>() + i * small_step;
        uint8_t* const there = w.big.as<uint8_t>() + row * bytes;
        if (from != nullptr) add_elements(w.big.dtype, to, 1, from, 1, width, there, next);
        from = next;
        to = there;
      }
      if (from != nullptr) add_elements(w.big.dtype, to, 1, from, 1, width, to, from);
    }
  });
}

/// Reads rows too short for the hardware prefetcher: each is prefetched some rows ahead.
template <class I>
void read_rows(const IndexLoop& w, int64_t begin, int64_t end) {
  constexpr int64_t kLine = 64;
  const int64_t size = static_cast<int64_t>(size_of(w.big.dtype)), count = w.nest.shape[0];
  const int64_t bytes = w.nest.shape[1] * size, rows = w.coordinates[0].size;
  const int64_t from_step = w.coordinates[0].stride * size;
  const int64_t to_step = w.nest.stride[IndexLoop::kSmall][0] * size;
  const int64_t index_step = w.nest.stride[IndexLoop::kIndex][0];
  const I* const index = w.index.as<const I>();
  const auto row_at = [&](int64_t i) {
    const int64_t row = index[i * index_step];
    return w.big.as<const uint8_t>() + (row < 0 ? row + rows : row) * from_step;
  };
  for (int64_t i = begin; i < end; ++i) {
    if (i + kTableRowsAhead < count) {
      const uint8_t* const later = row_at(i + kTableRowsAhead);
      for (int64_t k = 0; k < bytes; k += kLine) prefetch(later + k);
    }
    uint8_t* const to = w.small.as<uint8_t>() + i * to_step;
    if (w.skip >= 0 && index[i * index_step] == w.skip) {
      memset(to, 0, static_cast<size_t>(bytes));
      continue;
    }
    const uint8_t* const from = row_at(i);
    int64_t k = 0;
    for (; k + kVecBytes <= bytes; k += kVecBytes) store(to + k, load(from + k));
    if (k < bytes) memcpy(to + k, from + k, static_cast<size_t>(bytes - k));
  }
}

template <class I>
Status run_typed(const Call& c, const IndexLoop& w, Mode mode) {
  const int64_t total = w.nest.size();
  constexpr int64_t kShort = 512;  // bytes
  if (mode == Mode::kRead && w.reads_rows() &&
      w.nest.shape[1] * static_cast<int64_t>(size_of(w.big.dtype)) <= kShort) {
    parallel_for(c, w.nest.shape[0], kElementTask / w.nest.shape[1] + 1,
                 [&](int64_t begin, int64_t end) { read_rows<I>(w, begin, end); });
    return Status::kOk;
  }
  if (mode == Mode::kRead) {
    bool inside = true;
    parallel_for(c, total, kElementTask, [&](int64_t begin, int64_t end) {
      if (!run_part<I>(w, mode, begin, end, 0, INT64_MAX))
        __atomic_store_n(&inside, false, __ATOMIC_RELAXED);
    });
    return inside ? Status::kOk : Status::kOutOfRange;
  }
  if (total < 2 * kElementTask || w.depth == 0) {
    run_part<I>(w, mode, 0, total, 0, INT64_MAX);
    return Status::kOk;
  }
  const int64_t size = w.coordinates[0].size, parts = size < 8 ? size : 8;
  parallel_for(c, parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      run_part<I>(w, mode, 0, total, size * p / parts, size * (p + 1) / parts);
    }
  });
  return Status::kOk;
}

/// Checks the indices; if they are valid, prepares the output and runs the loop.
template <class Prepare>
Status run_loop(const Call& c, IndexLoop* w, Mode mode, Prepare&& prepare) {
  const bool wide = w->index.dtype == DType::kI64;
  PROA_EXPECT(c, wide || w->index.dtype == DType::kI32, "indices of int32 or int64",
              named("index.dtype", w->index.dtype));
  const int64_t total = w->nest.size();
  w->nest.merge();
  // Lines are checked as they are read: the indices may be largest of what there is to read. An
  // index must name an element also where entries have no elements.
  const bool checked_as_read = total > 0 && mode == Mode::kRead && w->in_lines();
  if (!checked_as_read) {
    if (!(wide ? all_inside<int64_t>(*w) : all_inside<int32_t>(*w))) return Status::kOutOfRange;
  }
  if (total > 0 && w->adds_rows()) {
    wide ? add_rows<int64_t>(c, *w) : add_rows<int32_t>(c, *w);
    return Status::kOk;
  }
  if (w->fresh) PROA_TRY(clear(c, w->big));
  PROA_TRY(prepare());
  if (total == 0) return Status::kOk;
  return wide ? run_typed<int64_t>(c, *w, mode) : run_typed<int32_t>(c, *w, mode);
}
Status nothing() { return Status::kOk; }

void start(IndexLoop* w, const View& small, const View& index, const View& big) {
  w->small = small;
  w->index = index;
  w->big = big;
  w->nest.set_shape(small);
  w->nest.add(small);
  w->nest.arrays = 3;
}

/// small = big[..., index, ...] along an axis: index's own axes replace it.
IndexLoop gather_loop(const View& small, const View& index, const View& big, int64_t axis_attr) {
  IndexLoop w;
  start(&w, small, index, big);
  const int axis = normalize_axis(axis_attr, big.rank);
  for (int d = 0; d < small.rank; ++d) {
    const bool inside = d >= axis && d < axis + index.rank;
    w.nest.stride[IndexLoop::kIndex][d] = inside ? index.stride[d - axis] : 0;
    w.nest.stride[IndexLoop::kBig][d] = inside ? 0 : big.stride[d < axis ? d : d - index.rank + 1];
  }
  w.coordinates[w.depth++] = {big.shape[axis], big.stride[axis], 0};
  return w;
}

/// small[i, j, ..] = big[i, index[i, j, ..], ..]; other axes broadcast.
IndexLoop along_axis_loop(const View& small, const View& index, const View& big,
                          int64_t axis_attr) {
  IndexLoop w;
  start(&w, small, index, big);
  const int axis = normalize_axis(axis_attr, big.rank);
  for (int d = 0; d < small.rank; ++d) {
    w.nest.stride[IndexLoop::kIndex][d] = index.shape[d] == 1 ? 0 : index.stride[d];
    w.nest.stride[IndexLoop::kBig][d] = d == axis || big.shape[d] == 1 ? 0 : big.stride[d];
  }
  w.coordinates[w.depth++] = {big.shape[axis], big.stride[axis], 0};
  return w;
}

/// small = big[coordinates in the last axis of index].
IndexLoop nd_loop(const View& small, const View& index, const View& big) {
  IndexLoop w;
  start(&w, small, index, big);
  const int lead = index.rank - 1;
  w.depth = static_cast<int>(index.shape[lead]);
  for (int d = 0; d < small.rank; ++d) {
    w.nest.stride[IndexLoop::kIndex][d] = d < lead ? index.stride[d] : 0;
    w.nest.stride[IndexLoop::kBig][d] = d < lead ? 0 : big.stride[d - lead + w.depth];
  }
  for (int k = 0; k < w.depth; ++k) {
    w.coordinates[k] = {big.shape[k], big.stride[k], k * index.stride[lead]};
  }
  return w;
}

}  // namespace

Status gather(const Call& c) {
  IndexLoop w = gather_loop(c.out[0], c.in[1], c.in[0], c.attr<GatherAttrs>().axis);
  return run_loop(c, &w, Mode::kRead, nothing);
}
Status gather_grad(const Call& c) {
  IndexLoop w = gather_loop(c.in[0], c.in[1], c.out[0], c.attr<GatherGradAttrs>().axis);
  w.fresh = true;
  return run_loop(c, &w, Mode::kAdd, nothing);
}
Status gather_nd(const Call& c) {
  IndexLoop w = nd_loop(c.out[0], c.in[1], c.in[0]);
  return run_loop(c, &w, Mode::kRead, nothing);
}
Status scatter_nd_like(const Call& c) {
  IndexLoop w = nd_loop(c.in[0], c.in[1], c.out[0]);
  w.fresh = true;
  return run_loop(c, &w, Mode::kAdd, nothing);
}
Status index_put(const Call& c) {
  IndexLoop w = nd_loop(c.in[2], c.in[1], c.out[0]);
  return run_loop(c, &w, Mode::kWrite, [&] { return copy(c, c.in[0], c.out[0]); });
}
Status take_along_axis(const Call& c) {
  IndexLoop w = along_axis_loop(c.out[0], c.in[1], c.in[0], c.attr<TakeAlongAxisAttrs>().axis);
  return run_loop(c, &w, Mode::kRead, nothing);
}
Status take_along_axis_grad(const Call& c) {
  IndexLoop w = along_axis_loop(c.in[0], c.in[1], c.out[0], c.attr<TakeAlongAxisGradAttrs>().axis);
  w.fresh = true;
  return run_loop(c, &w, Mode::kAdd, nothing);
}

namespace {

/// v, broadcast to the shape of index.
View like_index(const View& v, const View& index) {
  View out = index;
  out.data = v.data;
  out.dtype = v.dtype;
  const int lead = index.rank - v.rank;
  for (int d = 0; d < index.rank; ++d) {
    out.stride[d] = d < lead || v.shape[d - lead] == 1 ? 0 : v.stride[d - lead];
  }
  return out;
}

Status put(const Call& c, int64_t axis, Mode mode) {
  IndexLoop w = along_axis_loop(like_index(c.in[2], c.in[1]), c.in[1], c.out[0], axis);
  return run_loop(c, &w, mode, [&] { return copy(c, c.in[0], c.out[0]); });
}

}  // namespace

Status put_along_axis(const Call& c) {
  return put(c, c.attr<PutAlongAxisAttrs>().axis, Mode::kWrite);
}
Status scatter_add_axis(const Call& c) {
  return put(c, c.attr<ScatterAddAxisAttrs>().axis, Mode::kAdd);
}

Status embedding(const Call& c) {
  IndexLoop w = gather_loop(c.out[0], c.in[0], c.in[1], 0);
  w.skip = c.attr<EmbeddingAttrs>().padding_idx;
  return run_loop(c, &w, Mode::kRead, nothing);
}
Status embedding_grad(const Call& c) {
  IndexLoop w = gather_loop(c.in[1], c.in[0], c.out[0], 0);
  w.skip = c.attr<EmbeddingGradAttrs>().padding_idx;
  w.fresh = true;
  return run_loop(c, &w, Mode::kAdd, nothing);
}

Status put_rows_(const Call& c) {
  PROA_EXPECT(c, c.in[2].dtype == c.in[0].dtype, "values of the dtype of the array", dtype_of(c, 2),
              dtype_of(c, 0));
  IndexLoop w = gather_loop(c.in[2], c.in[1], c.out[0], 0);
  return run_loop(c, &w, Mode::kWrite, [&] { return copy(c, c.in[0], c.out[0]); });
}

namespace {

/// Sorts the numbers of x's elements by what is there, equal ones in order. `other` has room for as
/// many.
template <class I>
void sort_numbers(const View& x, int64_t* order, int64_t* other) {
  const int64_t n = x.shape[0];
  const auto at = [&](int64_t i) { return x.as<const I>()[i * x.stride[0]]; };
  for (int64_t i = 0; i < n; ++i) order[i] = i;
  int64_t *from = order, *to = other;
  for (int64_t width = 1; width < n; width *= 2) {
    for (int64_t begin = 0; begin < n; begin += 2 * width) {
      const int64_t middle = begin + width < n ? begin + width : n;
      const int64_t end = begin + 2 * width < n ? begin + 2 * width : n;
      int64_t a = begin, b = middle;
      for (int64_t k = begin; k < end; ++k) {
        const bool first = b == end || (a < middle && at(from[a]) <= at(from[b]));
        to[k] = first ? from[a++] : from[b++];
      }
    }
    int64_t* const sorted = to;
    to = from;
    from = sorted;
  }
  if (from != order && n > 0) memcpy(order, from, static_cast<size_t>(n) * sizeof(int64_t));
}

/// Writes every number of rows once, then the last again; the number of each in `group`. Returns
/// how many differ.
template <class I>
int64_t number_rows(const View& rows, const View& once, int64_t* order, int64_t* group) {
  const int64_t n = rows.shape[0];
  sort_numbers<I>(rows, order, group);
  I* ids = once.as<I>();
  int64_t count = 0;
  for (int64_t k = 0; k < n; ++k) {
    const I row = rows.as<const I>()[order[k] * rows.stride[0]];
    if (count == 0 || row != ids[(count - 1) * once.stride[0]]) ids[count++ * once.stride[0]] = row;
    group[order[k]] = count - 1;
  }
  for (int64_t k = count; k < n; ++k) ids[k * once.stride[0]] = ids[(count - 1) * once.stride[0]];
  return count;
}

}  // namespace

size_t merge_rows_scratch(const Call& c) {
  return 2 * sizeof(int64_t) * static_cast<size_t>(c.in[0].shape[0]);
}
Status merge_rows(const Call& c) {
  const View &rows = c.in[0], &once = c.out[0], &sums = c.out[1];
  const int64_t n = rows.shape[0];
  int64_t* order = static_cast<int64_t*>(c.scratch);
  int64_t* group = order + n;
  const int64_t count = rows.dtype == DType::kI64 ? number_rows<int64_t>(rows, once, order, group)
                                                  : number_rows<int32_t>(rows, once, order, group);
  View index = rows;
  index.data = group;
  index.dtype = DType::kI64;
  index.stride[0] = 1;
  IndexLoop w = gather_loop(c.in[1], index, sums, 0);
  w.fresh = true;
  PROA_TRY(run_loop(c, &w, Mode::kAdd, nothing));
  if (count == n) return Status::kOk;
  View last = narrow(sums, 0, count - 1, 1);
  const View rest = narrow(sums, 0, count, n - count);
  last.shape[0] = n - count;
  last.stride[0] = 0;
  return copy(c, last, rest);
}

Status one_hot(const Call& c) {
  const View &x = c.in[0], &out = c.out[0];
  float one = 1;
  View ones = x;
  ones.data = &one;
  ones.dtype = DType::kF32;
  for (int d = 0; d < x.rank; ++d) ones.stride[d] = 0;
  IndexLoop w;
  start(&w, ones, x, out);
  for (int d = 0; d < x.rank; ++d) {
    w.nest.stride[IndexLoop::kIndex][d] = x.stride[d];
    w.nest.stride[IndexLoop::kBig][d] = out.stride[d];
  }
  w.coordinates[w.depth++] = {out.shape[x.rank], out.stride[x.rank], 0};
  return run_loop(c, &w, Mode::kWrite, [&] { return clear(c, out); });
}

}  // namespace proa::PROA_ISA
