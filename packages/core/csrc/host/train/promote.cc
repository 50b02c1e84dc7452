#include "proa/train/promote.h"

#include <algorithm>

#include "proa/base/half.h"
#include "proa/gen/attrs/unary.h"
#include "proa/gen/op_ids.h"
#include "proa/runtime/error.h"
#include "proa/train/host_table.h"

namespace proa {

namespace {

// bool, integers, floats, complex: a Python number changes an array's dtype only if its own
// category is the higher.
int category(DType dtype) {
  if (dtype == DType::kBool) return 0;
  if (is_integer(dtype)) return 1;
  return is_floating(dtype) ? 2 : 3;
}

DType default_of(DType weak_dtype) {
  switch (category(weak_dtype)) {
    case 0:
      return DType::kBool;
    case 1:
      return DType::kI64;
    case 2:
      return default_dtype();
    default:
      return default_dtype() == DType::kF64 ? DType::kC128 : DType::kC64;
  }
}

// What an array of `dtype` and a number of `number`'s category make.
DType with_weak(DType dtype, DType number) {
  if (category(number) <= category(dtype)) return dtype;
  if (category(number) == 3) {
    return dtype == DType::kF64 ? DType::kC128 : default_of(number);
  }
  return default_of(number);
}

bool is_where(const OpInfo& op) { return op.id == static_cast<uint16_t>(OpId::where); }

}  // namespace

DType promoted(DType a, DType b) { return kPromotion[static_cast<int>(a)][static_cast<int>(b)]; }

void Inputs::replace(int i, Tensor x) {
  if (count <= 16) {
    if (in != local) {
      std::copy_n(in, count, local);
      in = local;
    }
    local[i] = x.get();
    converted[i] = std::move(x);
    return;
  }
  if (many.empty()) {
    many.assign(in, in + count);
    many_converted.resize(static_cast<size_t>(count));
    in = many.data();
  }
  many[static_cast<size_t>(i)] = x.get();
  many_converted[static_cast<size_t>(i)] = std::move(x);
}

Tensor strong(const TensorImpl* number, DType dtype) {
  Scalar value;
  if (number->view.dtype == DType::kC128) {
    const C128 z = *reinterpret_cast<const C128*>(number->small);
    Tensor x = scalar(dtype, Scalar{0, {0}});
    if (dtype == DType::kC64) {
      *reinterpret_cast<C64*>(x->small) = {static_cast<float>(z.re), static_cast<float>(z.im)};
    } else {
      *reinterpret_cast<C128*>(x->small) = z;
    }
    return x;
  }
  if (number->view.dtype == DType::kF64) {
    value.is_int = 0;
    value.f = *reinterpret_cast<const double*>(number->small);
  } else {
    value.is_int = 1;
    value.i = number->view.dtype == DType::kBool ? number->small[0]
                                                 : *reinterpret_cast<const int64_t*>(number->small);
  }
  return scalar(dtype, value);
}

Tensor cast_to(TensorImpl* x, DType dtype) {
  CastAttrs attrs{};
  attrs.dtype = static_cast<int64_t>(dtype);
  Tensor out;
  dispatch(op_entries()[static_cast<int>(OpId::cast)], &x, 1, &attrs, &out);
  return out;
}

void promote_inputs(const OpEntry& entry, Inputs* inputs) {
  const OpInfo& op = *entry.info;
  // Arrays that are treated alike; `where` has a condition before them.
  const int first = is_where(op) ? 1 : 0;
  bool any = false, weak = false, alike = true;
  DType target = DType::kBool, widest_weak = DType::kBool, seen = DType::kBool;
  for (int i = first; i < inputs->count; ++i) {
    const TensorImpl* x = inputs->in[i];
    if (x == nullptr) continue;
    if (i < 32 && (op.shape_only >> i & 1) != 0 && op.n_in != kVariadic) continue;
    const DType dtype = x->view.dtype;
    if (x->has(TensorImpl::kWeak)) {
      if (!weak || category(dtype) > category(widest_weak)) widest_weak = dtype;
      weak = true;
      continue;
    }
    if (any) alike &= dtype == seen;
    seen = dtype;
    target = any && op.promote != Promote::kNone ? promoted(target, dtype) : any ? target : dtype;
    any = true;
  }
  const bool convert = op.promote != Promote::kNone || first == 1;
  if (!any) target = default_of(widest_weak);
  if (any && weak) target = convert ? with_weak(target, widest_weak) : target;
  if (op.promote == Promote::kFloat && category(target) < 2) target = default_dtype();
  if (!weak && alike && (!any || target == seen)) return;
  for (int i = first; i < inputs->count; ++i) {
    TensorImpl* x = inputs->in[i];
    if (x == nullptr || (i < 32 && (op.shape_only >> i & 1) != 0 && op.n_in != kVariadic)) continue;
    if (x->has(TensorImpl::kWeak)) {
      inputs->replace(i, strong(x, target));
    } else if (convert && x->view.dtype != target && (first == 0 || weak)) {
      inputs->replace(i, cast_to(x, target));
    }
  }
}

namespace {

bool is_low(DType dtype) { return dtype == DType::kF16 || dtype == DType::kBF16; }
bool admits(const OpInfo& op, DType dtype) {
  return (op.dtypes >> static_cast<int>(dtype) & 1) != 0;
}

// True if the op has no kernel for `low`, or is given both `low` and float32 without a preference.
bool stays_f32(const OpInfo& op, AutocastClass kind, const Inputs& inputs, DType low) {
  if (admits(op, DType::kF32) && !admits(op, low)) return true;
  if (kind != AutocastClass::kGray || op.promote != Promote::kNone) return false;
  bool narrow = false, wide = false;
  for (int i = 0; i < inputs.count; ++i) {
    const TensorImpl* x = inputs.in[i];
    if (x == nullptr || x->has(TensorImpl::kWeak)) continue;
    narrow |= is_low(x->view.dtype);
    wide |= x->view.dtype == DType::kF32;
  }
  return narrow && wide;
}

}  // namespace

void autocast_inputs(const OpEntry& entry, Inputs* inputs) {
  const Autocast& state = autocast();
  AutocastClass kind = state.classes != nullptr
                           ? static_cast<AutocastClass>(state.classes[entry.info->id])
                           : kHostOps[entry.info->id].autocast;
  if (stays_f32(*entry.info, kind, *inputs, state.dtype)) kind = AutocastClass::kBlack;
  if (kind == AutocastClass::kGray || kind == AutocastClass::kMixed) return;
  const DType target = kind == AutocastClass::kWhite ? state.dtype : DType::kF32;
  for (int i = 0; i < inputs->count; ++i) {
    TensorImpl* x = inputs->in[i];
    if (x == nullptr || x->has(TensorImpl::kWeak)) continue;
    const DType dtype = x->view.dtype;
    const bool low = is_low(dtype);
    if (kind == AutocastClass::kWhite ? (dtype == DType::kF32 || (low && dtype != target)) : low) {
      inputs->replace(i, cast_to(x, target));
    }
  }
}

}  // namespace proa
