#include "proa/runtime/model_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "proa/runtime/checksum.h"
#include "proa/runtime/engine.h"

namespace proa {

namespace {

// A chunk stays in the second-level cache from its read to its checksum.
constexpr size_t kChunk = size_t{256} << 10;
constexpr size_t kSmall = size_t{64} << 10;

bool same_version(const struct stat& a, const struct stat& b) {
  return a.st_size == b.st_size && a.st_mtim.tv_sec == b.st_mtim.tv_sec &&
         a.st_mtim.tv_nsec == b.st_mtim.tv_nsec;
}

// From this size on weights are packed as they are read.
constexpr size_t kLargeFile = size_t{16} << 20;
// Arrays of this size, which stay, are worth huge pages.
constexpr size_t kLargeArray = size_t{4} << 20;

void advise(void* data, size_t size, int advice) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t first = (reinterpret_cast<uintptr_t>(data) + page - 1) / page * page;
  const uintptr_t last = (reinterpret_cast<uintptr_t>(data) + size) / page * page;
  if (last > first) madvise(reinterpret_cast<void*>(first), last - first, advice);
}

int open_to_read(const std::string& path) {
  // A FIFO without a writer does not hold up an open that does not block.
  const int handle = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (handle >= 0) return handle;
  throw EngineError(Status::kInvalidArgument,
                    "[Engine] cannot open the model file '" + path + "': " + strerror(errno));
}

}  // namespace

/// A file that is open for reading, closed at the end. Throws EngineError.
class ModelFile {
 public:
  explicit ModelFile(const std::string& path) : path_(path), handle_(open_to_read(path)) {
    check_kind();
  }
  ~ModelFile() { ::close(handle_); }
  ModelFile(const ModelFile&) = delete;
  ModelFile& operator=(const ModelFile&) = delete;

  size_t size() const { return static_cast<size_t>(before_.st_size); }
  /// Reads `size` bytes from byte `first` on. Throws where the file ends earlier.
  void read(size_t first, void* to, size_t size) const;
  /// Throws if another program changed the file since it was opened.
  void check_unchanged() const;

 private:
  void check_kind();
  [[noreturn]] void fail(const std::string& why) const;

  const std::string path_;
  const int handle_;
  struct stat before_;
};

/// Throws unless it is a regular file with bytes.
void ModelFile::check_kind() {
  const char* why = nullptr;
  if (fstat(handle_, &before_) != 0) {
    why = strerror(errno);
  } else if (!S_ISREG(before_.st_mode)) {
    why = "which is not a regular file";
  } else if (before_.st_size == 0) {
    why = "which is empty";
  }
  if (why == nullptr) return;
  ::close(handle_);  // the destructor does not run
  fail(why);
}

void ModelFile::fail(const std::string& why) const {
  throw EngineError(Status::kBadModel,
                    "[Engine] expected a readable model file, got '" + path_ + "', " + why);
}

void ModelFile::read(size_t first, void* to, size_t size) const {
  for (size_t at = 0; at < size;) {
    const ssize_t count =
        ::pread(handle_, static_cast<char*>(to) + at, size - at, static_cast<off_t>(first + at));
    if (count < 0 && errno != EINTR) fail(strerror(errno));
    if (count == 0) fail("which another program changed while it was read");
    if (count > 0) at += static_cast<size_t>(count);
  }
}

void ModelFile::check_unchanged() const {
  struct stat now;
  if (fstat(handle_, &now) != 0) fail(strerror(errno));
  if (!same_version(before_, now)) fail("which another program changed while it was read");
}

ModelReader::ModelReader(std::unique_ptr<ModelFile> file, void* bytes, size_t graph_end)
    : file_(std::move(file)), bytes_(static_cast<uint8_t*>(bytes)), graph_end_(graph_end) {}
ModelReader::~ModelReader() = default;

size_t ModelReader::graph_start() const {
  uint64_t json;
  memcpy(&json, bytes_, 8);
  return static_cast<size_t>(json) + 8;
}

bool ModelReader::is_large(const ValueRecord& value) {
  return value.data_size > kSmall &&
         (value.dtype == DType::kF32 || value.dtype == DType::kF16 || value.dtype == DType::kBF16 ||
          value.dtype == DType::kI8 || value.dtype == DType::kU8);
}

void ModelReader::read_small(const ModelView& model) {
  for (uint32_t id = 0; id < model.value_count(); ++id) {
    const ValueRecord& value = model.value(id);
    if (value.kind < ValueKind::kConstant) break;
    if (is_large(value) || value.data_size == 0) continue;
    const size_t first = graph_start() + static_cast<size_t>(value.data_offset);
    file_->read(first, bytes_ + first, static_cast<size_t>(value.data_size));
  }
}

// The checksum is of the file with 4 zeros in its place.
void ModelReader::add(size_t first, const uint8_t* data, size_t size) {
  const size_t at = graph_start() + kChecksumAt;
  const size_t end = first + size;
  const size_t cut = std::clamp(at, first, end), next = std::clamp(at + 4, first, end);
  static const uint8_t zero[4] = {};
  crc_ = crc32(crc_, data, cut - first);
  crc_ = crc32(crc_, zero, next - cut);
  crc_ = crc32(crc_, data + (next - first), end - next);
  summed_ = end;
}

void ModelReader::read(size_t first, uint8_t* to, size_t size) {
  for (size_t at = 0; at < size; at += kChunk) {
    const size_t count = std::min(kChunk, size - at);
    file_->read(first + at, to + at, count);
    add(first + at, to + at, count);
  }
}

void ModelReader::read_rest(const std::vector<FileRange>& ranges,
                            const std::function<void(size_t, void*)>& on_range) {
  size_t largest = 0;
  for (const FileRange& range : ranges) largest = std::max(largest, range.size);
  Buffer block(largest);
  add(0, bytes_, graph_end_);
  size_t at = graph_end_;
  for (size_t i = 0; i < ranges.size(); ++i) {
    const FileRange& range = ranges[i];
    read_in_place(at, range.first);
    read(range.first, static_cast<uint8_t*>(block.data()), range.size);
    on_range(i, block.data());
    at = range.first + range.size;
  }
  read_in_place(at, file_->size());
  file_->check_unchanged();
}

void ModelReader::read_in_place(size_t first, size_t end) {
  if (end - first >= kLargeArray) advise(bytes_ + first, end - first, MADV_HUGEPAGE);
  read(first, bytes_ + first, end - first);
}

bool ModelReader::has_checksum() {
  if (summed_ != file_->size()) {
    crc_ = 0;
    Buffer chunk(kChunk);
    for (size_t at = 0; at < file_->size(); at += kChunk) {
      const size_t count = std::min(kChunk, file_->size() - at);
      file_->read(at, chunk.data(), count);
      add(at, static_cast<const uint8_t*>(chunk.data()), count);
    }
  }
  uint32_t stated;
  memcpy(&stated, bytes_ + graph_start() + kChecksumAt, 4);
  return crc_ == stated;
}

namespace {

/// Where the graph of a model file ends; 0 if it has none, as a compressed file.
size_t graph_end_of(const ModelFile& file) {
  constexpr size_t kHead = 32;  // of the graph: magic, versions, its size
  uint64_t json;
  file.read(0, &json, 8);
  if (json > file.size() - 8 - kHead) return 0;
  uint8_t head[kHead];
  file.read(static_cast<size_t>(json) + 8, head, kHead);
  uint64_t graph_size;
  memcpy(&graph_size, head + 16, 8);
  if (memcmp(head, "PROAGRPH", 8) != 0 || graph_size > file.size() - 8 - json) return 0;
  const auto end = static_cast<size_t>(8 + json + graph_size);
  return end >= static_cast<size_t>(json) + 8 + kChecksumAt + 4 ? end : 0;
}

}  // namespace

ModelBytes read_model_file(const std::string& path) {
  auto file = std::make_unique<ModelFile>(path);
  const size_t size = file->size();
  Buffer memory(size);
  void* const data = memory.data();
  const size_t graph_end = size >= kLargeFile ? graph_end_of(*file) : 0;
  if (graph_end == 0) {
    file->read(0, data, size);
    file->check_unchanged();
    return {Bytes(std::move(memory), size), nullptr};
  }
  // Only the pages that are read into shall take memory.
  advise(data, size, MADV_NOHUGEPAGE);
  file->read(0, data, graph_end);
  auto rest = std::make_unique<ModelReader>(std::move(file), data, graph_end);
  return {Bytes(std::move(memory), size), std::move(rest)};
}

}  // namespace proa
