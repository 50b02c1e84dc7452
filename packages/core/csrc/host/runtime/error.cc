#include "proa/runtime/error.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace proa {

namespace {

constexpr int kMaxFrames = 64;
std::atomic<bool> g_stacks{false};

std::string name_of_frame(void* frame) {
  Dl_info info;
  if (dladdr(frame, &info) == 0) return "?";
  std::string file = info.dli_fname == nullptr ? "?" : info.dli_fname;
  file = file.substr(file.rfind('/') + 1);
  if (info.dli_sname == nullptr) return file;
  int status = 0;
  char* plain = abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &status);
  const std::string name = plain != nullptr ? plain : info.dli_sname;
  std::free(plain);
  return name + " (" + file + ")";
}

}  // namespace

Error::Error(ErrorKind kind, const std::string& message)
    : std::runtime_error(message), kind_(kind), frames_(error_frames()) {}

std::string Error::stack() const {
  return stack_text(frames_.data(), static_cast<int>(frames_.size()));
}

Error Error::with(const std::string& message) const {
  Error other(kind_, message);
  other.frames_ = frames_;
  return other;
}

std::vector<void*> error_frames() {
  std::vector<void*> frames;
  if (!g_stacks.load(std::memory_order_relaxed)) return frames;
  frames.resize(kMaxFrames);
  frames.resize(static_cast<size_t>(backtrace(frames.data(), kMaxFrames)));
  return frames;
}

void set_error_stacks(bool on) { g_stacks.store(on, std::memory_order_relaxed); }

std::string stack_text(void* const* frames, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    char number[16];
    std::snprintf(number, sizeof number, "%2d  ", i);
    text += number + name_of_frame(frames[i]) + "\n";
  }
  return text;
}

}  // namespace proa
