// Throws changed model files at the reader, the binder, the planner and the engine, COUNT of them,
// and keeps each that reaches code which none before it reached: the corpus, from which
// later runs go on.
//
//   grow_corpus CORPUS COUNT [SEED] [FILES...]
//
// CORPUS is a folder; FILES are models to begin with. A file that ends the program is left behind
// as CORPUS/in_progress.<SEED>. Built with -fsanitize-coverage=trace-pc and the sanitizers; see the
// nox session `fuzz`.
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "model_cases.h"

namespace {

constexpr size_t kEdges = size_t{1} << 18;
constexpr size_t kMaxBytes = 16384;  // of a file of the corpus

// Which pairs of consecutive basic blocks ran, with how often in classes of powers of two.
uint8_t t_counts[kEdges];
uintptr_t t_last = 0;

}  // namespace

extern "C" __attribute__((no_sanitize_coverage, no_sanitize("address", "undefined"))) void
__sanitizer_cov_trace_pc() {
  const auto here = reinterpret_cast<uintptr_t>(__builtin_return_address(0));
  const uintptr_t hash = (here ^ (here >> 18)) * 0x9e3779b1u;
  uint8_t& count = t_counts[(hash ^ t_last) % kEdges];
  if (count != 255) ++count;
  t_last = hash >> 1;
}

namespace {

using proa::fuzz::Bytes;

/// Classes of counts that were seen, as bits.
struct Coverage {
  std::vector<uint8_t> seen = std::vector<uint8_t>(kEdges);
  size_t edges = 0;

  /// Adds what ran since the last call; whether anything of it is new.
  __attribute__((no_sanitize_coverage)) bool take() {
    bool is_new = false;
    for (size_t i = 0; i < kEdges; i += 8) {
      uint64_t word;
      memcpy(&word, t_counts + i, 8);
      if (word == 0) continue;
      for (size_t k = i; k < i + 8; ++k) {
        if (t_counts[k] == 0) continue;
        const auto bit = static_cast<uint8_t>(1u << (31 - __builtin_clz(t_counts[k])));
        if ((seen[k] & bit) == 0) {
          edges += seen[k] == 0;
          seen[k] |= bit;
          is_new = true;
        }
      }
      memset(t_counts + i, 0, 8);
    }
    t_last = 0;
    return is_new;
  }
};

Bytes read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return Bytes(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

void write(const std::string& path, const Bytes& bytes) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

std::vector<std::string> entries(const std::string& folder) {
  std::vector<std::string> names;
  DIR* dir = opendir(folder.c_str());
  if (dir == nullptr) return names;
  while (const dirent* entry = readdir(dir)) {
    const std::string name = entry->d_name;
    if (name.size() > 5 && name.substr(name.size() - 5) == ".proa") names.push_back(name);
  }
  closedir(dir);
  std::sort(names.begin(), names.end());
  return names;
}

std::string name_of(const Bytes& bytes) {
  uint64_t hash = 0xcbf29ce484222325ull;  // FNV-1a
  for (const uint8_t byte : bytes) hash = (hash ^ byte) * 0x100000001b3ull;
  char text[32];
  snprintf(text, sizeof text, "%016llx.proa", static_cast<unsigned long long>(hash));
  return text;
}

/// A run of the program over files; what it does with one, and what came of all.
struct Session {
  std::string folder, in_progress;
  std::vector<Bytes> corpus;
  Coverage coverage;
  long counts[5] = {}, total = 0, added = 0;

  void attempt(const Bytes& bytes) {
    int stage = proa::fuzz::try_model(bytes.data(), bytes.size());
    if (stage == 3) stage += proa::fuzz::run_model(bytes.data(), bytes.size(), total % 2 != 0);
    ++counts[stage];
    ++total;
  }
  void add_seed(const Bytes& bytes) {
    if (bytes.empty() || bytes.size() > kMaxBytes) return;
    write(in_progress, bytes);
    attempt(bytes);
    coverage.take();
    corpus.push_back(bytes);
  }
  void add_change(proa::fuzz::Random* random) {
    const Bytes bytes = proa::fuzz::mutate(corpus, random);
    write(in_progress, bytes);
    attempt(bytes);
    if (!coverage.take() || bytes.size() > kMaxBytes) return;
    write(folder + "/" + name_of(bytes), bytes);
    corpus.push_back(bytes);
    ++added;
  }
  void report(double seconds) const {
    printf(
        "%ld files in %.0f s: %ld refused, %ld not bound, %ld not planned, %ld planned, %ld run; "
        "%zu edges, %zu files in the corpus, %ld of them new\n",
        total, seconds, counts[0], counts[1], counts[2], counts[3], counts[4], coverage.edges,
        corpus.size(), added);
    fflush(stdout);
  }
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: %s CORPUS COUNT [SEED] [FILES...]\n", argv[0]);
    return 2;
  }
  Session session;
  session.folder = argv[1];
  const long count = atol(argv[2]);
  const long seed = argc > 3 ? atol(argv[3]) : 1;
  // In memory, as it is written for each file.
  session.in_progress = "/dev/shm/proa_fuzz_in_progress." + std::to_string(seed);
  for (const std::string& name : entries(session.folder)) {
    session.add_seed(read(session.folder + "/" + name));
  }
  for (int i = 4; i < argc; ++i) session.add_seed(read(argv[i]));
  if (session.corpus.empty()) {
    fprintf(stderr, "expected a corpus or files to begin with, got neither\n");
    return 2;
  }
  proa::fuzz::Random random{0x9e3779b97f4a7c15ull * static_cast<uint64_t>(2 * seed + 1)};
  const auto start = std::chrono::steady_clock::now();
  const auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  while (session.total < count) {
    for (int i = 0; i < 10000 && session.total < count; ++i) session.add_change(&random);
    session.report(seconds());
  }
  unlink(session.in_progress.c_str());
  // A line for each run, so that runs at one time may share the corpus.
  std::ofstream(session.folder + "/runs.txt", std::ios::app)
      << session.total << " files, seed " << seed << "\n";
  return 0;
}
