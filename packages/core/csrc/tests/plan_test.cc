// A plan's buffers are offsets until place() and run() give them addresses: nothing has one before,
// and a plan that is placed again, or run on other arrays, computes the same.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "proa/base/cpu.h"
#include "proa/exec/plan.h"

using namespace proa;

namespace {

void check(bool held, const char* what) {
  if (held) return;
  printf("FAIL %s\n", what);
  exit(1);
}

/// Zeroed memory that begins at a multiple of 64.
class Memory {
 public:
  explicit Memory(size_t size) : size_(size) {
    check(posix_memalign(&data_, 64, size > 0 ? size : 1) == 0, "memory can be allocated");
    memset(data_, 0, size);
  }
  ~Memory() { free(data_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  void* data() const { return data_; }
  size_t size() const { return size_; }
  bool contains(const void* p) const {
    const auto at = reinterpret_cast<uintptr_t>(p), first = reinterpret_cast<uintptr_t>(data_);
    return at >= first && at < first + size_;
  }

 private:
  void* data_ = nullptr;
  size_t size_;
};

/// tests/ir/golden/make.py: a convolution, relu, flatten (a view, also an output), a product.
std::vector<char> golden() {
  const std::string here = __FILE__;
  const std::string path =
      here.substr(0, here.rfind("csrc/")) + "tests/ir/golden/small_cnn.v1.proa";
  std::ifstream file(path, std::ios::binary);
  std::vector<char> bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  check(!bytes.empty(), "the golden file exists");
  return bytes;
}

constexpr int64_t kBatch = 3;
constexpr size_t kPixels = kBatch * 2 * 4 * 4;

View image(float* data) {
  View v;
  v.data = data;
  v.rank = 4;
  const int64_t shape[] = {kBatch, 2, 4, 4};
  memcpy(v.shape, shape, sizeof shape);
  v.set_contiguous();
  return v;
}

std::vector<float> elements(const View& v) {
  check(v.contiguous(), "outputs are row-major");
  return std::vector<float>(v.as<float>(), v.as<float>() + v.numel());
}

struct Model {
  std::vector<char> file = golden();
  Memory bytes{file.size()};
  ModelView view;
  Prepared prepared;

  Model() {
    memcpy(bytes.data(), file.data(), file.size());
    check(open_model(bytes.data(), bytes.size(), &view) == Status::kOk, "the file is read");
    tables.reset(new Memory(Prepared::table_size(view)));
    check(prepared.bind(view, tables->data(), tables->size()) == Status::kOk, "the model is bound");
  }

 private:
  std::unique_ptr<Memory> tables;
};

struct Results {
  std::vector<float> logits, features;
};

Results run(Plan* plan, float* pixels) {
  const View in = image(pixels);
  View out[2];
  check(plan->run(&in, out, nullptr) == Status::kOk, "the plan runs");
  return {elements(out[0]), elements(out[1])};
}

void test_buffers_have_no_address_before_they_are_placed() {
  const Model model;
  const Memory tables(Plan::table_size(model.prepared));
  const View in = image(nullptr);
  Plan plan;
  check(plan.build(model.prepared, &in, tables.data(), tables.size()) == Status::kOk,
        "a plan is built of shapes alone");
  check(plan.output(0).data == nullptr && plan.output(1).data == nullptr,
        "an output has no address before the plan is placed");
  const Memory arena(plan.arena_size());
  plan.place(arena.data());
  check(arena.contains(plan.output(0).data) && arena.contains(plan.output(1).data),
        "an output is in the arena");
}

void test_a_plan_can_be_placed_again() {
  const Model model;
  const Memory tables(Plan::table_size(model.prepared));
  float pixels[kPixels], elsewhere[kPixels];
  for (size_t i = 0; i < kPixels; ++i) pixels[i] = elsewhere[i] = static_cast<float>(i % 7) - 3;
  const View in = image(pixels);
  Plan plan;
  check(plan.build(model.prepared, &in, tables.data(), tables.size()) == Status::kOk, "built");
  const Memory first(plan.arena_size()), second(plan.arena_size());
  plan.place(first.data());
  const Results before = run(&plan, pixels);
  plan.place(second.data());
  memset(first.data(), 0xff, first.size());
  memset(pixels, 0xff, sizeof pixels);
  const Results after = run(&plan, elsewhere);
  check(before.logits == after.logits && before.features == after.features,
        "results do not depend on where arrays are");
  bool any = false;
  for (float x : before.features) any |= x > 0;
  check(any && before.features.size() == kBatch * 48, "the view has the features");
}

void test_outputs_are_computed_in_memory_of_the_caller() {
  const Model model;
  const Memory tables(Plan::table_size(model.prepared));
  float pixels[kPixels];
  for (size_t i = 0; i < kPixels; ++i) pixels[i] = static_cast<float>(i % 5);
  const View in = image(pixels);
  Plan plan;
  check(plan.build(model.prepared, &in, tables.data(), tables.size()) == Status::kOk, "built");
  const Memory arena(plan.arena_size());
  plan.place(arena.data());
  const Results want = run(&plan, pixels);
  std::vector<float> logits(want.logits.size()), features(want.features.size());
  View out[2] = {plan.output(0), plan.output(1)};
  out[0].data = logits.data();
  out[1].data = features.data();
  check(plan.run(&in, out, nullptr) == Status::kOk, "the plan runs");
  check(logits == want.logits && features == want.features, "given memory has the results");
}

}  // namespace

int main() {
  select_isa(cpu_isa());
  test_buffers_have_no_address_before_they_are_placed();
  test_a_plan_can_be_placed_again();
  test_outputs_are_computed_in_memory_of_the_caller();
  printf("ok\n");
  return 0;
}
