#pragma once
// From an op and its arguments to outputs: promote, infer, allocate, run (or record), tape.
#include <initializer_list>

#include "proa/runtime/ops.h"
#include "proa/train/tensor.h"

namespace proa {

/// Runs the op of `entry` on in[0..n_in) (null: an optional array not given) and writes
/// entry.info->n_out tensors to `out`. `attrs` is the op's attribute struct. Throws Error.
void dispatch(const OpEntry& entry, TensorImpl* const* in, int n_in, const void* attrs,
              Tensor* out);

/// The in-place form: output i takes over the memory of in[alias[i]] and is that tensor.
void dispatch_inplace(const OpEntry& entry, TensorImpl* const* in, int n_in, const void* attrs,
                      Tensor* out);

/// One output, a fixed number of arrays.
Tensor call(const char* op, std::initializer_list<TensorImpl*> in, const void* attrs = nullptr);

/// Per-thread switch: are computations recorded on the tape?
bool grad_enabled();
/// Per-thread switch: while a program is recorded, do ops that draw random numbers, and ops on
/// tensors that take a gradient, go to the recorder even if no array is symbolic?
void set_records_all(bool on);
bool records_all();
/// Per-thread switch: while a body of control flow is recorded, do plain tensors become symbols
/// before any change in place?
void set_binds_all(bool on);
bool binds_all();
/// Switch of the process, from which a thread may except itself: while a static program is built,
/// do ops without arrays go to the recorder?
void set_builds_program(bool on);
void set_builds_here(bool on);
bool builds_here();
bool builds_program();
/// Swaps the values that two symbolic tensors refer to: as they have no memory, this is a change in
/// place of `target`.
void rebind(TensorImpl* target, TensorImpl* result);
void set_grad_enabled(bool on);

/// Sets the switch for a scope.
class GradMode {
 public:
  explicit GradMode(bool on) : before_(grad_enabled()) { set_grad_enabled(on); }
  ~GradMode() { set_grad_enabled(before_); }
  GradMode(const GradMode&) = delete;
  GradMode& operator=(const GradMode&) = delete;

 private:
  bool before_;
};

/// Autocast of the thread: arrays of white ops go to `dtype`, those of black ops to float32.
struct Autocast {
  bool on = false;
  DType dtype = DType::kBF16;
  const uint8_t* classes = nullptr;  // by op id, AutocastClass; null: the rows' own
};
Autocast& autocast();

/// What the layer above (the bindings) adds. Any may be null.
struct DispatchHooks {
  /// Ops on symbolic tensors: fills n_out symbolic outputs.
  void (*record)(const OpEntry&, TensorImpl* const* in, int n_in, const void* attrs, Tensor* out);
  /// Called where an array is symbolic. If another thread records, waits until it has finished and
  /// the arrays that it bound have their memory again, and returns true.
  bool (*await_recording)(TensorImpl* const* in, int n_in);
  /// A tensor that is about to be changed in place by symbolic ones.
  void (*bind_target)(TensorImpl* target);
  /// Around long kernels, so that other Python threads run.
  void* (*unlock)();
  void (*lock)(void* state);
  /// Name of an output in the op's row.
  std::string (*output_name)(const OpInfo&, int i);
  /// "file:line: code" of the innermost frame of the user's own code.
  std::string (*user_line)();
  /// Checks for Ctrl-C: throws if the user interrupted the process.
  void (*check_interrupt)();
  /// Adds to a failure of Python code that is passing through.
  void (*annotate)(const std::string& text);
};
extern DispatchHooks dispatch_hooks;

/// What `promote` of proa.schema.dtypes gives.
DType promoted(DType a, DType b);
const char* name_of(DType dtype);
/// The row's name of the op's output i, or its number if the hook is not set.
std::string output_name(const OpInfo& op, int i);
/// "(2, 3)" with ? for dimensions that are not known.
std::string shape_text(const View& view);

}  // namespace proa
