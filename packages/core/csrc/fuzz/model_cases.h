#pragma once
// Changed model files, and what a runtime does with a file before it runs: each must end in a
// Status or an error with a message. Included by one file of a program.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <memory>
#include <string>
#include <vector>

#include "proa/base/cpu.h"
#include "proa/exec/plan.h"
#include "proa/model/compressed.h"
#include "proa/runtime/engine.h"
#include "proa/runtime/flow_run.h"

namespace proa::fuzz {

using Bytes = std::vector<uint8_t>;

struct Free {
  void operator()(void* p) const { free(p); }
};

/// Memory of exactly this size, so that a sanitizer sees a step outside.
inline std::unique_ptr<void, Free> exactly(size_t size) {
  void* p = nullptr;
  if (posix_memalign(&p, 64, size > 0 ? size : 1) != 0) abort();
  return std::unique_ptr<void, Free>(p);
}

/// Reads everything that the tables name.
inline size_t visit(const ModelView& model) {
  size_t sum = 0;
  for (uint32_t i = 0; i < model.value_count(); ++i) {
    sum += strlen(model.name_of(i));
    const View v = model.view(i);
    const auto bytes = model.value(i).data_size;
    if (v.data != nullptr && bytes > 0) sum += v.as<uint8_t>()[0] + v.as<uint8_t>()[bytes - 1];
  }
  for (uint32_t i = 0; i < model.node_count(); ++i) {
    const NodeRecord& node = model.node(i);
    sum += strlen(model.string(model.op(node.op).name));
    for (uint32_t k = 0; k < node.input_count; ++k) sum += model.inputs(node)[k];
    for (uint32_t k = 0; k < node.attr_size; ++k) {
      sum += static_cast<const uint8_t*>(model.attrs(node))[k];
    }
  }
  for (uint32_t i = 0; i < model.metadata_count(); ++i) {
    sum += strlen(model.metadata_key(i)) + strlen(model.metadata_value(i));
  }
  return sum + model.output_count();
}

constexpr size_t kPlanBytes = 1 << 20;

/// The model's inputs, of size 2 where that is open.
inline std::vector<View> inputs_of(const ModelView& model) {
  std::vector<View> inputs;
  for (uint32_t i = 0; i < model.input_count(); ++i) {
    View v = model.view(model.input_value(i));
    for (int a = 0; a < v.rank; ++a) v.shape[a] = v.shape[a] == kUnknown ? 2 : v.shape[a];
    v.set_contiguous();
    inputs.push_back(v);
  }
  return inputs;
}

/// The same of a model with control flow, block by block.
inline int try_blocks(const ModelView& model) {
  int stage = 1;
  try {
    const FlowProgram program(model);
    FlowRun run(program, 1, kPlanBytes);
    stage = 2;
    for (const FlowBlock& block : program.blocks) {
      if (block.computing == nullptr) continue;
      PlanOptions how;
      how.given_outputs = true;
      how.stores = block.passed.data();
      BlockPlans plans(*block.computing, how, 1, kPlanBytes);
      plans.find(inputs_of(block.computing->view).data());
    }
    return 3;
  } catch (const EngineError& error) {
    if (error.what()[0] == 0) abort();
    return stage;
  }
}

/// Binds the model and plans it for a batch of 2. Counts the stages reached.
inline int try_model(const uint8_t* data, size_t size) {
  static const bool chosen = (select_isa(cpu_isa()), true);
  (void)chosen;
  const auto copy = exactly(size);
  if (size > 0) memcpy(copy.get(), data, size);  // `data` may be nullptr else
  if (is_compressed_model(copy.get(), size)) {
    const auto whole = static_cast<size_t>(expanded_model_size(copy.get(), size));
    const auto expanded = exactly(whole);
    if (whole == 0 || expand_model(copy.get(), size, expanded.get()) != Status::kOk) return 0;
    return try_model(static_cast<const uint8_t*>(expanded.get()), whole);
  }
  ModelView model;
  if (open_model(copy.get(), size, &model) != Status::kOk) {
    if (model.problem()[0] == 0) abort();  // a refusal says why
    return 0;
  }
  volatile size_t sink = visit(model);
  (void)sink;
  (void)verify_checksum(copy.get(), size);
  if (has_control_flow(model, 0)) return try_blocks(model);
  const size_t table_size = Prepared::table_size(model);
  const auto tables = exactly(table_size);
  Prepared prepared;
  if (prepared.bind(model, tables.get(), table_size) != Status::kOk) return 1;
  const std::vector<View> inputs = inputs_of(model);
  const size_t plan_size = Plan::table_size(prepared);
  const auto plan_memory = exactly(plan_size);
  Plan plan;
  if (plan.build(prepared, inputs.data(), plan_memory.get(), plan_size) != Status::kOk) return 2;
  return 3;
}

/// Loads and runs a model that try_model() planned, if its arrays are small, on ones or on zeros.
/// True if it ran; else it threw an error with a message.
inline bool run_model(const uint8_t* data, size_t size, bool ones) {
  constexpr int64_t kElements = 1 << 16;
  try {
    EngineOptions options;
    options.threads = 1;
    options.verify_checksum = false;
    options.max_plan_bytes = kPlanBytes;
    options.stored_chains = options.stored_strategies = true;  // as the C library does
    const std::unique_ptr<Engine> engine = Engine::from_bytes(data, size, options);
    if (engine->has_control_flow()) return false;  // whose loops may not end
    std::vector<View> inputs, outputs(engine->outputs().size());
    std::vector<std::unique_ptr<void, Free>> memory;
    for (const IoSpec& spec : engine->inputs()) {
      View v;
      v.dtype = spec.dtype;
      v.rank = static_cast<int8_t>(spec.shape.size());
      for (int a = 0; a < v.rank; ++a) {
        v.shape[a] =
            spec.shape[static_cast<size_t>(a)] == kUnknown ? 2 : spec.shape[static_cast<size_t>(a)];
        if (v.shape[a] > kElements) return false;
      }
      if (v.rank > 3) return false;  // with more, the product may overflow
      v.set_contiguous();
      if (v.numel() > kElements) return false;
      const size_t bytes = static_cast<size_t>(v.numel()) * size_of(v.dtype);
      memory.push_back(exactly(bytes));
      memset(memory.back().get(), v.dtype <= DType::kI64 && ones ? 1 : 0, bytes);
      v.data = memory.back().get();
      inputs.push_back(v);
    }
    int64_t total = 0;
    for (const IoSpec& spec : engine->output_specs(inputs.data())) {
      int64_t count = 1;
      for (const int64_t d : spec.shape) count = d > kElements ? kElements + 1 : count * d;
      total += count;
      if (total > kElements) return false;
    }
    engine->run(inputs.data(), outputs.data());
    return true;
  } catch (const EngineError& error) {
    if (error.what()[0] == 0) abort();
    return false;
  }
}

/// xorshift64*: the same cases on every machine.
struct Random {
  uint64_t state;
  uint64_t next() {
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * 0x2545f4914f6cdd1dull;
  }
  size_t below(size_t n) { return n == 0 ? 0 : static_cast<size_t>(next() % n); }
};

/// Offsets in the file inside the graph: most changes go there.
inline size_t graph_offset(const Bytes& bytes, Random* random) {
  uint64_t json = 0;
  if (bytes.size() >= 8) memcpy(&json, bytes.data(), 8);
  if (json >= bytes.size() - 8 || random->below(8) == 0) return random->below(bytes.size());
  return json + 8 + random->below(bytes.size() - 8 - static_cast<size_t>(json));
}

inline Bytes mutate(const std::vector<Bytes>& seeds, Random* random) {
  static constexpr uint32_t kOdd[] = {0,          1,          2,          7,          8,   9,    64,
                                      0x7fffffff, 0x80000000, 0xffffffff, 0xfffffff8, 255, 65535};
  Bytes bytes = seeds[random->below(seeds.size())];
  const size_t changes = 1 + random->below(4);
  for (size_t c = 0; c < changes && bytes.size() > 16; ++c) {
    const size_t at = graph_offset(bytes, random);
    switch (random->below(6)) {
      case 0:
        bytes[at] ^= static_cast<uint8_t>(1u << random->below(8));
        break;
      case 1:
        bytes[at] = static_cast<uint8_t>(random->next());
        break;
      case 2: {
        const uint32_t odd = kOdd[random->below(sizeof(kOdd) / 4)];
        const size_t offset = at & ~size_t{3};
        if (offset + 4 <= bytes.size()) memcpy(&bytes[offset], &odd, 4);
        break;
      }
      case 3: {  // copy some bytes over others
        const size_t n = 1 + random->below(96), from = graph_offset(bytes, random);
        if (from + n <= bytes.size() && at + n <= bytes.size())
          memmove(&bytes[at], &bytes[from], n);
        break;
      }
      case 4: {  // some bytes of another file
        const Bytes& other = seeds[random->below(seeds.size())];
        const size_t n = 1 + random->below(256), from = random->below(other.size());
        if (from + n <= other.size() && at + n <= bytes.size()) memcpy(&bytes[at], &other[from], n);
        break;
      }
      default:
        if (random->below(8) == 0) bytes.resize(random->below(bytes.size()));
    }
  }
  return bytes;
}

}  // namespace proa::fuzz
