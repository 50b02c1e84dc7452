// Throws changed model files at the reader, the binder and the planner: each must end in a Status.
// Run under the sanitizers. As a libFuzzer target, build with -DPROA_LIBFUZZER -fsanitize=fuzzer.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <chrono>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "proa/base/cpu.h"
#include "proa/exec/plan.h"
#include "proa/runtime/flow_run.h"

namespace {

using Bytes = std::vector<uint8_t>;

struct Free {
  void operator()(void* p) const { free(p); }
};

/// Memory of exactly this size, so that a sanitizer sees a step outside.
std::unique_ptr<void, Free> exactly(size_t size) {
  void* p = nullptr;
  if (posix_memalign(&p, 64, size > 0 ? size : 1) != 0) abort();
  return std::unique_ptr<void, Free>(p);
}

/// Reads everything that the tables name.
size_t visit(const proa::ModelView& model) {
  size_t sum = 0;
  for (uint32_t i = 0; i < model.value_count(); ++i) {
    sum += strlen(model.name_of(i));
    const proa::View v = model.view(i);
    const auto bytes = model.value(i).data_size;
    if (v.data != nullptr && bytes > 0) sum += v.as<uint8_t>()[0] + v.as<uint8_t>()[bytes - 1];
  }
  for (uint32_t i = 0; i < model.node_count(); ++i) {
    const proa::NodeRecord& node = model.node(i);
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
std::vector<proa::View> inputs_of(const proa::ModelView& model) {
  std::vector<proa::View> inputs;
  for (uint32_t i = 0; i < model.input_count(); ++i) {
    proa::View v = model.view(model.input_value(i));
    for (int a = 0; a < v.rank; ++a) v.shape[a] = v.shape[a] == proa::kUnknown ? 2 : v.shape[a];
    v.set_contiguous();
    inputs.push_back(v);
  }
  return inputs;
}

/// The same of a model with control flow, block by block.
int try_blocks(const proa::ModelView& model) {
  int stage = 1;
  try {
    const proa::FlowProgram program(model);
    proa::FlowRun run(program, 1, kPlanBytes);
    stage = 2;
    for (const proa::FlowBlock& block : program.blocks) {
      if (block.computing == nullptr) continue;
      proa::PlanOptions how;
      how.given_outputs = true;
      how.stores = block.passed.data();
      proa::BlockPlans plans(*block.computing, how, 1, kPlanBytes);
      plans.find(inputs_of(block.computing->view).data());
    }
    return 3;
  } catch (const proa::EngineError& error) {
    if (error.what()[0] == 0) abort();
    return stage;
  }
}

/// Binds the model and plans it for a batch of 2. Counts the stages reached.
int try_model(const uint8_t* data, size_t size) {
  static const bool chosen = (proa::select_isa(proa::cpu_isa()), true);
  (void)chosen;
  const auto copy = exactly(size);
  memcpy(copy.get(), data, size);
  proa::ModelView model;
  if (proa::open_model(copy.get(), size, &model) != proa::Status::kOk) {
    if (model.problem()[0] == 0) abort();  // a refusal says why
    return 0;
  }
  volatile size_t sink = visit(model);
  (void)sink;
  (void)proa::verify_checksum(copy.get(), size);
  if (proa::has_control_flow(model, 0)) return try_blocks(model);
  const size_t table_size = proa::Prepared::table_size(model);
  const auto tables = exactly(table_size);
  proa::Prepared prepared;
  if (prepared.bind(model, tables.get(), table_size) != proa::Status::kOk) return 1;
  const std::vector<proa::View> inputs = inputs_of(model);
  const size_t plan_size = proa::Plan::table_size(prepared);
  const auto plan_memory = exactly(plan_size);
  proa::Plan plan;
  if (plan.build(prepared, inputs.data(), plan_memory.get(), plan_size) != proa::Status::kOk)
    return 2;
  return 3;
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
size_t graph_offset(const Bytes& bytes, Random* random) {
  uint64_t json = 0;
  if (bytes.size() >= 8) memcpy(&json, bytes.data(), 8);
  if (json > bytes.size() - 8 || random->below(8) == 0) return random->below(bytes.size());
  return json + 8 + random->below(bytes.size() - 8 - static_cast<size_t>(json));
}

Bytes mutate(const std::vector<Bytes>& seeds, Random* random) {
  static const uint32_t kOdd[] = {0,          1,          2,          7,          8,   9,    64,
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

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try_model(data, size);
  return 0;
}

#ifndef PROA_LIBFUZZER
int main(int argc, char** argv) {
  const double seconds = argc > 1 ? atof(argv[1]) : 5;
  const std::string here = __FILE__;
  const std::string golden = here.substr(0, here.rfind("csrc/")) + "tests/ir/golden/";
  std::vector<Bytes> seeds;
  for (const char* name : {"small_cnn.v1.proa", "every_dtype.v1.proa", "control_flow.v1.proa"}) {
    std::ifstream file(golden + name, std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    if (seeds.back().empty()) {
      fprintf(stderr, "the golden file %s%s must exist\n", golden.c_str(), name);
      return 1;
    }
    if (const int stage = try_model(seeds.back().data(), seeds.back().size()); stage != 3) {
      fprintf(stderr, "the golden file %s must be planned, got stage %d\n", name, stage);
      return 1;
    }
    // Every shorter file is refused: its size is not the one it names.
    for (size_t n = 0; n < seeds.back().size(); ++n) {
      if (try_model(seeds.back().data(), n) != 0) return 1;
    }
  }
  Random random{0x9e3779b97f4a7c15ull};
  long counts[4] = {}, total = 0;
  const auto start = std::chrono::steady_clock::now();
  while (std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() <
         seconds) {
    for (int i = 0; i < 100; ++i, ++total) {
      const Bytes bytes = mutate(seeds, &random);
      ++counts[try_model(bytes.data(), bytes.size())];
    }
  }
  printf("%ld files: %ld refused, %ld not bound, %ld not planned, %ld planned\n", total, counts[0],
         counts[1], counts[2], counts[3]);
  return 0;
}
#endif
