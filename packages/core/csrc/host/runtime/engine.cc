#include "proa/runtime/engine.h"

#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <mutex>
#include <optional>

#include "proa/exec/copy.h"
#include "proa/runtime/allocator.h"
#include "proa/runtime/checksum.h"
#include "proa/runtime/denormals.h"
#include "proa/runtime/engine_block.h"
#include "proa/runtime/error.h"
#include "proa/runtime/flow_run.h"
#include "proa/runtime/model_reader.h"
#include "proa/runtime/ops.h"
#include "proa/runtime/pool.h"
#include "proa/runtime/strategies.h"
#include "proa/shapes/layout.h"

namespace proa {

namespace {

constexpr const char* kWeightsMessage =
    "[Engine] expected the data of every constant of the graph, in order and of its size, got "
    "others";

/// verify_checksum, by the fastest path of this CPU.
bool has_checksum(const Bytes& bytes) {
  const auto* p = static_cast<const uint8_t*>(bytes.data());
  uint64_t start;
  memcpy(&start, p, 8);
  const size_t at = static_cast<size_t>(start) + 8 + kChecksumAt;
  const uint8_t zero[4] = {};
  uint32_t stated;
  memcpy(&stated, p + at, 4);
  const uint32_t crc = crc32(crc32(0, p, at), zero, 4);
  return crc32(crc, p + at + 4, bytes.size() - at - 4) == stated;
}

/// What all clones share: the bytes, the bound ops and the prepacked weights.
struct Model {
  Bytes bytes;
  ModelView view;
  std::unique_ptr<ComputingBlock> main;  // nullptr in a model with control flow
  std::unique_ptr<FlowProgram> flow;     // else nullptr
  std::vector<IoSpec> inputs, outputs;
  std::vector<std::pair<std::string, std::string>> metadata;
  std::vector<const void*> weights;  // where constants are that are not in the bytes
  std::shared_ptr<void> owner;       // of their memory

  Model(const EngineOptions& options, const void* given, size_t size) : bytes(given, size) {
    bytes.expand();
    open();
    check_sum(options);
    bind(options, constant_bytes());
  }

  Model(const EngineOptions& options, ModelBytes file) : bytes(std::move(file.bytes)) {
    ModelReader* rest = file.rest.get();
    bytes.expand();
    open();
    if (rest == nullptr || has_control_flow(view, 0) || options.updates.on) {
      if (rest != nullptr) rest->read_rest({}, {});
      check_sum(options, rest);
      bind(options, constant_bytes());
      return;
    }
    rest->read_small(view);
    try {
      bind(options, {}, rest);
    } catch (const EngineError&) {
      check_sum(options, rest);  // rather says that bytes were changed than what that led to
      throw;
    }
    check_sum(options, rest);
  }

  Model(const EngineOptions& options, const void* graph, size_t size,
        const std::vector<WeightBytes>& given, std::shared_ptr<void> held, WeightBytes disposable)
      : bytes(graph, size, whole_size(graph, size)), owner(std::move(held)) {
    open();
    for (const WeightBytes& weight : given) {
      const auto id = static_cast<uint32_t>(weights.size());
      const bool fits = id < view.value_count() && view.value(id).kind >= ValueKind::kConstant &&
                        view.value(id).data_size == weight.size;
      if (!fits) throw EngineError(Status::kInvalidArgument, kWeightsMessage);
      weights.push_back(weight.data);
    }
    const auto count = static_cast<uint32_t>(weights.size());
    if (count < view.value_count() && view.value(count).kind >= ValueKind::kConstant) {
      throw EngineError(Status::kInvalidArgument, kWeightsMessage);
    }
    view.set_weights(weights.data());
    bind(options, disposable);
  }

  /// What follows the graph in the bytes.
  WeightBytes constant_bytes() const {
    const auto* p = static_cast<const uint8_t*>(bytes.data());
    uint64_t start, graph_size;
    memcpy(&start, p, 8);
    memcpy(&graph_size, p + start + 24, 8);
    const size_t at = static_cast<size_t>(start + 8 + graph_size);
    return {p + at, bytes.size() - at};
  }

  /// The size of the file whose first part is given, which has its whole graph.
  static size_t whole_size(const void* graph, size_t size) {
    const auto* p = static_cast<const uint8_t*>(graph);
    uint64_t start = 0, graph_size = 0, data_size = 0;
    if (size >= 8) memcpy(&start, p, 8);
    if (size >= 48 && start <= size - 48) {
      memcpy(&graph_size, p + start + 24, 8);
      memcpy(&data_size, p + start + 32, 8);
    }
    if (graph_size == 0 || graph_size != size - start - 8) {
      throw EngineError(Status::kInvalidArgument,
                        "[Engine] expected the bytes of a model up to the end of its graph, got " +
                            std::to_string(size) + " others");
    }
    return static_cast<size_t>(start + 8 + data_size);
  }

  void open() {
    const Status status = open_model(bytes.data(), bytes.size(), &view);
    if (status != Status::kOk) {
      throw EngineError(status, std::string(status == Status::kBadModel
                                                ? "[Engine] not a valid model file: "
                                                : "[Engine] this model file cannot be read: ") +
                                    view.problem());
    }
  }

  void check_sum(const EngineOptions& options, ModelReader* rest = nullptr) const {
    if (!options.verify_checksum) return;
    if (!(rest != nullptr ? rest->has_checksum() : has_checksum(bytes))) {
      throw EngineError(Status::kBadModel,
                        "[Engine] the model file's checksum differs: its bytes were changed");
    }
  }

  void bind(const EngineOptions& options, WeightBytes disposable, ModelReader* rest = nullptr) {
    op_entries();  // chooses the instruction set
    const std::vector<uint8_t> chosen = strategies_of(options);
    const bool fits = !has_control_flow(view, 0) && chosen.size() == view.block(0).node_count;
    if (!chosen.empty() && !fits) {
      throw EngineError(Status::kInvalidArgument,
                        "[Engine] expected a strategy for each of the " +
                            std::to_string(view.block(0).node_count) +
                            " nodes of a model without control flow, got " +
                            std::to_string(chosen.size()));
    }
    if (has_control_flow(view, 0)) {
      flow = std::make_unique<FlowProgram>(view);
    } else {
      main = std::make_unique<ComputingBlock>(view, options.updates.on, nullptr, disposable,
                                              chosen.empty() ? nullptr : chosen.data(), rest);
    }
    for (uint32_t i = 0; i < view.input_count(); ++i)
      inputs.push_back(spec_of(view, view.input_value(i)));
    for (uint32_t i = 0; i < view.output_count(); ++i)
      outputs.push_back(spec_of(view, view.output_value(i)));
    for (uint32_t i = 0; i < view.metadata_count(); ++i) {
      metadata.emplace_back(view.metadata_key(i), view.metadata_value(i));
    }
  }

  std::vector<uint8_t> strategies_of(const EngineOptions& options) const {
    const bool stored = options.stored_strategies && options.strategies.empty();
    if (!stored || has_control_flow(view, 0)) return options.strategies;
    for (uint32_t i = 0; i < view.metadata_count(); ++i) {
      if (strcmp(view.metadata_key(i), "strategies") != 0) continue;
      return read_strategies(view.metadata_value(i), view.block(0).node_count);
    }
    return {};
  }

  /// The computing block that has the node, whose number in the block `node` becomes; or nullptr.
  ComputingBlock* block_of(uint32_t* node) const {
    if (main != nullptr) return *node < main->prepared.node_count() ? main.get() : nullptr;
    for (uint32_t k = 0; k < view.block_count(); ++k) {
      const BlockRecord& record = view.block(k);
      if (*node < record.node_first || *node - record.node_first >= record.node_count) continue;
      *node -= record.node_first;
      return flow->blocks[k].computing.get();
    }
    return nullptr;
  }
};

/// Memory of the process's allocator.
std::shared_ptr<void> lease(size_t bytes) {
  size_t capacity;
  void* data = allocate(bytes > 0 ? bytes : 1, &capacity);
  return {data, [capacity](void* memory) { release(memory, capacity); }};
}

}  // namespace

struct Engine::Impl {
  std::shared_ptr<Model> model;
  EngineOptions options;
  std::unique_ptr<ThreadPool> own_pool;
  std::mutex mutex;
  EngineProfile profile;
  // For a model without control flow.
  Buffer arena;
  std::optional<BlockPlans> plans;
  // For a model with control flow.
  std::optional<FlowRun> flow;
  std::vector<HeldArray> results;  // of the last run

  Impl(std::shared_ptr<Model> shared, const EngineOptions& chosen)
      : model(std::move(shared)), options(chosen) {
    check_updates();
    if (model->flow != nullptr) {
      flow.emplace(*model->flow, options.max_plans, options.max_plan_bytes);
    } else {
      PlanOptions how;
      how.given_outputs = options.updates.on;
      how.first_nodes = options.updates.first_nodes;
      how.first_outputs = options.updates.first_outputs;
      if (options.updates.on) how.stores = options.updates.stores.data();
      plans.emplace(*model->main, how, options.max_plans, options.max_plan_bytes);
    }
    take_chains();
    if (options.threads > 1) own_pool = std::make_unique<ThreadPool>(options.threads);
  }

  void check_updates() const {
    const EngineUpdates& updates = options.updates;
    if (!updates.on) return;
    bool fits = updates.stores.size() == model->outputs.size() &&
                updates.first_outputs <= model->outputs.size();
    bool stores = false;
    for (const uint32_t input : updates.stores) {
      fits = fits && (input == kNoValue || input < model->inputs.size());
      stores = stores || input != kNoValue;
    }
    for (const NumberUse& use : updates.numbers) {
      uint32_t node = use.node;
      const ComputingBlock* block = model->block_of(&node);
      fits = fits && block != nullptr && use.at % 8 == 0 &&
             use.at + size_t{8} <= block->prepared.attribute_bytes(node);
    }
    if (!fits) {
      throw EngineError(
          Status::kInvalidArgument,
          "[Engine] expected updates of inputs and attributes of the model, got others");
    }
    if (model->flow != nullptr && (stores || updates.first_nodes != kNoValue)) {
      throw EngineError(Status::kUnimplemented,
                        "[Engine] a program with control flow must leave its inputs as they are "
                        "and run whole, got one with updates");
    }
  }

  /// Those of the metadata, "<first>+<count>" with spaces; none from where it is not so on.
  std::vector<EngineChain> read_chains() const {
    std::vector<EngineChain> chains;
    for (const auto& [key, text] : model->metadata) {
      if (key != "chains") continue;
      unsigned long long end = 0;
      for (const char* at = text.c_str(); *at != 0;) {
        char* next = nullptr;
        const unsigned long long first = strtoull(at, &next, 10);
        if (next == at || *next != '+') return chains;
        const unsigned long long count = strtoull(at = next + 1, &next, 10);
        if (next == at || first < end || first > node_count() || count > node_count() - first) {
          return chains;
        }
        chains.push_back({static_cast<uint32_t>(first), static_cast<uint32_t>(count)});
        end = first + count;
        at = next;
      }
    }
    return chains;
  }

  uint32_t node_count() const {
    return flow.has_value() ? model->view.node_count() : model->main->prepared.node_count();
  }

  void take_chains() {
    if (options.stored_chains) options.chains = read_chains();
    uint32_t chains_end = 0;
    for (const EngineChain& chain : options.chains) {
      const uint32_t nodes = node_count();
      if (chain.first < chains_end || chain.first > nodes || chain.count > nodes - chain.first) {
        throw EngineError(Status::kInvalidArgument,
                          "[Engine] expected chains of nodes in order, got others");
      }
      if (flow.has_value()) {
        flow->add_chain({chain.first, chain.count});
      } else {
        plans->add_chain({chain.first, chain.count});
      }
      chains_end = chain.first + chain.count;
    }
  }

  const Parallel* parallel() const {
    if (options.threads == 1) return nullptr;
    return own_pool != nullptr ? own_pool->parallel() : ThreadPool::global().parallel();
  }

  CachedPlan& plan_for(const View* inputs) {
    check_inputs(model->inputs, inputs);
    CachedPlan& cached = plans->find(inputs);
    if (options.updates.on) return cached;
    if (arena.data() == nullptr || cached.plan.arena_size() > arena.size()) {
      arena = Buffer(cached.plan.arena_size());
    }
    cached.place(arena.data());
    return cached;
  }

  void take_numbers(const std::vector<int64_t>& numbers) {
    for (const NumberUse& use : options.updates.numbers) {
      if (use.slot >= numbers.size()) {
        throw EngineError(
            Status::kInvalidArgument,
            "[Engine] expected a number for every slot, got " + std::to_string(numbers.size()));
      }
      uint32_t node = use.node;
      model->block_of(&node)->prepared.set_attribute(node, use.at, &numbers[use.slot]);
    }
  }

  void run_plan_part(Plan* plan, const View* inputs, View* outputs, Part part) {
    run_plan(*model->main, plan, inputs, outputs, parallel(), profile ? &profile : nullptr, part);
  }

  /// Bytes that runs left: the arena, plans, and results in memory of the engine.
  size_t run_bytes() const {
    if (!flow.has_value()) {
      return plans->table_bytes() + (options.updates.on ? plans->largest_arena() : arena.size());
    }
    size_t total = flow->bytes();
    for (const HeldArray& result : results) {
      if (result.memory.get() != nullptr) total += result.memory.get()->bytes();
    }
    return total;
  }

  std::vector<HeldArray> run_blocks(const View* inputs) {
    check_inputs(model->inputs, inputs);
    return flow->run(inputs, {parallel(), profile ? &profile : nullptr, &options.interrupt});
  }

  void run_flow(const View* inputs, View* outputs) {
    // What the last run gave may be what this one reads.
    std::vector<HeldArray> computed = run_blocks(inputs);
    for (size_t i = 0; i < computed.size(); ++i) {
      HeldArray& result = computed[i];
      if (outputs[i].data != nullptr) {
        check_output(model->outputs[i], result.view, outputs[i]);
        copy_elements(result.view, outputs[i]);
        continue;
      }
      if (result.memory.get() == nullptr || !result.view.contiguous()) {
        HeldArray own{result.view, Memory()};
        own.view.set_contiguous();
        own.memory = memory_for(&own.view);
        copy_elements(result.view, own.view);
        result = std::move(own);
      }
      outputs[i] = result.view;
    }
    results = std::move(computed);
  }

  void run_flow_part(EngineRun* run) {
    const std::vector<HeldArray> computed = run_blocks(run->inputs.data());
    run->outputs.resize(computed.size());
    for (size_t i = 0; i < computed.size(); ++i) {
      run->outputs[i] = computed[i].view;
      if (!is_dense(computed[i].view)) run->outputs[i].set_contiguous();
      run->outputs[i].data = nullptr;
    }
    run->give(run->outputs.data(), 0, computed.size());
    for (size_t i = 0; i < computed.size(); ++i) copy_elements(computed[i].view, run->outputs[i]);
  }
};

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Engine::~Engine() = default;

std::unique_ptr<Engine> Engine::load(const std::string& path, const EngineOptions& options) {
  auto model = std::make_shared<Model>(options, read_model_file(path));
  return std::unique_ptr<Engine>(new Engine(std::make_unique<Impl>(std::move(model), options)));
}

std::unique_ptr<Engine> Engine::from_bytes(const void* bytes, size_t size,
                                           const EngineOptions& options) {
  auto model = std::make_shared<Model>(options, bytes, size);
  return std::unique_ptr<Engine>(new Engine(std::make_unique<Impl>(std::move(model), options)));
}

std::unique_ptr<Engine> Engine::from_parts(const void* graph, size_t size,
                                           const std::vector<WeightBytes>& weights,
                                           std::shared_ptr<void> owner,
                                           const EngineOptions& options, WeightBytes disposable) {
  auto model = std::make_shared<Model>(options, graph, size, weights, std::move(owner), disposable);
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
  std::optional<FlushDenormals> flush;
  if (impl_->options.flush_denormals) flush.emplace();
  if (impl_->flow.has_value()) return impl_->run_flow(inputs, outputs);
  Plan& plan = impl_->plan_for(inputs).plan;
  for (size_t i = 0; i < impl_->model->outputs.size(); ++i) {
    if (outputs[i].data == nullptr) continue;
    check_output(impl_->model->outputs[i], plan.output(static_cast<uint32_t>(i)), outputs[i]);
  }
  impl_->run_plan_part(&plan, inputs, outputs, Part::kWhole);
}

void Engine::run_part(RunPart part, EngineRun* run) {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  const EngineUpdates& updates = impl_->options.updates;
  if (!updates.on) {
    throw EngineError(Status::kInvalidArgument,
                      "[Engine] run_part() needs an engine made with updates, got one without");
  }
  impl_->take_numbers(run->numbers);
  if (impl_->flow.has_value()) return impl_->run_flow_part(run);
  std::vector<int64_t> key = key_of(run->inputs.data(), run->inputs.size());
  if (part == RunPart::kSecond && (run->arena == nullptr || key != run->key)) {
    throw EngineError(
        Status::kInvalidArgument,
        "[Engine] expected inputs of the second part in the shapes and strides of the "
        "first part, got others");
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
  cached.place(arena.get());
  impl_->run_plan_part(&cached.plan, run->inputs.data(), run->outputs.data(),
                       static_cast<Part>(part));
  if (part == RunPart::kFirst) run->arena = std::move(arena);
}

std::vector<IoSpec> Engine::output_specs(const View* inputs) {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  if (impl_->flow.has_value()) {
    check_inputs(impl_->model->inputs, inputs);
    for (const IoSpec& spec : impl_->model->outputs) {
      const bool known =
          std::find(spec.shape.begin(), spec.shape.end(), kUnknown) == spec.shape.end();
      if (known) continue;
      throw EngineError(Status::kUnimplemented,
                        "[Engine] output '" + spec.name +
                            "' of a model with control flow must be stated with its shape to "
                            "know that before a run, got " +
                            shape_text(spec.shape.data(), static_cast<int>(spec.shape.size())));
    }
    return impl_->model->outputs;
  }
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

bool Engine::has_control_flow() const { return impl_->flow.has_value(); }

void Engine::stop() {
  if (impl_->flow.has_value()) impl_->flow->stop();
}

const EngineOptions& Engine::options() const { return impl_->options; }

size_t Engine::model_bytes() const { return impl_->model->bytes.size(); }
size_t Engine::packed_bytes() const {
  const Model& model = *impl_->model;
  return model.flow != nullptr ? model.flow->packed_bytes() : model.main->packed.size();
}
const std::vector<uint32_t>& Engine::unread_weights() const {
  static const std::vector<uint32_t> none;
  return impl_->model->main != nullptr ? impl_->model->main->unread : none;
}
size_t Engine::arena_bytes() const {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  return impl_->run_bytes();
}

void Engine::set_flush_denormals(bool on) {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  impl_->options.flush_denormals = on;
}

void Engine::limit_plans(int max_plans, size_t max_bytes) {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  impl_->options.max_plans = max_plans;
  impl_->options.max_plan_bytes = max_bytes;
  if (impl_->flow.has_value()) {
    impl_->flow->limit(max_plans, max_bytes);
  } else {
    impl_->plans->limit(max_plans, max_bytes);
  }
}

size_t Engine::release_memory() {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  const size_t before = impl_->run_bytes();
  if (impl_->flow.has_value()) {
    impl_->flow->release();
    impl_->results.clear();
  } else {
    impl_->plans->clear();
    impl_->arena = Buffer();
  }
  return before - impl_->run_bytes();
}

bool has_bf16_dots() { return active_bf16() != Bf16::kWidened; }

}  // namespace proa
