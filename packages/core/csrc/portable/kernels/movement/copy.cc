#include "proa/kernels/movement/copy.h"

#include <string.h>

#include "proa/base/dispatch.h"
#include "proa/base/task_size.h"
#include "proa/kernels/elementwise/convert.h"
#include "proa/kernels/elementwise/nest.h"
#include "proa/simd/vec_stream.h"

namespace proa::PROA_ISA {

void copy_prefetching(const uint8_t* x, uint8_t* y, int64_t n, const uint8_t* next_x,
                      const uint8_t* next_y) {
  constexpr int64_t kLine = 64;
  int64_t i = 0;
  for (; i + kLine <= n; i += kLine) {
    prefetch(next_x + i);
    prefetch(next_y + i);
    for (int64_t k = 0; k < kLine; k += kVecBytes) store(y + i + k, load(x + i + k));
  }
  if (i < n) memcpy(y + i, x + i, static_cast<size_t>(n - i));
}

namespace {

constexpr int64_t kTile = 32;        // rows and columns of a transposed tile: both sides fit L1
constexpr int64_t kLarge = 1 << 18;  // bytes from which on memory, not the caches, is what counts

constexpr int64_t kStreamed =
    6 << 20;                   // bytes from which on a result is written by streaming stores
constexpr int64_t kRun = 512;  // consecutive elements of the source that one streaming step reads

/// Whether squares of T are transposed in registers.
template <class T>
constexpr bool kTransposes =
    sizeof(T) == 4 || (kHasLarge && (sizeof(T) == 8 || (sizeof(T) == 2 && kVecBytes >= 32)));

/// A plane: y[i * y_rows + j] = x[i * x_rows + j * x_columns] for rows i and columns j.
struct Plane {
  int64_t rows, columns, y_rows, y_columns, x_rows, x_columns;
  bool large;     // the array that it is part of is
  bool streamed;  // its result is written by streaming stores
};

void copy_dense(const uint8_t* x, uint8_t* y, int64_t n, bool large) {
  if (kHasLarge && large) {
    copy_prefetching(x, y, n, x + kAheadBytes, y + kAheadBytes);
  } else {
    memcpy(y, x, static_cast<size_t>(n));
  }
}

/// Copies rows of n bytes, x_step and y_step bytes apart.
void copy_dense_rows(const uint8_t* x, int64_t x_step, uint8_t* y, int64_t y_step, int64_t rows,
                     int64_t n, bool large) {
  if (!kHasLarge || !large) {
    for (int64_t i = 0; i < rows; ++i) {
      memcpy(y + i * y_step, x + i * x_step, static_cast<size_t>(n));
    }
    return;
  }
  // The end of a long row prefetches the start of the next, a short row all of a later one.
  const int64_t body = n >= 2 * kAheadBytes ? n - kAheadBytes : 0;
  const int64_t later = body > 0 ? 1 : kAheadBytes / n + 1;
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t next = i + later < rows ? i + later : i;
    const uint8_t* from = x + i * x_step;
    uint8_t* to = y + i * y_step;
    if (body > 0) copy_dense(from, to, body, true);
    copy_prefetching(from + body, to + body, n - body, x + next * x_step, y + next * y_step);
  }
}

/// y[i][j] = x[j][i] for as many rows and columns as a vector has lanes: the quarters of ever
/// smaller squares change places, so that each line of memory is read and written once and whole.
template <bool kStream, class T>
PROA_INLINE void transpose_square(const T* x, int64_t xs, T* y, int64_t ys) {
  constexpr int n = kLanesOf<T>;
  Vec<T> row[n];
#pragma GCC unroll 32
  for (int k = 0; k < n; ++k) row[k] = load(x + k * xs);
#pragma GCC unroll 5
  for (int half = n / 2; half > 0; half /= 2) {
    Vec<T> upper, lower;
    for (int j = 0; j < n; ++j) {
      const bool right = (j & half) != 0;
      upper[j] = static_cast<T>(right ? n + j - half : j);
      lower[j] = static_cast<T>(right ? n + j : j + half);
    }
#pragma GCC unroll 32
    for (int k = 0; k < n; ++k) {
      if ((k & half) != 0) continue;
      const Vec<T> a = row[k], b = row[k + half];
      row[k] = shuffle(a, b, upper);
      row[k + half] = shuffle(a, b, lower);
    }
  }
#pragma GCC unroll 32
  for (int k = 0; k < n; ++k) {
    if constexpr (kStream) {
      stream(y + k * ys, row[k]);
    } else {
      store(y + k * ys, row[k]);
    }
  }
}

/// A tile of a transpose: x steps by 1 along rows of y.
template <class T>
void transpose_as(const T* x, int64_t xs, T* y, int64_t ys, int64_t rows, int64_t columns) {
  int64_t i = 0;
  if constexpr (kTransposes<T>) {
    constexpr int64_t n = kLanesOf<T>;
    // Vectors of 8-byte elements that straddle two cache lines cost more than single elements.
    const int64_t transposed = sizeof(T) == 8 && ys % n != 0 ? 0 : rows;
    for (; i + n <= transposed; i += n) {
      int64_t j = 0;
      for (; j + n <= columns; j += n) {
        transpose_square<false>(x + i + j * xs, xs, y + i * ys + j, ys);
      }
      for (; j < columns; ++j) {
        for (int64_t k = i; k < i + n; ++k) y[k * ys + j] = x[k + j * xs];
      }
    }
  }
  for (; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) y[i * ys + j] = x[i + j * xs];
  }
}

/// Streams the lines from column `first` on, where they begin in every row of y, as long as they
/// are whole, and returns the column after them. The source is read along a few of its rows at a
/// time.
template <class T>
int64_t stream_lines(const T* x, int64_t xs, T* y, int64_t ys, int64_t rows, int64_t first,
                     int64_t columns) {
  constexpr int64_t n = kLanesOf<T>, kWide = kLineBytes / static_cast<int64_t>(sizeof(T));
  int64_t j = first;
  for (; j + kWide <= columns; j += kWide) {
    for (int64_t i = 0; i + n <= rows; i += n) {
      for (int64_t k = j; k < j + kWide; k += n) {
        transpose_square<true>(x + i + k * xs, xs, y + i * ys + k, ys);
      }
    }
  }
  return j;
}

/// The same where lines begin elsewhere in each row of y: some more columns than are written are
/// transposed, and each row takes its own from them. The first line of each row is left out, and
/// less than one after the column that it returns may be written.
template <class T>
int64_t stream_shifted_lines(const T* x, int64_t xs, T* y, int64_t ys, int64_t rows,
                             int64_t columns) {
  constexpr int64_t n = kLanesOf<T>, kLine = kLineBytes / static_cast<int64_t>(sizeof(T));
  constexpr int64_t kWide = 2 * kLine, kTile = kWide + kLine;
  alignas(kLineBytes) T transposed[n * kTile];
  int64_t j = 0;
  for (; j + kTile <= columns; j += kWide) {
    for (int64_t i = 0; i + n <= rows; i += n) {
      for (int64_t k = 0; k < kTile; k += n) {
        transpose_square<false>(x + i + (j + k) * xs, xs, transposed + k, kTile);
      }
      for (int64_t r = 0; r < n; ++r) {
        T* const to = y + (i + r) * ys + j;
        const int64_t shift = before_line(to);
        for (int64_t k = shift; k < shift + kWide; k += n) {
          stream(to + k, load(transposed + r * kTile + k));
        }
      }
    }
  }
  return j;
}

/// Streams what whole lines there are of a plane that is transposed, and leaves rows from `row_end`
/// on, columns before `head` and columns from `tail` on.
struct Streamed {
  int64_t head, tail, row_end;
};
template <class T>
Streamed stream_plane(const T* x, T* y, const Plane& p, int64_t row_begin, int64_t row_end) {
  constexpr int64_t kSize = sizeof(T), n = kLanesOf<T>;
  const int64_t rows = (row_end - row_begin) / n * n;
  const T* const from = x + row_begin;
  T* const to = y + row_begin * p.y_rows;
  Streamed done = {kLineBytes / kSize, 0, row_begin + rows};
  if (p.y_rows * kSize % kLineBytes == 0) {
    done.head = before_line(to);
    done.tail = stream_lines(from, p.x_columns, to, p.y_rows, rows, done.head, p.columns);
  } else {
    done.tail = stream_shifted_lines(from, p.x_columns, to, p.y_rows, rows, p.columns);
  }
  end_streams();
  return done;
}

template <class T>
void copy_plane(const T* x, T* y, const Plane& p, int64_t row_begin, int64_t row_end) {
  const bool y_dense = p.y_columns == 1 || p.columns == 1;
  if (y_dense && p.x_columns == 1 && p.columns >= 8) {
    constexpr int64_t kSize = sizeof(T);
    copy_dense_rows(reinterpret_cast<const uint8_t*>(x + row_begin * p.x_rows), p.x_rows * kSize,
                    reinterpret_cast<uint8_t*>(y + row_begin * p.y_rows), p.y_rows * kSize,
                    row_end - row_begin, p.columns * kSize, p.large);
  } else if (y_dense && p.x_rows == 1 && p.columns > 1) {
    if constexpr (kHasLarge && kTransposes<T>) {
      if (p.streamed) {
        const Streamed done = stream_plane(x, y, p, row_begin, row_end);
        Plane edge = p;
        edge.streamed = false;
        copy_plane(x, y, edge, done.row_end, row_end);
        edge.columns = done.head;
        copy_plane(x, y, edge, row_begin, done.row_end);
        edge.columns = p.columns - done.tail;
        copy_plane(x + done.tail * p.x_columns, y + done.tail, edge, row_begin, done.row_end);
        return;
      }
    }
    for (int64_t i = row_begin; i < row_end; i += kTile) {
      const int64_t m = row_end - i < kTile ? row_end - i : kTile;
      for (int64_t j = 0; j < p.columns; j += kTile) {
        const int64_t n = p.columns - j < kTile ? p.columns - j : kTile;
        transpose_as(x + i + j * p.x_columns, p.x_columns, y + i * p.y_rows + j, p.y_rows, m, n);
      }
    }
  } else {
    for (int64_t i = row_begin; i < row_end; ++i) {
      const T* from = x + i * p.x_rows;
      T* to = y + i * p.y_rows;
      for (int64_t j = 0; j < p.columns; ++j) to[j * p.y_columns] = from[j * p.x_columns];
    }
  }
}

/// Puts the dimension along which the source is dense next to the innermost one, so that a
/// plane of both is transposed tile by tile.
void pair_dense_dimension(Nest* nest) {
  const int last = nest->rank - 1;
  if (last < 1 || nest->stride[1][last] == 1) return;
  for (int d = last - 2; d >= 0; --d) {
    if (nest->stride[1][d] != 1) continue;
    const int64_t shape = nest->shape[d], y = nest->stride[0][d];
    for (int i = d; i < last - 1; ++i) {
      nest->shape[i] = nest->shape[i + 1];
      for (int k = 0; k < 2; ++k) nest->stride[k][i] = nest->stride[k][i + 1];
    }
    nest->shape[last - 1] = shape;
    nest->stride[0][last - 1] = y;
    nest->stride[1][last - 1] = 1;
    return;
  }
}

/// Copies the planes of the last two dimensions, rows [begin, end) counted over all planes.
template <class T>
void copy_rows(const Nest& outer, const Plane& plane, const T* x, T* y, int64_t begin,
               int64_t end) {
  Cursor at;
  at.seek(outer, begin / plane.rows);
  for (int64_t r = begin; r < end;) {
    const int64_t first = r % plane.rows;
    const int64_t count = end - r < plane.rows - first ? end - r : plane.rows - first;
    copy_plane(x + at.offset[1], y + at.offset[0], plane, first, first + count);
    r += count;
    at.advance(outer, 1);
  }
}

}  // namespace

Status copy(const Call& c, const View& from, const View& to) {
  const int64_t size = to.numel();
  if (size == 0) return Status::kOk;
  const size_t bytes = size_of(to.dtype);
  const bool large = size * static_cast<int64_t>(bytes) >= kLarge;
  Nest nest;
  nest.set_shape(to);
  nest.add(to);
  nest.add(from);
  nest.simplify();
  if (nest.rank == 0 || (nest.rank == 1 && nest.stride[0][0] == 1 && nest.stride[1][0] == 1)) {
    if (from.data == to.data) return Status::kOk;
    parallel_for(c, size, kCopyTask, [&](int64_t begin, int64_t end) {
      copy_dense(from.as<uint8_t>() + begin * static_cast<int64_t>(bytes),
                 to.as<uint8_t>() + begin * static_cast<int64_t>(bytes),
                 (end - begin) * static_cast<int64_t>(bytes), large);
    });
    return Status::kOk;
  }
  if (from.data == to.data) {
    bool same = true;
    for (int d = 0; d < nest.rank; ++d) same &= nest.stride[0][d] == nest.stride[1][d];
    if (same) return Status::kOk;
  }
  if (nest.rank == 1) {
    PROA_MOVED(bytes, T, {
      parallel_for(c, size, kCopyTask, [&](int64_t begin, int64_t end) {
        const Plane plane = {1, end - begin,       0,     nest.stride[0][0],
                             0, nest.stride[1][0], large, false};
        copy_plane(from.as<const T>() + begin * nest.stride[1][0],
                   to.as<T>() + begin * nest.stride[0][0], plane, 0, 1);
      });
    })
    return Status::kOk;
  }
  pair_dense_dimension(&nest);
  const int last = nest.rank - 1;
  const bool streamed = kHasLarge && size * static_cast<int64_t>(bytes) >= kStreamed &&
                        nest.stride[1][last - 1] == 1 &&
                        nest.shape[last] * static_cast<int64_t>(bytes) >= 2 * kLineBytes;
  const Plane plane = {nest.shape[last - 1],
                       nest.shape[last],
                       nest.stride[0][last - 1],
                       nest.stride[0][last],
                       nest.stride[1][last - 1],
                       nest.stride[1][last],
                       large,
                       streamed};
  nest.rank -= 2;
  // A multiple of the tile, so that chunks split planes between tiles.
  int64_t grain = (kCopyTask / plane.columns + kTile - 1) / kTile * kTile;
  if (grain < 1) grain = kTile;
  if (streamed && grain < kRun) grain = kRun;
  PROA_MOVED(bytes, T, {
    parallel_for(c, size / plane.columns, grain, [&](int64_t begin, int64_t end) {
      copy_rows(nest, plane, from.as<const T>(), to.as<T>(), begin, end);
    });
  })
  return Status::kOk;
}

void transpose_tile(size_t size, const void* x, int64_t xs, void* y, int64_t ys, int64_t rows,
                    int64_t columns) {
  PROA_MOVED(size, T,
             transpose_as(static_cast<const T*>(x), xs, static_cast<T*>(y), ys, rows, columns));
}

namespace {

/// Fills n elements, whole cache lines of them with prefetching.
void fill_prefetching(size_t size, const void* value, uint8_t* to, int64_t n) {
  constexpr int64_t kLine = 64;
  alignas(kLine) uint8_t line[kLine];
  const int64_t in_line = kLine / static_cast<int64_t>(size), lines = n / in_line;
  fill_row(size, value, line, in_line);
  const auto pattern = load(line);  // all of the line's vectors are alike
  for (int64_t i = 0; i < lines; ++i, to += kLine) {
    prefetch_ahead(to);
    for (int64_t k = 0; k < kLine; k += kVecBytes) store(to + k, pattern);
  }
  fill_row(size, value, to, n % in_line);
}

}  // namespace

Status fill(const Call& c, const View& to, const void* value) {
  View one = to;
  one.data = const_cast<void*>(value);
  one.rank = 0;
  if (!to.contiguous()) return copy(c, one, to);
  const size_t bytes = size_of(to.dtype);
  const bool large = to.numel() * static_cast<int64_t>(bytes) >= kLarge;
  parallel_for(c, to.numel(), kCopyTask, [&](int64_t begin, int64_t end) {
    uint8_t* const from = to.as<uint8_t>() + begin * static_cast<int64_t>(bytes);
    if (kHasLarge && large) {
      fill_prefetching(bytes, value, from, end - begin);
    } else {
      fill_row(bytes, value, from, end - begin);
    }
  });
  return Status::kOk;
}

Status clear(const Call& c, const View& to) {
  const Bytes16 zero = {0, 0};
  return fill(c, to, &zero);
}

View narrow(const View& x, int axis, int64_t start, int64_t size) {
  View part = x;
  part.data = x.as<uint8_t>() + start * x.stride[axis] * static_cast<int64_t>(size_of(x.dtype));
  part.shape[axis] = size;
  return part;
}

}  // namespace proa::PROA_ISA
