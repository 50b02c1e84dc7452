#pragma once
#include "proa/base/view.h"

namespace proa {

/// True if the elements of both lie alike: one shape, dtype and order. (Each file has its own:
/// calls to it then take less code.)
static inline bool same_place(const View& a, const View& b) {
  if (a.rank != b.rank || a.dtype != b.dtype) return false;
  for (int i = 0; i < a.rank; ++i) {
    if (a.shape[i] != b.shape[i]) return false;
    if (a.shape[i] > 1 && a.stride[i] != b.stride[i]) return false;
  }
  return true;
}

}  // namespace proa
