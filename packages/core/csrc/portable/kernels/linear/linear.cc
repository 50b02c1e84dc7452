// y = act(x @ w + bias + residual): the leading axes of x are the rows of one product.
#include "proa/gen/attrs/linear.h"
#include "proa/simd/gemm/product.h"

namespace proa::PROA_ISA {
namespace {

CoalescedAxes axis(const View& v, int d) { return coalesce_axes(v, d, d + 1); }

Product weights(const Call& c) {
  const View& w = c.in[1];
  Product p;
  p.dtype = w.dtype;
  p.k = w.shape[0];
  p.n = w.shape[1];
  p.b.data = w.data;
  p.b.steps = axis(w, 0);
  p.b.stride = w.shape[1] == 1 ? 1 : w.stride[1];
  return p;
}

MatrixRef matrix_ref(const View& v) {
  MatrixRef p = {v.data, v.dtype, coalesce_axes(v, 0, v.rank - 1), v.stride[v.rank - 1]};
  if (v.shape[v.rank - 1] == 1) p.stride = 1;
  return p;
}

Product product_of(const Call& c, const View* residual, int64_t act) {
  const View &x = c.in[0], &y = c.out[0];
  Product p = weights(c);
  p.m = 1;
  for (int d = 0; d + 1 < x.rank; ++d) p.m *= x.shape[d];
  p.a.data = x.data;
  p.a.rows = coalesce_axes(x, 0, x.rank - 1);
  p.a.steps = axis(x, x.rank - 1);
  p.b.packed = c.packed;
  if (c.n_in > 2 && c.in[2].given()) p.bias = &c.in[2];
  p.end.out = matrix_ref(y);
  p.end.act = static_cast<Act>(act);
  if (residual != nullptr && residual->given()) p.end.residual = matrix_ref(*residual);
  return p;
}

Product fused_product(const Call& c) {
  return product_of(c, c.n_in > 3 ? &c.in[3] : nullptr, c.attr<LinearActAttrs>().act);
}

Status run(const Call& c, const Product& p) {
  if (!is_floating(p.dtype)) return Status::kUnimplemented;
  multiply(c, p, c.scratch);
  return Status::kOk;
}

}  // namespace

Status linear(const Call& c) { return run(c, product_of(c, nullptr, 0)); }
size_t linear_scratch(const Call& c) { return product_scratch(product_of(c, nullptr, 0)); }
size_t linear_pack_size(const Call& c) { return product_packed_size(weights(c)); }
Status linear_pack(const Call& c, void* packed) {
  pack_product(weights(c), packed);
  return Status::kOk;
}

Status linear_act(const Call& c) { return run(c, fused_product(c)); }
size_t linear_act_scratch(const Call& c) {
  Product p = fused_product(c);
  // Arrays have no memory yet when a plan is made, and that there is a residual decides the path.
  if (c.n_in > 3 && c.in[3].given()) p.end.residual.data = &p;
  return product_scratch(p);
}
size_t linear_act_pack_size(const Call& c) { return product_packed_size(weights(c)); }
Status linear_act_pack(const Call& c, void* packed) {
  pack_product(weights(c), packed);
  return Status::kOk;
}

namespace {

// dw = x^T dy: k runs over all leading axes.
Product weight_gradient(const Call& c) {
  const View &x = c.in[0], &dy = c.in[1];
  Product p;
  p.dtype = x.dtype;
  p.m = x.shape[x.rank - 1];
  p.n = dy.shape[dy.rank - 1];
  p.k = 1;
  for (int d = 0; d + 1 < x.rank; ++d) p.k *= x.shape[d];
  p.a.data = x.data;
  p.a.rows = axis(x, x.rank - 1);
  p.a.steps = coalesce_axes(x, 0, x.rank - 1);
  p.b.data = dy.data;
  p.b.steps = coalesce_axes(dy, 0, dy.rank - 1);
  p.b.stride = p.n == 1 ? 1 : dy.stride[dy.rank - 1];
  p.end.out = matrix_ref(c.out[0]);
  return p;
}

}  // namespace

Status linear_grad_weight(const Call& c) { return run(c, weight_gradient(c)); }
size_t linear_grad_weight_scratch(const Call& c) { return product_scratch(weight_gradient(c)); }

}  // namespace proa::PROA_ISA
