#pragma once
// A report when a signal ends the process.

namespace proa {

/// On: SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT that have no other handler write the signal's
/// meaning, its address and the C++ stack to stderr before they end the process as ever.
/// Off: puts back what was there.
void report_crashes(bool on);

}  // namespace proa
