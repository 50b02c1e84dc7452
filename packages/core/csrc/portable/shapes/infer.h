#pragma once
// The dtypes and shapes of an op's outputs, from its row.
#include "proa/base/op_table.h"
#include "proa/shapes/dims.h"

namespace proa {

/// dtype of output i of a call whose inputs are already promoted.
inline DType output_dtype(const OpInfo& op, const Call& call, int i) {
  const DType first = call.n_in > 0 ? call.in[0].dtype : DType::kF32;
  switch (op.out_dtype[i]) {
    case DTypeRule::kSame:
      return first;
    case DTypeRule::kBool:
      return DType::kBool;
    case DTypeRule::kI64:
      return DType::kI64;
    case DTypeRule::kI32:
      return DType::kI32;
    case DTypeRule::kI8:
      return DType::kI8;
    case DTypeRule::kF32:
      return DType::kF32;
    case DTypeRule::kAttr: {
      const auto* at = static_cast<const uint8_t*>(call.attrs) + op.dtype_attr;
      return static_cast<DType>(*reinterpret_cast<const int64_t*>(at));
    }
    case DTypeRule::kReal:
      if (first == DType::kC64) return DType::kF32;
      return first == DType::kC128 ? DType::kF64 : first;
    case DTypeRule::kLast:
      for (int k = call.n_in - 1; k >= 0; --k) {
        if (call.in[k].given()) return call.in[k].dtype;
      }
      return first;
    case DTypeRule::kSum:
      return first == DType::kBool || is_integer(first) ? DType::kI64 : first;
    case DTypeRule::kComplex:
      return first == DType::kF64 ? DType::kC128 : DType::kC64;
    case DTypeRule::kWide:
      return first == DType::kF16 || first == DType::kBF16 ? DType::kF32 : first;
  }
  return first;
}

/// Fills dtype, rank and shape of every output; of a view, which has one, also strides and, if the
/// caller gave view_offset, data.
/// kResourceExhausted if the size in bytes of an output does not fit into 63 bits.
inline Status infer(const OpInfo& op, const Call& call) {
  for (int i = 0; i < call.n_out; ++i) call.out[i].dtype = output_dtype(op, call, i);
  PROA_TRY(op.shape(call));
  if (call.view_offset != nullptr) call.out[0].data = call.in[0].data_at(*call.view_offset);
  for (int i = 0; i < call.n_out; ++i) {
    if (!bytes_fit(call.out[i])) return Status::kResourceExhausted;
  }
  return Status::kOk;
}

}  // namespace proa
