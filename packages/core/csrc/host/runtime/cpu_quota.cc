#include "proa/runtime/cpu_quota.h"

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>

namespace proa {

namespace {

/// The start of a small file; empty if it cannot be read.
std::string text_of(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "r"),
                                                             std::fclose);
  if (file == nullptr) return {};
  char text[8192];
  return std::string(text, std::fread(text, 1, sizeof text, file.get()));
}

/// CPUs of "<quota> <period>", rounded up; 0 for "max" and for -1.
int cpus_of(const std::string& text) {
  char *middle = nullptr, *end = nullptr;
  const long long quota = std::strtoll(text.c_str(), &middle, 10);
  const long long period = std::strtoll(middle, &end, 10);
  if (quota <= 0 || period <= 0) return 0;
  const long long cpus = (quota - 1) / period + 1;
  return cpus < 1 << 20 ? static_cast<int>(cpus) : 0;
}

/// The limit of one group in a folder.
int limit_of(const std::string& folder, bool unified) {
  if (unified) return cpus_of(text_of(folder + "/cpu.max"));
  return cpus_of(text_of(folder + "/cpu.cfs_quota_us") + " " +
                 text_of(folder + "/cpu.cfs_period_us"));
}

/// The smallest limit of a group and of those around it. In a container the path may be one of the
/// host, which is not mounted there; the mount is then the container's own group.
int smallest_limit(const std::string& mount, std::string group, bool unified) {
  int smallest = 0;
  for (;;) {
    const int limit = limit_of(mount + group, unified);
    if (limit > 0 && (smallest == 0 || limit < smallest)) smallest = limit;
    const size_t slash = group.rfind('/');
    if (slash == std::string::npos) return smallest;
    group.resize(slash);
  }
}

bool names_cpu(const std::string& controllers) {
  return ("," + controllers + ",").find(",cpu,") != std::string::npos;
}

int smaller_limit(int a, int b) { return a == 0 || (b > 0 && b < a) ? b : a; }

}  // namespace

int cpu_quota(const std::string& mount, const std::string& membership) {
  try {
    // One line for each hierarchy: "<number>:<controllers>:<group>"; of version 2 "0::<group>".
    std::string lines = text_of(membership), unified, own;
    while (!lines.empty()) {
      const size_t end = lines.find('\n');
      const std::string line = lines.substr(0, end);
      lines = end == std::string::npos ? std::string() : lines.substr(end + 1);
      const size_t first = line.find(':');
      const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
      if (second == std::string::npos) continue;
      const std::string controllers = line.substr(first + 1, second - first - 1);
      if (controllers.empty()) unified = line.substr(second + 1);
      if (names_cpu(controllers)) own = line.substr(second + 1);
    }
    int limit = smallest_limit(mount, unified, true);
    for (const char* folder : {"/cpu", "/cpu,cpuacct", "/cpuacct,cpu"}) {
      limit = smaller_limit(limit, smallest_limit(mount + folder, own, false));
    }
    return limit;
  } catch (const std::bad_alloc&) {
    return 0;
  }
}

}  // namespace proa
