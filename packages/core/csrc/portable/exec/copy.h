#pragma once
#include "proa/base/view.h"

namespace proa {

/// Copies the elements of `from` to `to`: one shape and dtype, any strides, memory that does not
/// overlap.
void copy_elements(const View& from, const View& to);

}  // namespace proa
