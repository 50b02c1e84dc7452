// Only calls that a signal handler may make: write, backtrace (loaded before) and dladdr's kin
// through backtrace_symbols_fd.
#include "proa/runtime/crash.h"

#include <execinfo.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <cstdint>

namespace proa {

namespace {

struct Watched {
  const char* text;
  struct sigaction before;
  int signal;
  bool ours;
};
Watched g_watched[] = {
    {"SIGSEGV: memory was used that is not the process's", {}, SIGSEGV, false},
    {"SIGBUS: memory was used that cannot be reached", {}, SIGBUS, false},
    {"SIGFPE: an integer was divided by zero", {}, SIGFPE, false},
    {"SIGILL: the CPU does not know an instruction", {}, SIGILL, false},
    {"SIGABRT: the process ended itself", {}, SIGABRT, false},
};

void put(const char* text) {
  const ssize_t written = write(STDERR_FILENO, text, strlen(text));
  static_cast<void>(written);
}

void put_address(const void* address) {
  char text[19] = "0x0000000000000000";
  auto value = reinterpret_cast<uintptr_t>(address);
  for (int i = 17; i >= 2; --i, value >>= 4) text[i] = "0123456789abcdef"[value & 15];
  put(text);
}

void report(int signal, siginfo_t* info, void*) {
  Watched* found = nullptr;
  for (Watched& w : g_watched) {
    if (w.signal == signal) found = &w;
  }
  put("\n[proa] fatal signal ");
  put(found == nullptr ? "?" : found->text);
  if (signal == SIGSEGV || signal == SIGBUS) {
    put(", at address ");
    put_address(info->si_addr);
  }
  put("\nC++ calls, the last first:\n");
  void* frames[64];
  backtrace_symbols_fd(frames, backtrace(frames, 64), STDERR_FILENO);
  if (found == nullptr) return;
  sigaction(signal, &found->before, nullptr);
  raise(signal);  // delivered when the handler returns
}

}  // namespace

void report_crashes(bool on) {
  void* frame[1];
  backtrace(frame, 1);  // loads what it needs now
  for (Watched& w : g_watched) {
    struct sigaction now;
    if (sigaction(w.signal, nullptr, &now) != 0) continue;
    const bool ours = (now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == report;
    if (on && !ours && (now.sa_flags & SA_SIGINFO) == 0 && now.sa_handler == SIG_DFL) {
      struct sigaction next = {};
      next.sa_sigaction = report;
      next.sa_flags = SA_SIGINFO | SA_ONSTACK;
      sigemptyset(&next.sa_mask);
      w.before = now;
      w.ours = sigaction(w.signal, &next, nullptr) == 0;
    } else if (!on && ours && w.ours) {
      sigaction(w.signal, &w.before, nullptr);
      w.ours = false;
    }
  }
}

}  // namespace proa
