// CPU limits of control groups, version 1 and 2, as files of a container and of a host have them.
#include <sys/stat.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "proa/runtime/cpu_quota.h"

namespace {

void check(int got, int want, const char* what) {
  if (got == want) return;
  std::printf("FAIL %s: expected %d, got %d\n", what, want, got);
  std::_Exit(1);
}

/// A folder of its own, removed at the end.
struct Folder {
  std::string path;
  Folder() {
    char name[] = "/tmp/quota_test_XXXXXX";
    if (mkdtemp(name) == nullptr) std::_Exit(2);
    path = name;
  }
  ~Folder() {
    if (std::system(("rm -r '" + path + "'").c_str()) != 0) std::_Exit(2);
  }
  void write(const std::string& name, const std::string& text) const {
    for (size_t at = name.find('/'); at != std::string::npos; at = name.find('/', at + 1)) {
      mkdir((path + "/" + name.substr(0, at)).c_str(), 0700);
    }
    std::ofstream(path + "/" + name) << text;
  }
  int quota() const { return proa::cpu_quota(path, path + "/membership"); }
};

void test_version_2() {
  const Folder container;  // has a namespace of its own: its group is the root
  check(container.quota(), 0, "no files");
  container.write("membership", "0::/\n");
  for (const auto& [text, want] : {std::pair<const char*, int>{"max 100000\n", 0},
                                   {"200000 100000\n", 2},
                                   {"150000 100000\n", 2},
                                   {"10000 100000\n", 1},
                                   {"200000 0\n", 0},
                                   {"9223372036854775807 1\n", 0},
                                   {"-5 100000\n", 0},
                                   {"", 0},
                                   {"many few", 0}}) {
    container.write("cpu.max", text);
    check(container.quota(), want, text);
  }
  const Folder host;  // the limit is that of a slice around the service
  host.write("membership", "0::/web.slice/server.service\n");
  host.write("web.slice/cpu.max", "300000 100000\n");
  host.write("web.slice/server.service/cpu.max", "max 100000\n");
  check(host.quota(), 3, "a slice");
  host.write("web.slice/server.service/cpu.max", "100000 100000\n");
  check(host.quota(), 1, "a service in a slice");
}

void test_version_1() {
  const char* membership = "5:cpu,cpuacct:/docker/0a1b\n4:cpuset:/other\n1:name=systemd:/x\n";
  const Folder container;  // the path is one of the host, the mount the container's group
  container.write("membership", membership);
  container.write("cpu/cpu.cfs_quota_us", "250000\n");
  container.write("cpu/cpu.cfs_period_us", "100000\n");
  check(container.quota(), 3, "a container");
  container.write("cpu/cpu.cfs_quota_us", "-1\n");
  check(container.quota(), 0, "no limit");
  const Folder host;
  host.write("membership", membership);
  host.write("cpu,cpuacct/docker/0a1b/cpu.cfs_quota_us", "50000\n");
  host.write("cpu,cpuacct/docker/0a1b/cpu.cfs_period_us", "50000\n");
  host.write("cpu,cpuacct/other/cpu.cfs_quota_us", "10000\n");
  host.write("cpu,cpuacct/other/cpu.cfs_period_us", "100000\n");
  check(host.quota(), 1, "a group of the host");
}

}  // namespace

int main() {
  test_version_2();
  test_version_1();
  const int limit = proa::cpu_quota();
  check(limit >= 0, 1, "this process");
  return 0;
}
