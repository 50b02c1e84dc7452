#pragma once
// Gradients for the tape's edges: of the shape and dtype of the array that an edge points
// to. Symbolic ones are recorded.
#include "proa/train/tape.h"

namespace proa {

/// Shape and dtype of a tensor, with its symbol.
OutputMeta meta_of(const TensorImpl* x);
/// An array of this shape and dtype filled with a number.
Tensor full(const OutputMeta& meta, int64_t value);
bool same_shape(const View& v, const OutputMeta& meta);
/// The gradient summed to the shape, and cast to the dtype, of the array that the node's edge i
/// points to. Where a dimension is unknown while a graph is recorded, a run decides what is summed.
Tensor sum_to_edge(Tensor grad, Node* node, int i);

}  // namespace proa
