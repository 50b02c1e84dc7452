// The upper half of the dispatcher: promotes inputs, chooses kernel, composite or recorder, and
// records the call on the tape.
#include "proa/train/dispatch.h"

#include <atomic>
#include <cstring>

#include "proa/gen/op_ids.h"
#include "proa/runtime/error.h"
#include "proa/runtime/thread_local.h"
#include "proa/shapes/infer.h"
#include "proa/train/grad_call.h"
#include "proa/train/host_table.h"
#include "proa/train/promote.h"
#include "proa/train/row_sparse.h"
#include "proa/train/run.h"
#include "proa/train/tape.h"
#include "proa/train/watch.h"

namespace proa {

namespace {

// What calls of a thread depend on, in one struct, so that its address is found once.
struct ThreadSwitches {
  Autocast autocast;
  bool grad_enabled = true;
  bool records_all = false;
  bool binds_all = false;
  bool builds_here = true;
};
thread_local ThreadSwitches t_switches;
std::atomic<bool> g_builds_program{false};

// What the inputs of a call have in common.
struct InputSummary {
  uint16_t any_flags = 0;
  uint16_t all_flags = 0xffff;
  bool same_dtype = true;
  bool same_shape = true;
  bool missing = false;
};

InputSummary summarize(TensorImpl* const* in, int n) {
  InputSummary summary;
  const TensorImpl* first = nullptr;
  for (int i = 0; i < n; ++i) {
    const TensorImpl* x = in[i];
    if (x == nullptr) {
      summary.missing = true;
      continue;
    }
    summary.any_flags |= x->flags;
    summary.all_flags &= x->flags;
    if (first == nullptr) {
      first = x;
      continue;
    }
    summary.same_dtype &= x->view.dtype == first->view.dtype;
    summary.same_shape = summary.same_shape && x->view.rank == first->view.rank &&
                         std::memcmp(x->view.shape, first->view.shape,
                                     sizeof(int64_t) * static_cast<size_t>(first->view.rank)) == 0;
  }
  return summary;
}

void check_count(const OpInfo& op, TensorImpl* const* in, int n_in) {
  if (op.n_in == kVariadic) {
    if (n_in > 0) return;
    throw Error(ErrorKind::kInvalidArgument,
                std::string("[") + op.name + "] expected at least one array, got none");
  }
  for (int i = 0; i < op.n_required; ++i) {
    if (i < n_in && in[i] != nullptr) continue;
    throw Error(ErrorKind::kInvalidArgument, std::string("[") + op.name + "] array " +
                                                 std::to_string(i + 1) + " must not be None");
  }
}

void record_symbolic(const OpEntry& entry, const Inputs& inputs, const void* attrs, Tensor* out) {
  if (dispatch_hooks.record == nullptr) {
    throw Error(ErrorKind::kPreconditionNotMet, std::string("[") + entry.info->name +
                                                    "] expected a program that is being recorded "
                                                    "to use a symbolic tensor, got none");
  }
  dispatch_hooks.record(entry, inputs.in, inputs.count, attrs, out);
}

bool runs_composite(const OpEntry& entry, bool tape) {
  if (kGrads[entry.info->id].composite == nullptr) return false;
  if (entry.info->kind == OpKind::kComposite || tape) return true;
  return entry.info->kind == OpKind::kKernel && entry.kernel.run == nullptr;
}

void run_composite(const OpEntry& entry, const Inputs& inputs, const void* attrs, Tensor* out) {
  std::vector<Tensor> arrays(static_cast<size_t>(inputs.count));
  for (int i = 0; i < inputs.count; ++i) {
    arrays[static_cast<size_t>(i)] = Tensor::share(inputs.in[i]);
  }
  kGrads[entry.info->id].composite(arrays.data(), inputs.count, attrs, out);
}

// Ops see row-sparse gradients as dense arrays.
void make_dense(Inputs* inputs) {
  for (int i = 0; i < inputs->count; ++i) {
    TensorImpl* x = inputs->in[i];
    if (x != nullptr && is_row_sparse(x)) inputs->replace(i, dense(Tensor::share(x)));
  }
}

// A view op whose input's strides admit no view: of a row-major copy.
void view_of_copy(const OpEntry& entry, Inputs* inputs, const void* attrs, Tensor* out) {
  inputs->replace(0, contiguous(inputs->in[0]));
  if (!compute(entry, inputs->in, inputs->count, attrs, false, out)) {
    throw Error(ErrorKind::kFatal, std::string("[") + entry.info->name +
                                       "] a row-major array must admit a view, got none");
  }
}

}  // namespace

std::string output_name(const OpInfo& op, int i) {
  return dispatch_hooks.output_name == nullptr ? std::to_string(i)
                                               : dispatch_hooks.output_name(op, i);
}

void set_records_all(bool on) { t_switches.records_all = on; }
void set_binds_all(bool on) { t_switches.binds_all = on; }
bool binds_all() { return t_switches.binds_all; }
bool records_all() { return t_switches.records_all; }
void set_builds_program(bool on) { g_builds_program.store(on, std::memory_order_relaxed); }
void set_builds_here(bool on) { t_switches.builds_here = on; }
bool builds_here() { return t_switches.builds_here; }
bool builds_program() {
  return g_builds_program.load(std::memory_order_relaxed) && t_switches.builds_here;
}
bool grad_enabled() { return t_switches.grad_enabled; }
void set_grad_enabled(bool on) { t_switches.grad_enabled = on; }
Autocast& autocast() { return t_switches.autocast; }

bool needs_node(TensorImpl* const* in, int n_in) {
  if (!t_switches.grad_enabled) return false;
  for (int i = 0; i < n_in; ++i) {
    if (in[i] != nullptr && in[i]->requires_grad()) return true;
  }
  return false;
}

void dispatch(const OpEntry& entry, TensorImpl* const* in, int n_in, const void* attrs,
              Tensor* out) {
  const OpInfo& op = *entry.info;
  check_count(op, in, n_in);
  const Timed timed(op.name, EventKind::kOp, in, n_in);
  Inputs inputs(in, n_in);
  const ThreadSwitches& thread = of_this_thread(t_switches);
  if (thread.autocast.on) autocast_inputs(entry, &inputs);
  InputSummary all = summarize(inputs.in, n_in);
  if ((all.any_flags & TensorImpl::kRowSparse) != 0) {
    make_dense(&inputs);
    all = summarize(inputs.in, n_in);
  }
  const bool floats = op.promote == Promote::kFloat;
  if (!all.same_dtype || (all.any_flags & TensorImpl::kWeak) != 0 ||
      (floats && n_in > 0 && inputs.in[0]->view.dtype < DType::kF16)) {
    promote_inputs(entry, &inputs);
    all.same_shape = false;
  }
  // A promoted number does not require a gradient; another input of the call may.
  const bool tape = (all.all_flags & TensorImpl::kStopGradient) == 0 && thread.grad_enabled;
  const bool symbolic = (all.any_flags & TensorImpl::kSymbolic) != 0 ||
                        (thread.records_all && (tape || entry.info->random)) ||
                        (n_in == 0 && builds_program());
  if ((all.any_flags & TensorImpl::kSymbolic) != 0 && dispatch_hooks.await_recording != nullptr &&
      dispatch_hooks.await_recording(in, n_in)) {
    dispatch(entry, in, n_in, attrs, out);
    return;
  }
  if (runs_composite(entry, tape)) {
    run_composite(entry, inputs, attrs, out);
    return;
  }
  if (tape) {
    for (int i = 0; i < n_in; ++i) {
      if (inputs.in[i] != nullptr) check_view(entry, inputs.in[i]);
    }
  }
  if (symbolic) {
    record_symbolic(entry, inputs, attrs, out);
  } else {
    const bool quick = op.elementwise && all.same_shape && all.same_dtype && !all.missing &&
                       n_in > 0 && op.n_out == 1 && (all.all_flags & TensorImpl::kContiguous) != 0;
    if (!compute(entry, inputs.in, n_in, attrs, quick, out)) {
      view_of_copy(entry, &inputs, attrs, out);
    }
  }
  if (tape) record_node(entry, inputs.in, n_in, attrs, out, op.n_out);
}

void check_view(const OpEntry& entry, const TensorImpl* x) {
  if (!x->has(TensorImpl::kView) || x->grad_fn == nullptr || x->storage == nullptr) return;
  if (x->storage->version() == x->version_at_view) return;
  throw Error(ErrorKind::kPreconditionNotMet,
              std::string("[") + entry.info->name +
                  "] a view that takes a gradient must not be used after its memory was modified "
                  "through another tensor, got version " +
                  std::to_string(x->storage->version()) + ", expected " +
                  std::to_string(x->version_at_view));
}

Tensor call(const char* name, std::initializer_list<TensorImpl*> in, const void* attrs) {
  Tensor out[kMaxOutputs];
  dispatch(*find_entry(name), in.begin(), static_cast<int>(in.size()), attrs, out);
  return std::move(out[0]);
}

// -- in place -----------------------------------------------------------------------------

namespace {

// x as it is before it changes: the same memory and the same node of the graph.
Tensor snapshot(const TensorImpl* x) {
  TensorImpl* copy = TensorImpl::create();
  constexpr int kCopied = TensorImpl::kStopGradient | TensorImpl::kContiguous;
  copy->flags = static_cast<uint16_t>(x->flags & kCopied);
  copy->view = x->view;
  copy->storage = x->storage;
  copy->storage->retain();
  copy->grad_fn = x->grad_fn;
  if (copy->grad_fn != nullptr) copy->grad_fn->retain();
  copy->output = x->output;
  return Tensor::take(copy);
}

void check_target(const OpInfo& op, const TensorImpl* x, bool tape) {
  const std::string where = std::string("[") + op.name + "_] ";
  if (x == nullptr || x->has(TensorImpl::kWeak) || x->storage == nullptr) {
    throw Error(ErrorKind::kInvalidArgument,
                where +
                    "the array to change must be a tensor in memory, got a number, a view of "
                    "one or a row-sparse gradient");
  }
  if (t_switches.grad_enabled && x->leaf() && x->requires_grad()) {
    throw Error(ErrorKind::kInvalidArgument,
                where +
                    "a leaf that requires a gradient cannot be changed in place outside "
                    "no_grad, got a leaf of shape " +
                    shape_text(x->view));
  }
  if (tape && x->has(TensorImpl::kView)) {
    throw Error(ErrorKind::kPreconditionNotMet,
                where +
                    "a view must not be changed in place where gradients are recorded (its "
                    "base would not know); index the base, or clone() the view, got a view "
                    "of shape " +
                    shape_text(x->view));
  }
  for (int i = 0; i < x->view.rank; ++i) {
    if (x->view.shape[i] > 1 && x->view.stride[i] == 0) {
      throw Error(ErrorKind::kPreconditionNotMet,
                  where +
                      "an expanded tensor must be cloned before it is changed in place, got "
                      "shape " +
                      shape_text(x->view) + " with stride 0");
    }
  }
}

// Inputs that overlap the target's memory with other strides are copied first.
void copy_overlapping(TensorImpl* target, int at, Inputs* inputs) {
  for (int i = 0; i < inputs->count; ++i) {
    TensorImpl* x = inputs->in[i];
    if (i == at || x == nullptr || x->storage != target->storage) continue;
    const bool same = x->view.data == target->view.data && x->view.rank == target->view.rank &&
                      std::memcmp(x->view.stride, target->view.stride, sizeof x->view.stride) == 0;
    if (same) continue;
    View layout = x->view;
    layout.set_contiguous();
    Tensor copy = empty_as(layout);
    copy_into(copy->view, x);
    if (needs_node(&x, 1)) {
      record_node(op_entries()[static_cast<int>(OpId::assign)], &x, 1, nullptr, &copy, 1);
    }
    inputs->replace(i, std::move(copy));
  }
}

void promote_to_target(const OpEntry& entry, const TensorImpl* target, Inputs* inputs) {
  Inputs trial(inputs->in, inputs->count);
  promote_inputs(entry, &trial);
  const OpInfo& op = *entry.info;
  if (op.promote == Promote::kNone) {
    for (int i = 0; i < trial.count; ++i) {
      if (trial.in[i] != inputs->in[i]) inputs->replace(i, Tensor::share(trial.in[i]));
    }
    return;
  }
  const DType own = target->view.dtype;
  const DType joint = trial.in[op.alias[0]]->view.dtype;
  const bool fits = joint == own || (is_floating(joint) && (is_floating(own) || is_complex(own))) ||
                    (is_complex(joint) && is_complex(own)) ||
                    (is_integer(joint) && own >= DType::kU8);
  if (!fits) {
    throw Error(ErrorKind::kInvalidArgument, std::string("[") + op.name +
                                                 "_] the result must fit the array's dtype " +
                                                 name_of(own) + ", got " + name_of(joint));
  }
  for (int i = 0; i < inputs->count; ++i) {
    TensorImpl* x = inputs->in[i];
    if (x == nullptr || x->view.dtype == own) continue;
    inputs->replace(i, x->has(TensorImpl::kWeak) ? strong(x, own) : cast_to(x, own));
  }
}

void compute_inplace(const OpEntry& entry, const Inputs& inputs, const void* attrs, Tensor* out) {
  const OpInfo& op = *entry.info;
  CallViews views(inputs.in, inputs.count, op.n_out);
  Call call;
  call.in = views.in();
  call.out = views.out();
  call.n_in = inputs.count;
  call.n_out = op.n_out;
  call.attrs = attrs;
  check_dtype(op, call);
  const Status status = infer(op, call);
  if (status != Status::kOk) raise_status(op, call, status);
  for (int i = 0; i < op.n_out; ++i) {
    const View& inferred = views.out()[i];
    const View& target = out[i]->view;
    const bool fits = inferred.rank == target.rank && inferred.dtype == target.dtype &&
                      std::memcmp(inferred.shape, target.shape,
                                  sizeof(int64_t) * static_cast<size_t>(target.rank)) == 0;
    if (!fits) {
      throw Error(ErrorKind::kInvalidArgument,
                  std::string("[") + op.name + "_] the result must have the array's shape " +
                      shape_text(target) + ", got " + shape_text(inferred));
    }
    views.out()[i] = target;
  }
  const bool direct = op.elementwise || (out[0]->flags & TensorImpl::kContiguous) != 0;
  if (direct) return run_kernel(entry, &call, out, inputs.in);
  Tensor fresh[kMaxOutputs];
  compute(entry, inputs.in, inputs.count, attrs, false, fresh);
  for (int i = 0; i < op.n_out; ++i) copy_into(out[i]->view, fresh[i].get());
}

}  // namespace

void rebind(TensorImpl* target, TensorImpl* result) {
  std::swap(target->extra().handle, result->extra().handle);
  std::swap(target->grad_fn, result->grad_fn);
  std::swap(target->output, result->output);
  target->view = result->view;
  target->set(TensorImpl::kContiguous, result->has(TensorImpl::kContiguous));
  target->set(TensorImpl::kSymbolic, result->has(TensorImpl::kSymbolic));
  target->set(TensorImpl::kStopGradient, result->has(TensorImpl::kStopGradient));
}

void dispatch_inplace(const OpEntry& entry, TensorImpl* const* in, int n_in, const void* attrs,
                      Tensor* out) {
  const OpInfo& op = *entry.info;
  check_count(op, in, n_in);
  const Timed timed(op.name, EventKind::kOp, in, n_in);
  TensorImpl* target = in[op.alias[0]];
  const uint16_t any_flags = summarize(in, n_in).any_flags;
  if ((any_flags & TensorImpl::kSymbolic) != 0 || t_switches.binds_all) {
    for (int i = 0; i < op.n_out && dispatch_hooks.bind_target != nullptr; ++i) {
      TensorImpl* changed = in[op.alias[i]];
      if (!changed->has(TensorImpl::kSymbolic)) dispatch_hooks.bind_target(changed);
    }
    Tensor fresh[kMaxOutputs];
    dispatch(entry, in, n_in, attrs, fresh);
    for (int i = 0; i < op.n_out; ++i) {
      TensorImpl* const changed = in[op.alias[i]];
      // A leaf that is changed under no_grad still requires a gradient.
      const bool requires_grad = changed->leaf() && changed->requires_grad() && fresh[i]->leaf();
      rebind(changed, fresh[i].get());
      if (requires_grad) changed->set(TensorImpl::kStopGradient, false);
      out[i] = Tensor::share(changed);
    }
    return;
  }
  const bool tape = !op.mutates && needs_node(in, n_in);
  if (!op.mutates) check_target(op, target, tape);
  Inputs inputs(in, n_in);
  if (any_flags & TensorImpl::kRowSparse) make_dense(&inputs);
  if (!op.mutates) {
    promote_to_target(entry, target, &inputs);
    copy_overlapping(target, op.alias[0], &inputs);
  }
  if (tape && kGrads[op.id].run == nullptr) {
    throw Error(ErrorKind::kPreconditionNotMet,
                std::string("[") + op.name +
                    "_] an op without a gradient must not change a tensor "
                    "in place where gradients are recorded");
  }
  for (int i = 0; i < op.n_out; ++i) out[i] = Tensor::share(in[op.alias[i]]);
  Tensor before = tape ? snapshot(target) : Tensor();
  compute_inplace(entry, inputs, attrs, out);
  if (tape) {
    std::vector<TensorImpl*> old(static_cast<size_t>(n_in), nullptr);
    for (int i = 0; i < n_in; ++i) {
      if (inputs.in[i] == target) old[static_cast<size_t>(i)] = before.get();
    }
    record_node(entry, inputs.in, n_in, attrs, out, op.n_out, old.data());
  } else {
    for (int i = 0; i < op.n_out; ++i) out[i]->storage->bump_version();
  }
  for (int i = 0; i < op.n_out; ++i) {
    out[i]->version_at_view = out[i]->storage->version();
  }
}

}  // namespace proa
