#pragma once
// A tensor as kernels see it: the layout of its elements, not their ownership.
#include "proa/base/dtype.h"
#include "proa/base/inline.h"

namespace proa {

constexpr int kMaxRank = 8;
constexpr int64_t kUnknown = -1;  // a dimension not known before run time (shape rules only)

/// Strided elements in memory the caller owns. Strides count elements and may be 0 (broadcast) or
/// negative (flipped). An optional input that was not given has `data == nullptr` and `rank == -1`.
struct View {
  void* data = nullptr;
  int64_t shape[kMaxRank] = {};
  int64_t stride[kMaxRank] = {};
  int8_t rank = -1;
  DType dtype = DType::kF32;

  PROA_INLINE bool given() const { return rank >= 0; }
  template <class T>
  PROA_INLINE T* as() const {
    return static_cast<T*>(data);
  }
  /// The element `offset` elements after the first, wherever that is; nullptr without data.
  PROA_INLINE void* data_at(int64_t offset) const {
    if (data == nullptr) return nullptr;
    return as<uint8_t>() + offset * static_cast<int64_t>(size_of(dtype));
  }
  /// Number of elements; kUnknown if a dimension is unknown.
  PROA_INLINE int64_t numel() const {
    int64_t n = 1;
    for (int i = 0; i < rank; ++i) {
      if (shape[i] == kUnknown) return kUnknown;
      n *= shape[i];
    }
    return n;
  }
  /// True if the elements are in row-major order without gaps.
  PROA_INLINE bool contiguous() const {
    int64_t expect = 1;
    for (int i = rank - 1; i >= 0; --i) {
      if (shape[i] == 0) return true;
      if (shape[i] != 1 && stride[i] != expect) return false;
      expect *= shape[i];
    }
    return true;
  }
  /// True for a rank-4 (N, C, H, W) view whose memory order is N, H, W, C without gaps.
  PROA_INLINE bool channels_last() const {
    return rank == 4 && (shape[1] == 1 || stride[1] == 1) &&
           (shape[3] == 1 || stride[3] == shape[1]) &&
           (shape[2] == 1 || stride[2] == shape[1] * shape[3]) &&
           (shape[0] == 1 || stride[0] == shape[1] * shape[2] * shape[3]);
  }
  /// Sets row-major strides for the shape.
  PROA_INLINE void set_contiguous() {
    int64_t s = 1;
    for (int i = rank - 1; i >= 0; --i) {
      stride[i] = s;
      s *= shape[i] > 0 ? shape[i] : 1;
    }
  }
  /// Sets strides of N, H, W, C memory order for a rank-4 shape.
  PROA_INLINE void set_channels_last() {
    stride[1] = 1;
    stride[3] = shape[1] > 0 ? shape[1] : 1;
    stride[2] = stride[3] * (shape[3] > 0 ? shape[3] : 1);
    stride[0] = stride[2] * (shape[2] > 0 ? shape[2] : 1);
  }
};

/// An axis in [-rank, rank) counted from the front.
PROA_INLINE int normalize_axis(int64_t axis, int rank) {
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

}  // namespace proa
