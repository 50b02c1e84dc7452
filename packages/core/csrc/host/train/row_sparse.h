#pragma once
// Gradients of a table that are zero but for the rows that were looked up.
#include "proa/train/tensor.h"

namespace proa {

/// A tensor of the table's shape without memory of its own: values[i] belongs to row rows[i], and
/// a row that occurs more than once has the sum. `rows` is int64 (n), `values` (n, row's shape).
/// It adds up to another of its kind without being spread out; every op sees it as dense. `like` is
/// the table or another such gradient; of a program that is being recorded if the rows are.
Tensor row_sparse(Tensor rows, Tensor values, const Tensor& like);
inline bool is_row_sparse(const TensorImpl* x) { return x->has(TensorImpl::kRowSparse); }
/// The same elements in memory; x itself if it is no row-sparse tensor.
Tensor dense(const Tensor& x);
/// The sum of two row-sparse tensors: the rows of one after those of the other.
Tensor joined(const Tensor& a, const Tensor& b);

}  // namespace proa
