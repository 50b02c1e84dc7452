// Times of the kernels that values of simd/tuning.h decide about and that gemm_bench and conv_bench
// do not show: products about the sizes at which paths change, batches, strided loops, reductions,
// int8 attention. On the pool of PROA_NUM_THREADS threads.
// Arguments: words, of which a case's name must contain one.
#include <stdio.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench_timer.h"
#include "proa/gen/attrs.h"
#include "proa/runtime/pool.h"

namespace {

using proa::DType;
using proa::View;
using proa_test::Array;

/// One op with its arrays. prepare() follows a change of what tasks, scratch or packing depend on.
struct Case {
  std::string name;
  const char* op;
  std::vector<View> in;
  View out;
  std::shared_ptr<void> attrs;
  bool prepack = false;
  std::vector<std::shared_ptr<void>> owned = {};
  proa::Call call = {};
  std::vector<uint8_t> packed = {}, scratch = {};

  static uint8_t* aligned(std::vector<uint8_t>* memory, size_t size) {
    memory->resize(size + 128);
    const auto at = reinterpret_cast<uintptr_t>(memory->data());
    return memory->data() + ((at + 63) / 64 * 64 - at);
  }
  const proa::KernelEntry& kernel() const { return proa::kernel_of(proa::find_op(op)->id); }
  void prepare() {
    call = {};
    call.in = in.data();
    call.n_in = static_cast<int>(in.size());
    call.out = &out;
    call.n_out = 1;
    call.attrs = attrs.get();
    call.parallel = proa::ThreadPool::global().parallel();
    if (prepack) {
      uint8_t* const to = aligned(&packed, kernel().pack_size(call));
      kernel().pack(call, to);
      call.packed = to;
    }
    if (kernel().scratch != nullptr) call.scratch = aligned(&scratch, kernel().scratch(call));
  }
  void run() {
    if (kernel().run(call) != proa::Status::kOk) abort();
  }
};

using Shape = std::initializer_list<int64_t>;

std::string text(Shape shape) {
  std::string s;
  for (const int64_t n : shape) s += (s.empty() ? "" : "x") + std::to_string(n);
  return s;
}

class Cases {
 public:
  std::vector<Case> all;

  template <class T = float>
  View array(Case* c, Shape shape, DType dtype = DType::kF32) {
    auto stored = std::make_shared<Array<T>>(shape, dtype);
    stored->fill(static_cast<uint32_t>(c->owned.size() + 1), 100,
                 dtype == DType::kI8    ? 1
                 : dtype == DType::kF16 ? 0
                                        : 0.01);
    c->owned.push_back(stored);
    return stored->view;
  }
  static View transposed(View v) {
    std::swap(v.shape[v.rank - 2], v.shape[v.rank - 1]);
    std::swap(v.stride[v.rank - 2], v.stride[v.rank - 1]);
    return v;
  }

  enum class B { kPlain, kTransposed, kPacked };
  void add_product(int64_t m, int64_t k, int64_t n, B b = B::kPlain) {
    const char* const kinds[] = {"product ", "product of transposed ", "product of packed "};
    Case c = {kinds[static_cast<int>(b)] + text({m, k, n}), "matmul", {}, {}, nullptr};
    c.prepack = b == B::kPacked;
    const View x = array(&c, {m, k});
    c.in = {x, b == B::kTransposed ? transposed(array(&c, {n, k})) : array(&c, {k, n})};
    c.out = array(&c, {m, n});
    all.push_back(std::move(c));
  }
  void add_batch(int64_t count, int64_t m, int64_t k, int64_t n) {
    Case c = {"batch " + text({count, m, k, n}), "matmul", {}, {}, nullptr};
    c.in = {array(&c, {count, m, k}), array(&c, {count, k, n})};
    c.out = array(&c, {count, m, n});
    all.push_back(std::move(c));
  }
  /// x + y where x is transposed, or of another dtype, or both are rows of wider arrays.
  void add_sum_of_transposed(int64_t m, int64_t n) {
    Case c = {"loop transposed " + text({m, n}), "add", {}, {}, nullptr};
    c.in = {transposed(array(&c, {n, m})), array(&c, {m, n})};
    c.out = array(&c, {m, n});
    all.push_back(std::move(c));
  }
  void add_sum_of_halves(int64_t m, int64_t n) {
    Case c = {"loop converted " + text({m, n}), "add", {}, {}, nullptr};
    c.in = {array<uint16_t>(&c, {m, n}, DType::kF16), array<uint16_t>(&c, {m, n}, DType::kF16)};
    c.out = array<uint16_t>(&c, {m, n}, DType::kF16);
    all.push_back(std::move(c));
  }
  void add_sum_of_rows(int64_t m, int64_t n) {
    Case c = {"loop rows " + text({m, n}), "add", {}, {}, nullptr};
    c.in = {array(&c, {m, n + 16}), array(&c, {m, n + 16})};
    for (View& v : c.in) v.shape[1] = n;
    c.out = array(&c, {m, n});
    all.push_back(std::move(c));
  }
  void add_int8_attention(int64_t batch, int64_t length, int64_t heads, int64_t width) {
    const Shape shape = {batch, length, heads, width};
    Case c = {"int8 attention " + text(shape), "attention_int8", {}, {}, nullptr};
    for (int i = 0; i < 3; ++i) c.in.push_back(array<int8_t>(&c, shape, DType::kI8));
    c.out = array<int8_t>(&c, shape, DType::kI8);
    proa::AttentionInt8Attrs a = {};
    a.scale = 1e-3;
    a.v_scale = a.out_scale = 0.01;
    a.dtype = static_cast<int64_t>(DType::kI8);
    c.attrs = std::make_shared<proa::AttentionInt8Attrs>(a);
    all.push_back(std::move(c));
  }
  void add_attention(int64_t batch, int64_t length, int64_t heads, int64_t width) {
    const Shape shape = {batch, length, heads, width};
    Case c = {"attention " + text(shape), "attention", {}, {}, nullptr};
    for (int i = 0; i < 3; ++i) c.in.push_back(array(&c, shape));
    c.out = array(&c, shape);
    proa::AttentionAttrs a = {};
    a.scale = 0.125;
    c.attrs = std::make_shared<proa::AttentionAttrs>(a);
    all.push_back(std::move(c));
  }
};

std::vector<Case> cases() {
  Cases c;
  using B = Cases::B;
  for (const int64_t n : {56, 64, 72, 80, 88, 96, 104, 112, 128}) {
    c.add_product(n, n, n);
    c.add_product(n, n, n, B::kTransposed);
    c.add_batch(16, n, n, n);
  }
  c.add_product(16, 128, 256);
  c.add_product(16, 256, 256);
  c.add_product(64, 256, 64);
  c.add_product(256, 32, 64);
  for (const int64_t n : {112, 128, 160, 192, 256})
    for (const int64_t count : {2, 3, 8}) c.add_batch(count, n, n, n);
  for (const int64_t n : {4, 8, 12, 16, 24}) c.add_batch(512, n, n, n);
  c.add_batch(48, 128, 64, 128);
  for (const int64_t m : {1, 4, 16})
    for (const int64_t k : {256, 768, 2048}) c.add_product(m, k, 1024, B::kPacked);
  for (const int64_t m : {2, 4})
    for (const int64_t n : {256, 768, 3072}) c.add_product(m, 768, n);
  for (const int64_t n : {32, 36, 44, 48, 64, 256, 1000}) c.add_sum_of_rows(200000 / n, n);
  for (const int64_t n : {64, 256, 512, 1000, 2000}) c.add_sum_of_transposed(n, n);
  for (const int64_t n : {256, 512, 1000}) c.add_sum_of_halves(n, n);
  for (const int64_t n : {64, 128, 256, 512, 1024}) {
    c.add_int8_attention(1, n, 8, 64);
    c.add_attention(1, n, 3, 64);
  }
  return std::move(c.all);
}

}  // namespace

int main(int argc, char** argv) {
  proa_bench::choose_caches();
  std::vector<Case> all = cases();
  proa_test::for_each_isa([&](int isa) {
    printf("isa %d\n", isa);
    for (Case& c : all) {
      bool wanted = argc == 1;
      for (int i = 1; i < argc; ++i) wanted |= c.name.find(argv[i]) != std::string::npos;
      if (!wanted) continue;
      c.prepare();
      const double seconds = proa_bench::quartile_seconds([&] { c.run(); }, 0.05);
      printf("%-40s %10.2f us\n", c.name.c_str(), 1e6 * seconds);
    }
  });
  return 0;
}
