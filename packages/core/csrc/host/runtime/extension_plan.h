#pragma once
// How a plan runs an extension's operator: by a row of the operator table with a kernel of its own.
#include "proa/runtime/extension.h"

namespace proa {

/// Registers a row for the operator, if its number of outputs is fixed.
void make_plannable(ExtensionOp* op);
/// While a planned call runs on this thread: memory of an output of that many bytes that was not
/// taken yet, as borrowed storage; else null. So kernels that make their result write in place.
Storage* take_offer(size_t bytes);

}  // namespace proa
