#include "proa/runtime/engine.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <list>
#include <mutex>
#include <sstream>

#include "proa/exec/plan.h"
#include "proa/runtime/allocator.h"
#include "proa/runtime/error.h"
#include "proa/runtime/extension.h"
#include "proa/runtime/ops.h"
#include "proa/runtime/pool.h"

namespace proa {

namespace {

/// 64-byte aligned memory of its own.
class Block {
 public:
  Block() = default;
  explicit Block(size_t size) : size_(size) {
    const size_t rounded = (size + 63) / 64 * 64 + 64;
    data_.reset(aligned_alloc(64, rounded));
    if (data_ == nullptr) {
      throw EngineError(
          Status::kResourceExhausted,
          "[Engine] memory must suffice, got no block of " + std::to_string(size) + " bytes");
    }
  }
  void* data() const { return data_.get(); }
  size_t size() const { return size_; }

 private:
  struct Free {
    void operator()(void* p) const { free(p); }
  };
  std::unique_ptr<void, Free> data_;
  size_t size_ = 0;
};

/// The bytes of a model: a mapped file or a copy.
class Bytes {
 public:
  Bytes(const void* data, size_t size) : copy_(size), data_(copy_.data()), size_(size) {
    if (size > 0) memcpy(copy_.data(), data, size);
  }
  explicit Bytes(const std::string& path) {
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) {
      throw EngineError(
          Status::kInvalidArgument,
          "[Engine] the model file must be readable, got '" + path + "': " + strerror(errno));
    }
    struct stat info;
    if (fstat(file, &info) == 0 && info.st_size > 0) {
      size_ = static_cast<size_t>(info.st_size);
      data_ = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file, 0);
      mapped_ = data_ != MAP_FAILED;
    }
    close(file);
    if (!mapped_) {
      throw EngineError(Status::kBadModel,
                        "[Engine] the model file must not be empty, got '" + path + "'");
    }
  }
  ~Bytes() {
    if (mapped_) munmap(data_, size_);
  }
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;
  const void* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  Block copy_;
  void* data_ = nullptr;
  size_t size_ = 0;
  bool mapped_ = false;
};

const char* name_of(DType dtype) {
  static constexpr const char* kNames[kDTypeCount] = {
      "bool",    "uint8",    "int8",    "int16",   "int32",     "int64",
      "float16", "bfloat16", "float32", "float64", "complex64", "complex128"};
  return kNames[static_cast<int>(dtype)];
}

// What an extension's operator said beside its status.
std::string with_cause(const std::string& text) {
  const std::string cause = take_extension_failure();
  return cause.empty() ? text : text + "; " + cause;
}

std::string shape_text(const int64_t* shape, int rank) {
  std::ostringstream text;
  text << '(';
  for (int i = 0; i < rank; ++i) text << (i > 0 ? ", " : "") << shape[i];
  text << (rank == 1 ? ",)" : ")");
  return text.str();
}

IoSpec spec_of(const ModelView& model, uint32_t id) {
  const View v = model.view(id);
  return {model.name_of(id), v.dtype, std::vector<int64_t>(v.shape, v.shape + v.rank)};
}

/// What all clones share: the bytes, the bound ops and the prepacked weights.
struct Model {
  Bytes bytes;
  Block tables, packed;
  ModelView view;
  Prepared prepared;
  std::vector<IoSpec> inputs, outputs;
  std::vector<std::pair<std::string, std::string>> metadata;

  template <class... Source>
  explicit Model(const EngineOptions& options, const Source&... source) : bytes(source...) {
    const bool verify = options.verify_checksum;
    Status status = open_model(bytes.data(), bytes.size(), &view);
    if (status != Status::kOk) {
      throw EngineError(status,
                        std::string("[Engine] a model file must be sound, got: ") + view.problem());
    }
    if (verify && verify_checksum(bytes.data(), bytes.size()) != Status::kOk) {
      throw EngineError(Status::kBadModel,
                        "[Engine] a model file must have its checksum, got changed bytes");
    }
    op_entries();  // chooses the instruction set
    tables = Block(Prepared::table_size(view));
    status = prepared.bind(view, tables.data(), tables.size(), options.updates.on);
    if (status == Status::kOk) {
      packed = Block(prepared.packed_size());
      status = prepared.pack(packed.data());
    }
    if (status != Status::kOk) throw EngineError(status, with_cause(bind_problem()));
    for (uint32_t i = 0; i < view.input_count(); ++i)
      inputs.push_back(spec_of(view, view.input_value(i)));
    for (uint32_t i = 0; i < view.output_count(); ++i)
      outputs.push_back(spec_of(view, view.output_value(i)));
    for (uint32_t i = 0; i < view.metadata_count(); ++i) {
      metadata.emplace_back(view.metadata_key(i), view.metadata_value(i));
    }
  }

  std::string node_text(uint32_t node) const {
    if (node >= view.node_count()) return "the graph";
    const NodeRecord& record = view.node(node);
    std::string text = std::string("op '") + view.string(view.op(record.op).name) + "'";
    if (record.output_count > 0)
      text += std::string(" ('") + view.name_of(record.output_first) + "')";
    return text;
  }

  std::string bind_problem() const {
    return std::string("[Engine] it must hold that ") + prepared.problem() + ", got " +
           node_text(prepared.problem_node());
  }
};

/// A plan and the inputs it is for.
struct CachedPlan {
  std::vector<int64_t> key;
  Block tables;
  Plan plan;
  void* arena = nullptr;  // where an engine with updates placed it last
};

/// Memory of the process's allocator.
std::shared_ptr<void> lease(size_t bytes) {
  size_t capacity;
  void* data = allocate(bytes > 0 ? bytes : 1, &capacity);
  return {data, [capacity](void* memory) { release(memory, capacity); }};
}

std::vector<int64_t> key_of(const View* inputs, size_t count) {
  std::vector<int64_t> key;
  for (size_t i = 0; i < count; ++i) {
    for (int a = 0; a < inputs[i].rank; ++a) {
      key.push_back(inputs[i].shape[a]);
      key.push_back(inputs[i].shape[a] == 1 ? 0 : inputs[i].stride[a]);
    }
  }
  return key;
}

int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

struct Engine::Impl {
  std::shared_ptr<Model> model;
  EngineOptions options;
  std::unique_ptr<ThreadPool> own_pool;
  std::mutex mutex;
  Block arena;
  std::list<CachedPlan> plans;  // the latest used first
  EngineProfile profile;
  std::vector<NodeSpan> chains;

  Impl(std::shared_ptr<Model> shared, const EngineOptions& chosen)
      : model(std::move(shared)), options(chosen) {
    if (options.max_plans < 1) options.max_plans = 1;
    check_updates();
    take_chains();
    if (options.threads > 1) own_pool = std::make_unique<ThreadPool>(options.threads);
  }

  void check_updates() const {
    const EngineUpdates& updates = options.updates;
    if (!updates.on) return;
    bool fits = updates.stores.size() == model->outputs.size() &&
                updates.first_outputs <= model->outputs.size();
    for (const uint32_t input : updates.stores) {
      fits = fits && (input == kNoValue || input < model->inputs.size());
    }
    for (const NumberUse& use : updates.numbers) {
      fits = fits && use.node < model->prepared.node_count() && use.at % 8 == 0 &&
             use.at + size_t{8} <= model->prepared.attribute_bytes(use.node);
    }
    if (!fits) {
      throw EngineError(
          Status::kInvalidArgument,
          "[Engine] updates must name inputs and attributes of the model, got others");
    }
  }

  void take_chains() {
    uint32_t behind = 0;
    for (const EngineChain& chain : options.chains) {
      const uint32_t nodes = model->prepared.node_count();
      if (chain.first < behind || chain.first > nodes || chain.count > nodes - chain.first) {
        throw EngineError(Status::kInvalidArgument,
                          "[Engine] chains must be of nodes in order, got others");
      }
      chains.push_back({chain.first, chain.count});
      behind = chain.first + chain.count;
    }
  }

  const Parallel* parallel() const {
    if (options.threads == 1) return nullptr;
    return own_pool != nullptr ? own_pool->parallel() : ThreadPool::global().parallel();
  }

  void check_inputs(const View* inputs) const {
    for (size_t i = 0; i < model->inputs.size(); ++i) {
      const IoSpec& spec = model->inputs[i];
      const View& v = inputs[i];
      bool fits = v.rank == static_cast<int>(spec.shape.size());
      for (int a = 0; fits && a < v.rank; ++a) {
        const int64_t want = spec.shape[static_cast<size_t>(a)];
        fits = want == kUnknown || want == v.shape[a];
      }
      if (!fits) {
        throw EngineError(Status::kInvalidArgument,
                          "[Engine] input '" + spec.name + "' must have shape " +
                              shape_text(spec.shape.data(), static_cast<int>(spec.shape.size())) +
                              ", got " + shape_text(v.shape, v.rank));
      }
      if (v.dtype != spec.dtype) {
        throw EngineError(Status::kInvalidArgument, "[Engine] input '" + spec.name + "' must be " +
                                                        name_of(spec.dtype) + ", got " +
                                                        name_of(v.dtype));
      }
    }
  }

  void place(Plan* plan) {
    if (arena.data() == nullptr || plan->arena_size() > arena.size()) {
      arena = Block(plan->arena_size());
      for (CachedPlan& other : plans) other.plan.place(arena.data());
    }
    plan->place(arena.data());
  }

  CachedPlan& plan_for(const View* inputs) {
    check_inputs(inputs);
    std::vector<int64_t> key = key_of(inputs, model->inputs.size());
    for (auto it = plans.begin(); it != plans.end(); ++it) {
      if (it->key == key) {
        plans.splice(plans.begin(), plans, it);
        return plans.front();
      }
    }
    const auto chain_count = static_cast<uint32_t>(chains.size());
    CachedPlan made{std::move(key), Block(Plan::table_size(model->prepared, chain_count)), Plan(),
                    nullptr};
    PlanOptions how;
    how.given_outputs = options.updates.on;
    how.first_nodes = options.updates.first_nodes;
    how.first_outputs = options.updates.first_outputs;
    if (options.updates.on) how.stores = options.updates.stores.data();
    const Status status = made.plan.build(model->prepared, inputs, made.tables.data(),
                                          made.tables.size(), how, {chains.data(), chain_count});
    if (status != Status::kOk) {
      std::string shapes;
      for (size_t i = 0; i < model->inputs.size(); ++i) {
        shapes += (i > 0 ? ", " : "") + shape_text(inputs[i].shape, inputs[i].rank);
      }
      throw EngineError(status,
                        with_cause("[Engine] input shapes must fit " +
                                   model->node_text(made.plan.problem_node()) + ", got " + shapes));
    }
    if (!options.updates.on) place(&made.plan);
    plans.push_front(std::move(made));
    while (plans.size() > static_cast<size_t>(options.max_plans)) plans.pop_back();
    return plans.front();
  }

  void take_numbers(const std::vector<int64_t>& numbers) {
    for (const NumberUse& use : options.updates.numbers) {
      if (use.slot >= numbers.size()) {
        throw EngineError(Status::kInvalidArgument,
                          "[Engine] a number must be given for every slot, got " +
                              std::to_string(numbers.size()));
      }
      model->prepared.set_attribute(use.node, use.at, &numbers[use.slot]);
    }
  }

  void walk(Plan* plan, const View* inputs, View* outputs, Part part) {
    Profiler profiler;
    if (profile) {
      profiler.now = now;
      profiler.context = &profile;
      profiler.step = [](void* context, const char* op, const char* name, int64_t nanoseconds) {
        (*static_cast<EngineProfile*>(context))(op, name, nanoseconds);
      };
    }
    const Status status =
        plan->run(inputs, outputs, parallel(), profile ? &profiler : nullptr, part);
    if (status == Status::kOk) return;
    throw EngineError(status, with_cause("[Engine] inputs must be what " +
                                         model->node_text(plan->problem_node()) +
                                         " admits, got an array that it refused"));
  }

  void check_outputs(const Plan& plan, const View* outputs) const {
    for (size_t i = 0; i < model->outputs.size(); ++i) {
      if (outputs[i].data == nullptr) continue;
      const View& want = plan.output(static_cast<uint32_t>(i));
      bool fits = outputs[i].rank == want.rank && outputs[i].dtype == want.dtype;
      for (int a = 0; fits && a < want.rank; ++a) fits = outputs[i].shape[a] == want.shape[a];
      if (!fits) {
        throw EngineError(Status::kInvalidArgument,
                          "[Engine] output '" + model->outputs[i].name + "' must be " +
                              name_of(want.dtype) + " " + shape_text(want.shape, want.rank) +
                              ", got " + name_of(outputs[i].dtype) + " " +
                              shape_text(outputs[i].shape, outputs[i].rank));
      }
    }
  }
};

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Engine::~Engine() = default;

std::unique_ptr<Engine> Engine::load(const std::string& path, const EngineOptions& options) {
  auto model = std::make_shared<Model>(options, path);
  return std::unique_ptr<Engine>(new Engine(std::make_unique<Impl>(std::move(model), options)));
}

std::unique_ptr<Engine> Engine::from_bytes(const void* bytes, size_t size,
                                           const EngineOptions& options) {
  auto model = std::make_shared<Model>(options, bytes, size);
  return std::unique_ptr<Engine>(new Engine(std::make_unique<Impl>(std::move(model), options)));
}

std::unique_ptr<Engine> Engine::clone() const {
  return std::unique_ptr<Engine>(new Engine(std::make_unique<Impl>(impl_->model, impl_->options)));
}

const std::vector<IoSpec>& Engine::inputs() const { return impl_->model->inputs; }
const std::vector<IoSpec>& Engine::outputs() const { return impl_->model->outputs; }
const std::vector<std::pair<std::string, std::string>>& Engine::metadata() const {
  return impl_->model->metadata;
}

void Engine::run(const View* inputs, View* outputs) {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  Plan& plan = impl_->plan_for(inputs).plan;
  impl_->check_outputs(plan, outputs);
  impl_->walk(&plan, inputs, outputs, Part::kWhole);
}

void Engine::run_part(RunPart part, EngineRun* run) {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  const EngineUpdates& updates = impl_->options.updates;
  impl_->take_numbers(run->numbers);
  std::vector<int64_t> key = key_of(run->inputs.data(), run->inputs.size());
  if (part == RunPart::kSecond && (run->arena == nullptr || key != run->key)) {
    throw EngineError(Status::kInvalidArgument,
                      "[Engine] a second part must go on with a first on inputs of the same shapes "
                      "and strides, got others");
  }
  run->key = std::move(key);
  CachedPlan& cached = impl_->plan_for(run->inputs.data());
  const size_t count = impl_->model->outputs.size();
  const size_t first = part == RunPart::kSecond ? updates.first_outputs : 0;
  const size_t last = part == RunPart::kFirst ? updates.first_outputs : count;
  run->outputs.resize(count);
  for (size_t i = first; i < last; ++i) {
    run->outputs[i] = cached.plan.output(static_cast<uint32_t>(i));
    run->outputs[i].data = nullptr;
    if (updates.stores[i] != kNoValue) run->outputs[i].rank = -1;
  }
  std::shared_ptr<void> arena = std::move(run->arena);
  try {
    run->give(run->outputs.data(), first, last);
    if (arena == nullptr) arena = lease(cached.plan.arena_size());
    if (run->keeps) {
      run->arena = arena;
      arena = lease(cached.plan.arena_size());
      memcpy(arena.get(), run->arena.get(), cached.plan.arena_size());
    }
  } catch (const Error& error) {
    throw EngineError(Status::kResourceExhausted, error.what());
  }
  if (cached.arena != arena.get()) cached.plan.place(cached.arena = arena.get());
  impl_->walk(&cached.plan, run->inputs.data(), run->outputs.data(), static_cast<Part>(part));
  if (part == RunPart::kFirst) run->arena = std::move(arena);
}

std::vector<IoSpec> Engine::output_specs(const View* inputs) {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  const Plan& plan = impl_->plan_for(inputs).plan;
  std::vector<IoSpec> specs = impl_->model->outputs;
  for (size_t i = 0; i < specs.size(); ++i) {
    const View& v = plan.output(static_cast<uint32_t>(i));
    specs[i].shape.assign(v.shape, v.shape + v.rank);
  }
  return specs;
}

void Engine::set_profile(EngineProfile profile) {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  impl_->profile = std::move(profile);
}

const EngineOptions& Engine::options() const { return impl_->options; }

size_t Engine::model_bytes() const { return impl_->model->bytes.size(); }
size_t Engine::packed_bytes() const { return impl_->model->packed.size(); }
size_t Engine::arena_bytes() const {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  size_t total = 0, arena = impl_->arena.size();
  for (const CachedPlan& p : impl_->plans) {
    total += p.tables.size();
    if (impl_->options.updates.on) arena = std::max(arena, p.plan.arena_size());
  }
  return total + arena;
}

}  // namespace proa
