#pragma once
// The lower half of the dispatcher: allocates outputs, runs kernels, reports their failures.
#include "proa/runtime/error.h"
#include "proa/train/dispatch.h"

namespace proa {

/// Views of a call's arrays, on the stack unless there are many.
class CallViews {
 public:
  CallViews(TensorImpl* const* in, int n_in, int n_out);
  ~CallViews();
  CallViews(const CallViews&) = delete;
  CallViews& operator=(const CallViews&) = delete;
  View* in() { return in_; }
  View* out() { return reinterpret_cast<View*>(out_); }

 private:
  static constexpr int kOnStack = 8;
  View* in_;
  alignas(View) unsigned char in_stack_[sizeof(View) * kOnStack];
  alignas(View) unsigned char out_[sizeof(View) * kMaxOutputs];
};

/// While it lives, kernels of this thread keep the interpreter's lock, however long they are.
struct KeepLock {
  KeepLock();
  ~KeepLock();
  KeepLock(const KeepLock&) = delete;
  KeepLock& operator=(const KeepLock&) = delete;
};

/// Throws the error that a shape rule or kernel reported.
[[noreturn]] void raise_status(const OpInfo& op, const Call& call, Status status);
/// Throws the error of an allocation that failed for the call's outputs or scratch, naming the
/// op; any other error unchanged.
[[noreturn]] void raise_allocation(const OpInfo& op, const Call& call, const Error& error);
/// Throws unless the first array's dtype (or the attribute's) is one that the row admits.
void check_dtype(const OpInfo& op, const Call& call);
/// Runs the kernel; call.in and call.out are complete. Checks the outputs for NaN if that is on.
/// `out` and `in` are the tensors of the views, if other code may refer to them.
void run_kernel(const OpEntry& entry, Call* call, const Tensor* out = nullptr,
                TensorImpl* const* in = nullptr);
/// Outputs of the op on concrete arrays, not recorded on the tape. `quick`: elementwise, and all
/// arrays are row-major, of one shape. False if a view op needs its first array row-major first.
bool compute(const OpEntry& entry, TensorImpl* const* in, int n_in, const void* attrs, bool quick,
             Tensor* out);
/// x itself if it is row-major in memory of its own, else a row-major copy, recorded on the tape.
Tensor contiguous(TensorImpl* x);
/// Copies the elements of `from` (broadcast, converted) to those of `to`.
void copy_into(const View& to, const TensorImpl* from);

}  // namespace proa
