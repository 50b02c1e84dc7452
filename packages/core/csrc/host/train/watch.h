#pragma once
// What is observed of each op while debugging: its results, its time, the line that called it.
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "proa/runtime/ops.h"
#include "proa/train/tensor.h"

namespace proa {

enum Watch : uint32_t {
  kWatchFinite = 1,  // results are searched for NaN and infinity
  kWatchTime = 2,    // ops, kernels and nodes are timed
  kWatchLine = 4,    // nodes record the user's line that called the op
};

/// 0 in ordinary runs, where all of this costs one relaxed load per op and kernel.
extern std::atomic<uint32_t> watch_flags;
inline bool watching(uint32_t what) {
  return __builtin_expect((watch_flags.load(std::memory_order_relaxed) & what) != 0, 0);
}
void set_watch(Watch what, bool on);

// -- NaN and infinity -----------------------------------------------------------------------
/// Which results are searched, and what happens when something is found.
struct FiniteCheck {
  bool warn = false;                   // write to stderr and go on instead of throwing
  bool skip_forward = false;           // ops called while no backward pass runs
  bool skip_backward = false;          // ops called by a backward pass
  bool skip_updates = false;           // ops with OpInfo::mutates
  std::vector<uint8_t> skip_ops;       // by op id; empty: none
  std::vector<uint32_t> skip_outputs;  // op id * kMaxOutputs + output, sorted
};
void set_finite_check(bool on, FiniteCheck check);
/// Throws (or warns) if an output of the call holds NaN or infinity. `out` may be null.
void check_finite(const OpInfo& op, const Call& call, const Tensor* out);

/// Elements that were searched since the process began.
int64_t searched_elements();

/// While it lives, results of this thread's ops are not searched, nor those of the backward of
/// what they record.
struct Unchecked {
  explicit Unchecked(bool on = true);
  ~Unchecked();
  Unchecked(const Unchecked&) = delete;
  Unchecked& operator=(const Unchecked&) = delete;
  static bool here();
  static void add(int by);  // for callers that cannot hold an object
  bool on;
};

/// Marks the thread as running a backward pass.
struct BackwardScope {
  BackwardScope();
  ~BackwardScope();
  BackwardScope(const BackwardScope&) = delete;
  BackwardScope& operator=(const BackwardScope&) = delete;
};

// -- time -----------------------------------------------------------------------------------
enum class EventKind : uint8_t { kOp, kKernel, kBackward, kPrepare, kPhase, kUser };

/// One timed span of a thread. Times are of the steady clock, in nanoseconds.
struct Event {
  const char* name;  // lives for ever
  const char* type;  // of a user's event
  EventKind kind;
  int64_t start, end;
  int64_t bytes_before, bytes_after;  // allocated by the process
  /// Dtypes and shapes of an op's inputs, or of a kernel's "inputs -> outputs", if requested.
  std::string detail;
};
struct ThreadEvents {
  int64_t thread;  // the system's number
  std::vector<Event> events;
};

/// 0: ops and nodes; 1: kernels too; 2: and the preparation of kernels.
void start_events(int level, bool shapes);
/// Stops and returns the collected events.
std::vector<ThreadEvents> stop_events();
/// Adds an event that ends now.
void add_event(const char* name, const char* type, int64_t start, int64_t bytes_before);
int64_t event_clock();
/// A copy of the text that lives for ever, one for all equal texts.
const char* interned(const char* text);

/// Times its own life, if events are collected.
class Timed {
 public:
  Timed(const char* name, EventKind kind) {
    if (watching(kWatchTime)) begin(name, kind, nullptr, 0);
  }
  Timed(const char* name, EventKind kind, TensorImpl* const* in, int n_in) {
    if (watching(kWatchTime)) begin(name, kind, in, n_in);
  }
  Timed(const char* name, EventKind kind, const Call& call) {
    if (watching(kWatchTime)) begin(name, kind, call);
  }
  ~Timed() {
    if (event_ != nullptr) end();
  }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

 private:
  void begin(const char* name, EventKind kind, TensorImpl* const* in, int n_in);
  void begin(const char* name, EventKind kind, const Call& call);
  void end();
  std::unique_ptr<Event> event_;
};

}  // namespace proa
