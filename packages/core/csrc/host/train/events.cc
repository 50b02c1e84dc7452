// Timed events: a list per thread, returned when collecting stops.
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <mutex>
#include <unordered_set>

#include "proa/runtime/allocator.h"
#include "proa/train/dispatch.h"
#include "proa/train/watch.h"

namespace proa {

namespace {

struct Log {
  std::mutex mutex;  // of the events: the collector comes from another thread
  ThreadEvents list;
};

struct Collector {
  std::mutex mutex;
  std::vector<std::shared_ptr<Log>> logs;
  std::unordered_set<std::string> texts;
  std::atomic<int> level{0};
  std::atomic<bool> shapes{false};
};

// Never destroyed: threads may end after static destructors ran.
Collector& collector() {
  static auto* instance = new Collector();
  return *instance;
}

Log& own_log() {
  thread_local std::shared_ptr<Log> log;
  if (log == nullptr) {
    log = std::make_shared<Log>();
    log->list.thread = static_cast<int64_t>(syscall(SYS_gettid));
    Collector& c = collector();
    const std::lock_guard<std::mutex> lock(c.mutex);
    c.logs.push_back(log);
  }
  return *log;
}

void append(Event event) {
  Log& log = own_log();
  const std::lock_guard<std::mutex> lock(log.mutex);
  log.list.events.push_back(std::move(event));
}

void add_text(const View& view, std::string* text) {
  if (!text->empty() && text->back() != ' ') *text += ", ";
  *text += std::string(name_of(view.dtype)) + " " + shape_text(view);
}

std::string inputs_text(TensorImpl* const* in, int n_in) {
  std::string text;
  for (int i = 0; i < n_in; ++i) {
    if (in[i] != nullptr) add_text(in[i]->view, &text);
  }
  return text;
}

std::string call_text(const Call& call) {
  std::string text;
  for (int i = 0; i < call.n_in; ++i) {
    if (call.in[i].given()) add_text(call.in[i], &text);
  }
  text += " -> ";
  for (int i = 0; i < call.n_out; ++i) add_text(call.out[i], &text);
  return text;
}

}  // namespace

int64_t event_clock() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

const char* interned(const char* text) {
  Collector& c = collector();
  const std::lock_guard<std::mutex> lock(c.mutex);
  return c.texts.insert(text).first->c_str();
}

void start_events(int level, bool shapes) {
  stop_events();
  collector().level.store(level);
  collector().shapes.store(shapes);
  set_watch(kWatchTime, true);
}

std::vector<ThreadEvents> stop_events() {
  set_watch(kWatchTime, false);
  Collector& c = collector();
  const std::lock_guard<std::mutex> lock(c.mutex);
  std::vector<ThreadEvents> all;
  std::vector<std::shared_ptr<Log>> living;
  for (auto& log : c.logs) {
    const std::lock_guard<std::mutex> own(log->mutex);
    if (!log->list.events.empty()) {
      all.push_back({log->list.thread, std::move(log->list.events)});
      log->list.events.clear();
    }
    if (log.use_count() > 1) living.push_back(log);
  }
  c.logs.swap(living);
  return all;
}

void add_event(const char* name, const char* type, int64_t start, int64_t bytes_before) {
  if (!watching(kWatchTime)) return;
  append({interned(name), interned(type), EventKind::kUser, start, event_clock(), bytes_before,
          memory_stats().allocated, ""});
}

void Timed::begin(const char* name, EventKind kind, TensorImpl* const* in, int n_in) {
  const int level = collector().level.load(std::memory_order_relaxed);
  if ((kind == EventKind::kKernel && level < 1) || (kind == EventKind::kPrepare && level < 2)) {
    return;
  }
  event_ = std::make_unique<Event>();
  *event_ = {name, "", kind, 0, 0, memory_stats().allocated, 0, ""};
  if (in != nullptr && collector().shapes.load()) event_->detail = inputs_text(in, n_in);
  event_->start = event_clock();
}

void Timed::begin(const char* name, EventKind kind, const Call& call) {
  begin(name, kind, nullptr, 0);
  if (event_ == nullptr || !collector().shapes.load()) return;
  event_->detail = call_text(call);
  event_->start = event_clock();
}

void Timed::end() {
  event_->end = event_clock();
  event_->bytes_after = memory_stats().allocated;
  append(std::move(*event_));
}

}  // namespace proa
