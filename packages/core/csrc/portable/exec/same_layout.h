#pragma once
#include "proa/base/view.h"

namespace proa {

/// True if both have one shape, dtype and memory layout. (Each file has its own copy: calls to it
/// then take less code.)
static inline bool same_layout(const View& a, const View& b) {
  if (a.rank != b.rank || a.dtype != b.dtype) return false;
  for (int i = 0; i < a.rank; ++i) {
    if (a.shape[i] != b.shape[i]) return false;
    if (a.shape[i] > 1 && a.stride[i] != b.stride[i]) return false;
  }
  return true;
}

}  // namespace proa
