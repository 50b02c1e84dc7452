#pragma once
// Runs a model file on this machine: owns the memory and threads that
// portable/exec is given.
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "proa/base/status.h"
#include "proa/base/view.h"
#include "proa/runtime/process.h"

namespace proa {

/// An input or output of a model. A dimension is kUnknown where it may vary.
struct IoSpec {
  std::string name;
  DType dtype;
  std::vector<int64_t> shape;
};

/// A failed call: its text as `[Engine] expectation, got value`, and the kind
/// of error.
class EngineError : public std::runtime_error {
 public:
  EngineError(Status status, const std::string& what, std::string node = {})
      : std::runtime_error(what), status(status), node(std::move(node)), frames_(error_frames()) {}
  const Status status;
  const std::string node;  // name of the first output of the node that failed, or empty
  /// The stack trace, one call per line; empty unless set_error_stacks(true) was called before.
  std::string stack() const { return stack_text(frames_.data(), static_cast<int>(frames_.size())); }

 private:
  std::vector<void*> frames_;
};

/// Thrown by a run that stop() ended.
class EngineStopped : public std::runtime_error {
 public:
  EngineStopped() : std::runtime_error("[Engine] the run was stopped by stop()") {}
};

/// 8 bytes of a node's attributes that each run sets: `slot` says which number.
struct NumberUse {
  uint32_t node;  // as numbered in the file
  uint32_t at;    // byte in the attributes
  uint32_t slot;
};

/// Nodes [first, first + count) of one block, elementwise ops of one shape, to be run block
/// by block; numbered as in the file.
struct EngineChain {
  uint32_t first, count;
};

/// Additional options of a program that changes its inputs, such as a training step.
struct EngineUpdates {
  bool on = false;               // such ops are admitted; callers give memory for every output, in
                                 // the strides of layouts(); the arena is allocated for each run
  std::vector<uint32_t> stores;  // for each output the input that it overwrites, or 0xffffffff
  std::vector<NumberUse> numbers;
  uint32_t first_nodes = 0xffffffff;  // of the first of two parts, if there are two; its outputs
  uint32_t first_outputs = 0;
};

/// Which part of a program with updates is run.
enum class RunPart : uint8_t { kWhole, kFirst, kSecond };

/// A run of a program with updates, or of its first part, which the second continues.
struct EngineRun {
  std::vector<View> inputs, outputs;  // an output that overwrites an input has rank -1
  std::vector<int64_t> numbers;       // one for each slot
  std::shared_ptr<void> arena;        // of the first part
  std::vector<int64_t> key;           // shapes and strides of the first part's inputs
  bool keeps = false;                 // the second part must not change `arena`
  /// Gives memory to outputs [first, last), whose shapes and strides are set.
  std::function<void(View* outputs, size_t first, size_t last)> give;
};

struct EngineOptions {
  int threads = 0;            // 0: the pool of the process; 1: the caller's thread; n: a
                              // pool of its own
  int max_plans = 8;          // cached plans, one for each recent set of input shapes and strides
  size_t max_plan_bytes = 0;  // of their tables, beyond which all but the last are dropped; 0: any
  bool verify_checksum = true;      // read the whole file once and find flipped bits
  std::vector<EngineChain> chains;  // in order and apart from each other
  bool flush_denormals = false;     // subnormal numbers count as 0 during run()
  bool stored_chains = false;       // take those that the file's metadata names, if it does
  /// How each node is computed, where that was measured; empty with control flow.
  std::vector<uint8_t> strategies;  // Strategy of proa/base/call.h
  bool stored_strategies = false;   // if none are given, take those of the file's metadata
  EngineUpdates updates;            // engines that have them have no clones
  /// Called about twenty times a second in runs with control flow, which may be long. An exception
  /// that it throws ends the run.
  std::function<void()> interrupt;
};

/// Memory of a constant.
struct WeightBytes {
  const void* data = nullptr;
  size_t size = 0;
};

/// Called after each step of a profiled run: op, name of its first output, time
/// it took.
using EngineProfile = std::function<void(const char* op, const char* name, int64_t nanoseconds)>;

/// A loaded model. One run at a time (run holds a lock); clone() for more,
/// which costs no copy of the weights. All functions throw EngineError.
class Engine {
 public:
  /// Reads the file, which may then be replaced or removed.
  static std::unique_ptr<Engine> load(const std::string& path, const EngineOptions& options = {});
  /// Copies the bytes.
  static std::unique_ptr<Engine> from_bytes(const void* bytes, size_t size,
                                            const EngineOptions& options = {});
  /// Copies a model's bytes up to the end of its graph and reads the constants where they are:
  /// `weights`, in the order of their values, each of the size that the graph states, owned by
  /// `owner`. `verify_checksum` has no effect. `disposable` is private memory that nobody else
  /// accesses: pages of it that the engine does not need are returned to the operating system.
  static std::unique_ptr<Engine> from_parts(const void* graph, size_t size,
                                            const std::vector<WeightBytes>& weights,
                                            std::shared_ptr<void> owner,
                                            const EngineOptions& options = {},
                                            WeightBytes disposable = {});
  ~Engine();

  /// An engine on the same model and prepacked weights, with an arena and plans
  /// of its own.
  std::unique_ptr<Engine> clone() const;

  const std::vector<IoSpec>& inputs() const;
  const std::vector<IoSpec>& outputs() const;
  const std::vector<std::pair<std::string, std::string>>& metadata() const;

  /// Runs the model on inputs().size() arrays in any strides, which are read in
  /// place. An output whose `data` is nullptr is set to memory of the engine,
  /// row-major, valid until its next run; else the result is written there, and
  /// must have that dtype and shape (see output_specs).
  void run(const View* inputs, View* outputs);
  /// The same with updates; `inputs` (and `outputs` of the first part, for the second) are set.
  void run_part(RunPart part, EngineRun* run);
  /// dtype and shape of every output for inputs of these shapes, strides and
  /// dtypes (data is not read). With control flow shapes are known after a run alone:
  /// kUnimplemented unless the model states them all.
  std::vector<IoSpec> output_specs(const View* inputs);
  /// True if the model has control flow.
  bool has_control_flow() const;
  /// Ends the run in progress, from any thread, where it has control flow: it throws EngineStopped
  /// before its next iteration, branch or block. Later runs are not affected.
  void stop();

  /// max_plans and max_plan_bytes of the options, from now on.
  void limit_plans(int max_plans, size_t max_bytes);
  /// flush_denormals of the options, from now on and for later clones.
  void set_flush_denormals(bool on);
  /// Frees the arena, the plans and what runs left; the next run builds its plan again. Returns the
  /// bytes freed. Outputs in memory of the engine are no longer valid.
  size_t release_memory();

  /// Runs with a call of `profile` after each step; nullptr ends profiling.
  void set_profile(EngineProfile profile);

  /// Bytes: of the file, of prepacked weights (shared by clones), of the arena
  /// and plans of this engine.
  size_t model_bytes() const;
  size_t packed_bytes() const;
  size_t arena_bytes() const;
  /// Indices of the constants that kernels read only in packed form; the memory of those given to
  /// from_parts() may be freed.
  const std::vector<uint32_t>& unread_weights() const;
  const EngineOptions& options() const;

 private:
  struct Impl;
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// The metadata of a model file, read without loading it. Throws EngineError.
std::vector<std::pair<std::string, std::string>> model_metadata(const void* bytes, size_t size);

/// Whether products of bfloat16 are computed by its dot products, not widened to float.
bool has_bf16_dots();

}  // namespace proa
