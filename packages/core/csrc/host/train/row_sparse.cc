#include "proa/train/row_sparse.h"

#include "proa/gen/ops.h"
#include "proa/runtime/error.h"
#include "proa/train/dispatch.h"

namespace proa {

Tensor row_sparse(Tensor rows, Tensor values, const Tensor& like) {
  const bool fits = rows.rank() == 1 && rows.dtype() == DType::kI64 && values.rank() >= 1 &&
                    rows.view().shape[0] == values.view().shape[0] && like.rank() >= 1 &&
                    like.view().shape[0] >= 0;
  if (!fits) {
    throw Error(ErrorKind::kInvalidArgument,
                "[row_sparse] expected one int64 row number for each row of values, got " +
                    shape_text(rows.view()) + " and " + shape_text(values.view()));
  }
  TensorImpl* impl = TensorImpl::create();
  impl->view = values.view();
  impl->view.data = nullptr;
  impl->view.shape[0] = like.view().shape[0];
  impl->view.set_contiguous();
  impl->flags |= TensorImpl::kRowSparse;
  impl->extra().rows = std::move(rows);
  impl->extra().values = std::move(values);
  if (is_row_sparse(like.get())) {
    impl->extra().table = like->extras->table;
  } else if (like->has(TensorImpl::kSymbolic)) {
    impl->extra().table = detach(like);
  }
  return Tensor::take(impl);
}

Tensor dense(const Tensor& x) {
  if (!is_row_sparse(x.get())) return x;
  const GradMode off(false);
  // Only the shape of the third array is looked at.
  Tensor like = x->extras->table;
  if (!like) {
    like = Tensor::take(TensorImpl::create());
    like->view = x.view();
  }
  return ops::embedding_grad(x->extras->rows, x->extras->values, like, -1);
}

Tensor joined(const Tensor& a, const Tensor& b) {
  const GradMode off(false);
  return row_sparse(ops::concat({a->extras->rows, b->extras->rows}, 0),
                    ops::concat({a->extras->values, b->extras->values}, 0), a);
}

}  // namespace proa
