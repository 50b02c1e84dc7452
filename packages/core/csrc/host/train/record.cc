// Records calls on the tape: which tensors a node saves, and in what form.
#include "proa/train/grad_call.h"
#include "proa/train/tape.h"

namespace proa {

namespace {

// Shape and dtype of x without its data, so that the memory is not kept alive.
Tensor shape_of(TensorImpl* x) {
  if (x->has(TensorImpl::kSymbolic)) return detach(Tensor::share(x));
  TensorImpl* impl = TensorImpl::create();
  impl->view = x->view;
  impl->view.data = nullptr;
  impl->flags |= x->flags & TensorImpl::kContiguous;
  return Tensor::take(impl);
}

void save(Saved* slot, TensorImpl* x, bool shape_only) {
  if (x == nullptr) return;
  if (shape_only) {
    slot->value = shape_of(x);
    return;
  }
  slot->value = Tensor::share(x);
  slot->version = x->version();
  slot->checked = true;
}

int slots_of(const GradInfo& info, int n_in) {
  int count = info.saved_count;
  for (int i = 0; i < info.saved_count; ++i) {
    if (info.saved[i].kind == SavedSpec::kVariadic) count += n_in - info.saved[i].index - 1;
  }
  return count;
}

bool differentiable(DType dtype) { return is_floating(dtype) || is_complex(dtype); }

}  // namespace

void record_node(const OpEntry& entry, TensorImpl* const* in, int n_in, const void* attrs,
                 Tensor* out, int n_out, TensorImpl* const* before) {
  const GradInfo& info = kGrads[entry.info->id];
  const auto bump = [&] {
    if (before == nullptr) return;
    for (int i = 0; i < n_out; ++i) out[i]->storage->bump_version();
  };
  // A recorded graph refers to its arrays, which are saved unchanged.
  const bool symbolic = out[0]->has(TensorImpl::kSymbolic);
  const bool variadic = entry.info->n_in == kVariadic;
  const auto at = [&](int i) { return before != nullptr && before[i] ? before[i] : in[i]; };
  uint32_t wanted = 0;
  for (int i = 0; info.run != nullptr && i < n_in; ++i) {
    const int bit = variadic ? 0 : i;
    if (at(i) != nullptr && at(i)->requires_grad()) wanted |= info.inputs & (1u << bit);
  }
  bool any_output = false;
  const auto carries = [&](int i) {
    return (info.outputs >> i & 1) != 0 && differentiable(out[i].dtype());
  };
  for (int i = 0; i < n_out; ++i) any_output |= carries(i);
  if (wanted == 0 || !any_output) return bump();

  Node* node = Node::create(&entry, n_in, slots_of(info, n_in), n_out, attrs);
  for (int i = 0; i < n_in; ++i) {
    if ((info.inputs >> (variadic ? 0 : i) & 1) != 0) node->connect(i, at(i));
  }
  Saved* slot = node->saved();
  for (int i = 0; i < info.saved_count; ++i) {
    const SavedSpec& spec = info.saved[i];
    const bool keep = (spec.needed_by & wanted) != 0;
    if (spec.kind == SavedSpec::kVariadic) {
      for (int k = spec.index; k < n_in; ++k, ++slot) {
        if (keep) save(slot, at(k), spec.shape_only && !symbolic);
      }
      continue;
    }
    if (keep && spec.kind == SavedSpec::kInput && spec.index < n_in) {
      save(slot, at(spec.index), spec.shape_only && !symbolic);
    }
    ++slot;
  }
  bump();
  slot = node->saved();
  for (int i = 0; i < info.saved_count; ++i) {
    const SavedSpec& spec = info.saved[i];
    if (spec.kind == SavedSpec::kOutput && (spec.needed_by & wanted) != 0) {
      // Without its grad_fn: the node would keep itself alive.
      save(slot, detach(out[spec.index]).get(), spec.shape_only);
      slot->own_output = true;
    }
    slot += spec.kind == SavedSpec::kVariadic ? n_in - spec.index : 1;
  }
  for (int i = 0; i < n_out; ++i) {
    if (carries(i)) node->adopt(i, out[i].get());
  }
  node->drop();
}

}  // namespace proa
