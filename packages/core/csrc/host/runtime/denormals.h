#pragma once
// Whether the calling thread counts subnormal numbers as 0 (FTZ and DAZ of MXCSR, FZ of FPCR).
// Loops of a ThreadPool run on its threads as they would on the caller's.
#include <cstdint>

namespace proa {

/// The control word of the calling thread; 0 on a machine without one.
uint64_t float_control();
void set_float_control(uint64_t control);

/// True if subnormal operands and results count as 0 on the calling thread.
bool flushes_denormals();
/// Sets that for the calling thread.
void set_flush_denormals(bool on);

/// Flushes subnormal numbers of the calling thread until the end of a scope, which restores what
/// the thread did before.
class FlushDenormals {
 public:
  FlushDenormals() : before_(float_control()) { set_flush_denormals(true); }
  ~FlushDenormals() { set_float_control(before_); }
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
  uint64_t before_;
};

}  // namespace proa
