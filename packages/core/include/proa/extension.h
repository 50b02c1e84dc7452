#pragma once
// Operators in C++, without rebuilding Proa. A kernel is a function of tensors and attributes:
//
//   std::vector<proa::ext::Tensor> twice(const proa::ext::Tensor& x, float by) { ... return {y}; }
//
//   PD_BUILD_OP(twice).Inputs({"X"}).Outputs({"Y"}).Attrs({"by: float"})
//       .SetKernelFn(PD_KERNEL(twice)).SetInferShapeFn(PD_INFER_SHAPE(twice_shape))
//       .SetInferDtypeFn(PD_INFER_DTYPE(twice_dtype));
//   PD_BUILD_GRAD_OP(twice).Inputs({proa::ext::Grad("Y")}).Outputs({proa::ext::Grad("X")}) ...
//
// Build it with proa.utils.cpp_extension. All of it is in headers: an extension links nothing of
// Proa and works with every library of the same PROA_EXTENSION_ABI.
#include "proa/extension/builder.h"
#include "proa/extension/dispatch.h"
#include "proa/extension/tensor.h"
