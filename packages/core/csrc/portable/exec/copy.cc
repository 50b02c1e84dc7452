#include "proa/exec/copy.h"

#include <string.h>

namespace proa {

namespace {

struct Axis {
  int64_t size, from, to;  // strides in bytes
};

/// Drops axes of size 1, sorts by descending strides of `to`, merges adjacent axes where possible.
int simplify(const View& from, const View& to, Axis* axes) {
  const int64_t bytes = static_cast<int64_t>(size_of(from.dtype));
  int n = 0;
  for (int i = 0; i < from.rank; ++i) {
    if (from.shape[i] == 1) continue;
    Axis axis{from.shape[i], from.stride[i] * bytes, to.stride[i] * bytes};
    int at = n++;
    for (; at > 0 && axes[at - 1].to < axis.to; --at) axes[at] = axes[at - 1];
    axes[at] = axis;
  }
  int count = 0;
  for (int i = 1; i < n; ++i) {
    Axis& last = axes[count];
    if (last.from == axes[i].from * axes[i].size && last.to == axes[i].to * axes[i].size) {
      last = {last.size * axes[i].size, axes[i].from, axes[i].to};
    } else {
      axes[++count] = axes[i];
    }
  }
  return n == 0 ? 0 : count + 1;
}

template <size_t kBytes>
void copy_row(const uint8_t* from, uint8_t* to, const Axis& axis) {
  for (int64_t i = 0; i < axis.size; ++i) memcpy(to + i * axis.to, from + i * axis.from, kBytes);
}

void copy_row(const uint8_t* from, uint8_t* to, const Axis& axis, size_t bytes) {
  const auto step = static_cast<int64_t>(bytes);
  if (axis.from == step && axis.to == step) {
    memcpy(to, from, static_cast<size_t>(axis.size) * bytes);
    return;
  }
  switch (bytes) {
    case 1:
      return copy_row<1>(from, to, axis);
    case 2:
      return copy_row<2>(from, to, axis);
    case 4:
      return copy_row<4>(from, to, axis);
    case 8:
      return copy_row<8>(from, to, axis);
    default:
      return copy_row<16>(from, to, axis);
  }
}

}  // namespace

void copy_elements(const View& from, const View& to) {
  for (int i = 0; i < from.rank; ++i) {
    if (from.shape[i] == 0) return;
  }
  Axis axes[kMaxRank];
  const size_t bytes = size_of(from.dtype);
  int n = simplify(from, to, axes);
  if (n == 0) axes[n++] = {1, 0, 0};
  const auto* src = static_cast<const uint8_t*>(from.data);
  auto* dst = static_cast<uint8_t*>(to.data);
  int64_t index[kMaxRank] = {};
  const Axis& inner = axes[n - 1];
  while (true) {
    copy_row(src, dst, inner, bytes);
    int axis = n - 2;
    for (; axis >= 0; --axis) {
      src += axes[axis].from;
      dst += axes[axis].to;
      if (++index[axis] < axes[axis].size) break;
      src -= axes[axis].from * axes[axis].size;
      dst -= axes[axis].to * axes[axis].size;
      index[axis] = 0;
    }
    if (axis < 0) return;
  }
}

}  // namespace proa
