#pragma once
// Arithmetic on dimensions of which some are unknown.
#include "proa/base/call.h"

namespace proa {

/// An axis counted from the front; -1 if it is not in [-rank, rank).
inline int normal_axis(int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) return -1;
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

inline bool may_equal(int64_t a, int64_t b) { return a == b || a == kUnknown || b == kUnknown; }
/// The first of two sizes that is known.
inline int64_t first_known(int64_t a, int64_t b) { return a == kUnknown ? b : a; }

/// True if n elements form groups of `divisor`, or may: n is unknown.
inline bool divides(int64_t divisor, int64_t n) {
  return n == kUnknown || (divisor > 0 && n % divisor == 0);
}

/// The dtypes that number elements.
inline bool is_index(DType t) { return t == DType::kI32 || t == DType::kI64; }

inline void copy_shape(const View& from, View* to) {
  to->rank = from.rank;
  for (int i = 0; i < from.rank; ++i) to->shape[i] = from.shape[i];
}

/// True if 16 bytes for each element fit into 63 bits, dimensions of 0 left out: then strides and
/// sizes in bytes fit, too.
inline bool bytes_fit(const View& v) {
  int64_t bytes = 16;
  bool fit = true;
  for (int i = 0; fit && i < v.rank; ++i)
    fit = v.shape[i] <= 0 || !__builtin_mul_overflow(bytes, v.shape[i], &bytes);
  return fit;
}

/// True if the shapes may be the same.
inline bool same_shape(const View& a, const View& b) {
  bool same = a.rank == b.rank;
  for (int i = 0; same && i < a.rank; ++i) same = may_equal(a.shape[i], b.shape[i]);
  return same;
}

/// True if the known dimensions and the dtypes are equal.
inline bool alike(const View& a, const View& b) { return a.dtype == b.dtype && same_shape(a, b); }

/// True if `small` may be broadcast to the shape of `large`.
inline bool broadcasts_to(const View& small, const View& large) {
  const int lead = large.rank - small.rank;
  if (lead < 0) return false;
  for (int i = 0; i < small.rank; ++i) {
    if (small.shape[i] != 1 && !may_equal(small.shape[i], large.shape[lead + i])) return false;
  }
  return true;
}

/// Product of shape[begin, end); kUnknown if one is unknown and none is zero.
inline int64_t product(const View& v, int begin, int end) {
  int64_t n = 1;
  bool unknown = false;
  for (int i = begin; i < end; ++i) {
    if (v.shape[i] == 0) return 0;
    if (v.shape[i] == kUnknown) {
      unknown = true;
    } else if (__builtin_mul_overflow(n, v.shape[i], &n)) {
      return kUnknown;
    }
  }
  return unknown ? kUnknown : n;
}

/// One dimension of a broadcast; false if the two do not fit.
inline bool broadcast_dim(int64_t a, int64_t b, int64_t* out) {
  if (a == b || b == 1) {
    *out = a;
  } else if (a == 1) {
    *out = b;
  } else if (a == kUnknown || b == kUnknown) {
    *out = a == kUnknown ? b : a;  // the known one, which is not 1, must win
  } else {
    return false;
  }
  return true;
}

/// Broadcasts the leading `na` and `nb` dimensions of a and b into out, which gets the longer rank.
inline bool broadcast_leading(const View& a, int na, const View& b, int nb, View* out) {
  const int n = na > nb ? na : nb;
  out->rank = static_cast<int8_t>(n);
  for (int i = 0; i < n; ++i) {
    const int ia = i - (n - na), ib = i - (n - nb);
    const int64_t da = ia < 0 ? 1 : a.shape[ia], db = ib < 0 ? 1 : b.shape[ib];
    if (!broadcast_dim(da, db, &out->shape[i])) return false;
  }
  return true;
}

/// Marks the axes that a list names (all if it is empty) in a bit set; false if one is off or
/// twice.
inline bool axis_mask(const Ints& axes, int rank, uint32_t* mask) {
  *mask = 0;
  if (axes.count <= 0) {
    *mask = (1u << rank) - 1;
    return true;
  }
  for (int i = 0; i < axes.count; ++i) {
    const int a = normal_axis(axes[i], rank);
    if (rank == 0 && (axes[i] == 0 || axes[i] == -1))
      continue;  // as NumPy allows axis 0 of 0-d arrays
    if (a < 0 || (*mask >> a & 1)) return false;
    *mask |= 1u << a;
  }
  return true;
}

}  // namespace proa
