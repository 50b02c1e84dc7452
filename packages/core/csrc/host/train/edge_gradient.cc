#include "proa/train/edge_gradient.h"

#include <algorithm>
#include <cstring>

#include "proa/gen/ops.h"

namespace proa {

namespace {

// A tensor of the shape and dtype without data; the symbol itself where a graph is recorded.
Tensor placeholder(const OutputMeta& meta) {
  TensorImpl* impl = TensorImpl::create();
  if (meta.handle != nullptr) {
    impl->flags |= TensorImpl::kSymbolic;
    impl->extra().handle = meta.handle;
  }
  impl->view.rank = meta.rank;
  impl->view.dtype = meta.dtype;
  std::memcpy(impl->view.shape, meta.shape, sizeof meta.shape);
  impl->view.set_contiguous();
  return Tensor::take(impl);
}

OutputMeta meta_of(const Edge& edge) {
  return edge.node != nullptr ? edge.node->outputs()[edge.index] : meta_of(edge.leaf);
}

bool has_unknown(const OutputMeta& meta) {
  return std::any_of(meta.shape, meta.shape + meta.rank, [](int64_t n) { return n < 0; });
}

// True if a dimension of edge i's array that is unknown while a graph is recorded may be 1 where
// that of another array of the node is not.
bool may_broadcast(Node* node, int i, const OutputMeta& meta) {
  if (meta.handle == nullptr || !has_unknown(meta)) return false;
  for (int k = 0; k < node->edge_count(); ++k) {
    if (k == i) continue;
    const Edge& other = node->edges()[k];
    const bool elementwise = node->op() != nullptr && node->op()->info->elementwise;
    if (other.wanted() ? has_unknown(meta_of(other)) : elementwise) return true;
  }
  return false;
}

}  // namespace

OutputMeta meta_of(const TensorImpl* x) {
  OutputMeta meta;
  std::memcpy(meta.shape, x->view.shape, sizeof meta.shape);
  meta.rank = x->view.rank;
  meta.dtype = x->view.dtype;
  if (x->has(TensorImpl::kSymbolic)) meta.handle = x->extras->handle;
  return meta;
}

Tensor full(const OutputMeta& meta, int64_t value) {
  Scalar number;
  number.is_int = 1;
  number.i = value;
  return ops::full_like(placeholder(meta), number, static_cast<int64_t>(meta.dtype));
}

bool same_shape(const View& v, const OutputMeta& meta) {
  return v.rank == meta.rank &&
         std::memcmp(v.shape, meta.shape, sizeof(int64_t) * static_cast<size_t>(meta.rank)) == 0;
}

Tensor sum_to_edge(Tensor grad, Node* node, int i) {
  const Edge& edge = node->edges()[i];
  const OutputMeta meta = meta_of(edge);
  if (is_complex(grad.dtype()) && !is_complex(meta.dtype)) grad = ops::real(grad);
  const bool symbolic = grad->has(TensorImpl::kSymbolic);
  if (!same_shape(grad.view(), meta) || (symbolic && may_broadcast(node, i, meta))) {
    Tensor like = edge.leaf != nullptr ? Tensor::share(edge.leaf) : placeholder(meta);
    const bool needs_data = symbolic && edge.leaf == nullptr;
    if (needs_data && meta.handle == nullptr) like = full(meta, 0);
    grad = ops::sum_to(grad, like);
  }
  if (grad.dtype() != meta.dtype) grad = ops::cast(grad, static_cast<int64_t>(meta.dtype));
  return grad;
}

}  // namespace proa
