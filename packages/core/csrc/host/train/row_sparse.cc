#include "proa/train/row_sparse.h"

#include "proa/gen/ops.h"
#include "proa/runtime/error.h"
#include "proa/train/dispatch.h"

namespace proa {

Tensor row_sparse(Tensor rows, Tensor values, int64_t height) {
  const bool fits = rows.rank() == 1 && rows.dtype() == DType::kI64 && values.rank() >= 1 &&
                    rows.view().shape[0] == values.view().shape[0] && height >= 0;
  if (!fits) {
    throw Error(ErrorKind::kInvalidArgument,
                "[row_sparse] there must be one int64 row number for each row of values, got " +
                    shape_text(rows.view()) + " and " + shape_text(values.view()));
  }
  TensorImpl* impl = TensorImpl::create();
  impl->view = values.view();
  impl->view.data = nullptr;
  impl->view.shape[0] = height;
  impl->view.set_contiguous();
  impl->flags |= TensorImpl::kRowSparse;
  impl->extra().rows = std::move(rows);
  impl->extra().values = std::move(values);
  return Tensor::take(impl);
}

Tensor dense(const Tensor& x) {
  if (!is_row_sparse(x.get())) return x;
  const GradMode off(false);
  // Only the shape of the third array is looked at.
  TensorImpl* like = TensorImpl::create();
  like->view = x.view();
  return ops::embedding_grad(x->extras->rows, x->extras->values, Tensor::take(like), -1);
}

Tensor joined(const Tensor& a, const Tensor& b) {
  const GradMode off(false);
  return row_sparse(ops::concat({a->extras->rows, b->extras->rows}, 0),
                    ops::concat({a->extras->values, b->extras->values}, 0), a.view().shape[0]);
}

}  // namespace proa
