#pragma once
// The CPU limit of this process's control group, which a container sets.
#include <string>

namespace proa {

/// How many CPUs' time the process may use, rounded up, by the limits of its control group and of
/// those around it; 0 for any. Version 2 has them in cpu.max, version 1 in cpu.cfs_quota_us and
/// cpu.cfs_period_us. Does not throw.
///   mount: where control groups are mounted
///   membership: /proc/self/cgroup, which says in which groups the process is
int cpu_quota(const std::string& mount = "/sys/fs/cgroup",
              const std::string& membership = "/proc/self/cgroup");

}  // namespace proa
