#include "proa/train/run.h"

#include <cstring>
#include <new>

#include "proa/base/task_size.h"
#include "proa/gen/attrs/unary.h"
#include "proa/gen/op_ids.h"
#include "proa/runtime/allocator.h"
#include "proa/runtime/error.h"
#include "proa/runtime/pool.h"
#include "proa/shapes/infer.h"
#include "proa/shapes/layout.h"
#include "proa/train/tape.h"
#include "proa/train/watch.h"

namespace proa {

DispatchHooks dispatch_hooks;

namespace {

thread_local int t_keep_lock = 0;

const OpEntry& entry_of(OpId id) { return op_entries()[static_cast<int>(id)]; }

struct Scratch {
  void* data = nullptr;
  size_t capacity = 0;
  Scratch(const OpEntry& entry, const Call& call) {
    const size_t bytes = entry.kernel.scratch != nullptr ? entry.kernel.scratch(call) : 0;
    if (bytes == 0) return;
    try {
      data = allocate(bytes, &capacity);
    } catch (const Error& error) {
      raise_allocation(*entry.info, call, error);
    }
  }
  ~Scratch() {
    if (data != nullptr) release(data, capacity);
  }
};

// Retains the inputs' storage while other threads run, which may replace the tensors' storage.
class RetainedInputs {
 public:
  RetainedInputs(TensorImpl* const* in, int n_in) {
    for (int i = 0; i < n_in; ++i) {
      if (in[i] == nullptr || in[i]->storage == nullptr) continue;
      in[i]->storage->retain();
      storages_.push_back(in[i]->storage);
    }
  }
  ~RetainedInputs() {
    for (Storage* storage : storages_) storage->drop();
  }
  RetainedInputs(const RetainedInputs&) = delete;
  RetainedInputs& operator=(const RetainedInputs&) = delete;

 private:
  std::vector<Storage*> storages_;
};

// Lets other Python threads run while it lives.
struct Unlocked {
  void* state = nullptr;
  bool on;
  explicit Unlocked(bool wanted)
      : on(wanted && t_keep_lock == 0 && dispatch_hooks.unlock != nullptr) {
    if (on) state = dispatch_hooks.unlock();
  }
  ~Unlocked() {
    if (on) dispatch_hooks.lock(state);
  }
};

}  // namespace

KeepLock::KeepLock() { ++t_keep_lock; }
KeepLock::~KeepLock() { --t_keep_lock; }

const char* name_of(DType dtype) {
  static constexpr const char* kNames[kDTypeCount] = {
      "bool",    "uint8",    "int8",    "int16",   "int32",     "int64",
      "float16", "bfloat16", "float32", "float64", "complex64", "complex128"};
  return kNames[static_cast<int>(dtype)];
}

std::string shape_text(const View& view) {
  std::string text = "(";
  for (int i = 0; i < view.rank; ++i) {
    text += view.shape[i] == kUnknown ? "?" : std::to_string(view.shape[i]);
    if (i + 1 < view.rank || view.rank == 1) text += i + 1 < view.rank ? ", " : ",";
  }
  return text + ")";
}

CallViews::CallViews(TensorImpl* const* in, int n_in, int n_out) {
  in_ = n_in <= kOnStack
            ? reinterpret_cast<View*>(in_stack_)
            : static_cast<View*>(::operator new(sizeof(View) * static_cast<size_t>(n_in)));
  for (int i = 0; i < n_in; ++i) {
    if (in[i] != nullptr) {
      std::memcpy(static_cast<void*>(&in_[i]), &in[i]->view, sizeof(View));
    } else {
      new (&in_[i]) View();
    }
  }
  for (int i = 0; i < n_out; ++i) new (&out()[i]) View();
}

CallViews::~CallViews() {
  if (in_ != reinterpret_cast<View*>(in_stack_)) ::operator delete(in_);
}

void check_dtype(const OpInfo& op, const Call& call) {
  DType dtype = DType::kF32;
  if (call.n_in > 0 && call.in[0].given()) {
    dtype = call.in[0].dtype;
  } else if (op.dtype_attr >= 0) {
    dtype = output_dtype(op, call, 0);
  } else {
    return;
  }
  if ((op.dtypes >> static_cast<int>(dtype) & 1) != 0) return;
  std::string text = std::string("[") + op.name + "] the dtype must be one of";
  bool some = false;
  for (int i = 0; i < kDTypeCount; ++i) {
    if ((op.dtypes >> i & 1) == 0) continue;
    text += std::string(some ? ", " : " ") + name_of(static_cast<DType>(i));
    some = true;
  }
  throw Error(ErrorKind::kInvalidArgument, text + ", got " + name_of(dtype));
}

namespace {

/// Shape rules may leave dimensions unknown; in a run every one must be known.
void check_sizes(const OpInfo& op, const View& v) {
  for (int i = 0; i < v.rank; ++i) {
    if (v.shape[i] >= 0) continue;
    throw Error(ErrorKind::kInvalidArgument, std::string("[") + op.name +
                                                 "] every size must be known and at least 0, got " +
                                                 shape_text(v));
  }
}

}  // namespace

void run_kernel(const OpEntry& entry, Call* call, const Tensor* out, TensorImpl* const* in) {
  const OpInfo& op = *entry.info;
  if (entry.kernel.run == nullptr) raise_status(op, *call, Status::kUnimplemented);
  const Scratch scratch(entry, *call);
  call->scratch = scratch.data;
  static const Parallel* pool = ThreadPool::global().parallel();
  call->parallel = pool;
  int64_t work = 0;
  for (int i = 0; i < call->n_in; ++i) {
    if (call->in[i].given()) work += call->in[i].numel();
  }
  for (int i = 0; i < call->n_out; ++i) work += call->out[i].numel();
  Status status;
  Failure failure;
  call->failure = &failure;
  {
    const Timed timed(op.name, EventKind::kKernel, *call);
    const bool unlocks = work > kUnlockElements;
    const RetainedInputs retained(in, unlocks && in != nullptr ? call->n_in : 0);
    const Unlocked unlocked(unlocks);
    status = entry.kernel.run(*call);
  }
  if (status != Status::kOk) raise_status(op, *call, status);
  if (watching(kWatchFinite)) check_finite(op, *call, out);
}

namespace {

// An output's memory.
Tensor new_output(const OpInfo& op, const Call& call, const View& layout) {
  try {
    return empty_as(layout);
  } catch (const Error& error) {
    raise_allocation(op, call, error);
  }
}

// Shares the memory of the first input; false if it must be made row-major first.
bool make_view(const OpEntry& entry, TensorImpl* const* in, Call* call, Tensor* out) {
  const OpInfo& op = *entry.info;
  int64_t offset = 0;
  call->view_offset = &offset;
  const Status status = infer(op, *call);
  if (status == Status::kNotAView) return false;
  if (status != Status::kOk) raise_status(op, *call, status);
  if (in[0]->storage == nullptr) return false;  // a number without memory to share
  in[0]->storage->retain();
  *out = on_storage(in[0]->storage, call->out[0]);
  (*out)->flags |= TensorImpl::kView;
  (*out)->version_at_view = in[0]->storage->version();
  return true;
}

}  // namespace

bool compute(const OpEntry& entry, TensorImpl* const* in, int n_in, const void* attrs, bool quick,
             Tensor* out) {
  const OpInfo& op = *entry.info;
  CallViews views(in, n_in, op.n_out);
  Call call;
  call.in = views.in();
  call.out = views.out();
  call.n_in = n_in;
  call.n_out = op.n_out;
  call.attrs = attrs;
  check_dtype(op, call);
  if (op.kind == OpKind::kView) return make_view(entry, in, &call, out);
  if (quick) {
    std::memcpy(static_cast<void*>(&views.out()[0]), &views.in()[0], sizeof(View));
    views.out()[0].dtype = output_dtype(op, call, 0);
    out[0] = new_output(op, call, views.out()[0]);
    views.out()[0].data = out[0]->view.data;
  } else {
    const Timed timed(op.name, EventKind::kPrepare);
    const Status status = infer(op, call);
    if (status != Status::kOk) raise_status(op, call, status);
    for (int i = 0; i < op.n_out; ++i) {
      View& v = views.out()[i];
      check_sizes(op, v);
      choose_strides(op, call, &v);
      out[i] = new_output(op, call, v);
      v.data = out[i]->view.data;
    }
  }
  run_kernel(entry, &call, out, in);
  return true;
}

Tensor contiguous(TensorImpl* x) {
  if (x->has(TensorImpl::kContiguous) && x->storage != nullptr) return Tensor::share(x);
  View layout = x->view;
  layout.set_contiguous();
  Tensor out = empty_as(layout);
  copy_into(out->view, x);
  if (needs_node(&x, 1)) record_node(entry_of(OpId::assign), &x, 1, nullptr, &out, 1);
  return out;
}

void copy_into(const View& to, const TensorImpl* from) {
  View source = from->view, target = to;
  if (source.rank != to.rank ||
      std::memcmp(source.shape, to.shape, sizeof(int64_t) * static_cast<size_t>(to.rank)) != 0) {
    const int lead = to.rank - source.rank;
    View wide = to;
    for (int i = 0; i < to.rank; ++i) {
      const int64_t size = i < lead ? 1 : source.shape[i - lead];
      if (lead < 0 || (size != 1 && size != to.shape[i])) {
        throw Error(
            ErrorKind::kInvalidArgument,
            "[copy] the value must broadcast to " + shape_text(to) + ", got " + shape_text(source));
      }
      wide.stride[i] = size == 1 && to.shape[i] != 1 ? 0 : i < lead ? 0 : source.stride[i - lead];
    }
    wide.data = source.data;
    wide.dtype = source.dtype;
    source = wide;
  }
  CastAttrs attrs{};
  attrs.dtype = static_cast<int64_t>(to.dtype);
  const bool cast = source.dtype != to.dtype;
  Call call;
  call.in = &source;
  call.out = &target;
  call.n_in = call.n_out = 1;
  call.attrs = cast ? &attrs : nullptr;
  run_kernel(entry_of(cast ? OpId::cast : OpId::assign), &call);
}

}  // namespace proa
