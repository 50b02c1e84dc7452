// Shape rules: what follows from known and unknown dimensions, and what is refused. A kernel
// trusts its rule, so every array that it indexes by another's shape must be checked.
#include <stdio.h>
#include <string.h>

#include <initializer_list>
#include <vector>

#include "proa/gen/attrs.h"
#include "proa/shapes/infer.h"

using namespace proa;

namespace {

int failures = 0;

View of(std::initializer_list<int64_t> shape, DType dtype = DType::kF32) {
  View v;
  v.rank = 0;
  v.dtype = dtype;
  for (int64_t d : shape) v.shape[v.rank++] = d;
  v.set_contiguous();
  return v;
}

Status infer(const char* name, const std::vector<View>& in, const void* attrs, View* out) {
  const OpInfo* op = find_op(name);
  if (op == nullptr) {
    printf("no op is called %s\n", name);
    ++failures;
    return Status::kBadModel;
  }
  Call call;
  call.in = in.data();
  call.n_in = static_cast<int>(in.size());
  call.out = out;
  call.n_out = op->n_out;
  call.attrs = attrs != nullptr ? attrs : op->attr_defaults;
  return proa::infer(*op, call);
}

void gives(int line, const char* name, const std::vector<View>& in, const void* attrs,
           const View& want) {
  View out[kMaxOutputs];
  const Status status = infer(name, in, attrs, out);
  bool same = status == Status::kOk && out[0].rank == want.rank && out[0].dtype == want.dtype;
  for (int i = 0; same && i < want.rank; ++i) same = out[0].shape[i] == want.shape[i];
  if (same) return;
  printf("line %d: %s gave status %d,", line, name, static_cast<int>(status));
  for (int i = 0; i < out[0].rank; ++i) printf(" %lld", static_cast<long long>(out[0].shape[i]));
  printf("\n");
  ++failures;
}

void refuses(int line, const char* name, const std::vector<View>& in, const void* attrs) {
  View out[kMaxOutputs];
  if (infer(name, in, attrs, out) != Status::kOk) return;
  printf("line %d: %s accepted what it must refuse\n", line, name);
  ++failures;
}

#define GIVES(...) gives(__LINE__, __VA_ARGS__)
#define REFUSES(...) refuses(__LINE__, __VA_ARGS__)

constexpr auto kI8 = DType::kI8;
constexpr auto kI64 = DType::kI64;
constexpr auto kF64 = DType::kF64;
constexpr int64_t kHuge = int64_t{1} << 62;
const View kAbsent;

void test_elementwise() {
  GIVES("add", {of({2, 1, 4}), of({3, 1})}, nullptr, of({2, 3, 4}));
  GIVES("add", {of({-1, 4}), of({1, 4})}, nullptr, of({-1, 4}));
  GIVES("add", {of({-1, 4}), of({3, 4})}, nullptr, of({3, 4}));
  REFUSES("add", {of({2, 3}), of({2, 4})}, nullptr);
  REFUSES("where", {of({2}, DType::kBool), of({2}), of({2}, kF64)}, nullptr);
  REFUSES("relu_grad", {of({4}), of({3})}, nullptr);
  REFUSES("relu_grad", {of({4}), of({4}, kF64)}, nullptr);
  REFUSES("sgd_", {of({4}), of({5})}, nullptr);
}

void test_axes() {
  const SoftmaxAttrs last{-1}, off{2};
  GIVES("softmax", {of({2, -1})}, &last, of({2, -1}));
  GIVES("softmax", {of({})}, &last, of({}));
  REFUSES("softmax", {of({2, 3})}, &off);
  REFUSES("softmax_grad", {of({2, 3}), of({2, 4})}, &last);
  const CumsumAttrs outside{5, 0};
  REFUSES("cumsum", {of({2, 3})}, &outside);
  REFUSES("tril", {of({3})}, nullptr);
}

void test_scales() {
  const QuantizeAttrs channel{1}, none{-1};
  GIVES("quantize", {of({2, 3, 4}), of({3})}, &channel, of({2, 3, 4}, kI8));
  GIVES("quantize", {of({2, 3, 4}), of({})}, &none, of({2, 3, 4}, kI8));
  REFUSES("quantize", {of({2, 3, 4}), of({3})}, &none);
  REFUSES("quantize", {of({2, 3, 4}), of({3}, kF64)}, &channel);
  REFUSES("fake_quant_grad", {of({2}), of({3}), of({1})}, nullptr);
  REFUSES("batch_norm_infer", {of({2, 3}), of({3}), of({3}), of({2}), of({3})}, nullptr);
}

void test_index() {
  const PutAlongAxisAttrs first{0};
  const View index = of({2, 3}, kI64);
  GIVES("put_along_axis", {of({4, 3}), index, of({2, 3})}, &first, of({4, 3}));
  REFUSES("put_along_axis", {of({4, 3}), index, of({1, 3})}, &first);
  REFUSES("put_along_axis", {of({4, 2}), index, of({2, 3})}, &first);
  REFUSES("index_put", {of({4, 3}), of({5, 1}, kI64), of({5, 2})}, nullptr);
  const GatherGradAttrs axis{1};
  GIVES("gather_grad", {of({4, 2}), of({2}, kI64), of({4, 3})}, &axis, of({4, 3}));
  REFUSES("gather_grad", {of({4, 5}), of({2}, kI64), of({4, 3})}, &axis);
  REFUSES("embedding_grad", {of({5}, kI64), of({5, 3}), of({9, 4})}, nullptr);
  REFUSES("softmax_cross_entropy_grad", {of({5}, kI64), of({4}), of({5, 3})}, nullptr);
  REFUSES("pool_scatter", {of({1, 2, 2, 2}), of({1, 2, 2, 2}, kI64), of({1, 1, 4, 4})}, nullptr);
}

void test_slices() {
  const Ints one{1, {0}}, from{1, {1}}, to{1, {9}};
  const SliceAttrs slice{one, from, to, Ints{1, {2}}};
  GIVES("slice", {of({6, 2})}, &slice, of({3, 2}));
  GIVES("slice", {of({-1, 2})}, &slice, of({-1, 2}));
  GIVES("slice_assign", {of({6, 2}), of({1, 2})}, &slice, of({6, 2}));
  REFUSES("slice_assign", {of({6, 2}), of({4, 2})}, &slice);
  REFUSES("slice_grad", {of({4, 2}), of({6, 2})}, &slice);
  const SliceAttrs leap{one, from, to, Ints{1, {kHuge}}};
  GIVES("slice", {of({6, 2})}, &leap, of({1, 2}));
}

void test_networks() {
  const View x = of({-1, 4, 8, 8}), w = of({6, 4, 3, 3});
  GIVES("conv2d", {x, w, kAbsent}, nullptr, of({-1, 6, 6, 6}));
  REFUSES("conv2d", {x, w, of({5})}, nullptr);
  REFUSES("conv2d", {of({1, 3, 8, 8}), w, kAbsent}, nullptr);
  REFUSES("conv2d_act", {x, w, of({6}), of({6})}, nullptr);
  REFUSES("conv2d_act", {x, w, of({6}, kF64), kAbsent}, nullptr);
  REFUSES("conv2d_act", {x, of({6, 4, 3, 3}, kF64), kAbsent, kAbsent}, nullptr);
  Conv2dAttrs wide;
  wide.dilation = Ints{2, {kHuge, kHuge}};
  REFUSES("conv2d", {x, w, kAbsent}, &wide);
  REFUSES("conv2d_grad_input", {of({1, 6, 5, 6}), w, of({1, 4, 8, 8})}, nullptr);
  REFUSES("conv2d_grad_weight", {of({1, 4, 8, 8}), of({1, 5, 6, 6}), w}, nullptr);
  GIVES("linear", {of({-1, 4}), of({4, 6}), of({6})}, nullptr, of({-1, 6}));
  REFUSES("linear_act", {of({2, 4}), of({4, 6}), kAbsent, of({1, 6})}, nullptr);
  LinearInt8Attrs plain;
  plain.dtype = static_cast<int64_t>(DType::kF32);
  GIVES("linear_int8", {of({2, 4}, kI8), of({4, 6}, kI8), of({6}), kAbsent}, &plain, of({2, 6}));
  REFUSES("linear_int8", {of({2, 4}, kI8), of({4, 6}), of({6}), kAbsent}, &plain);
  REFUSES("linear_int8", {of({2, 4}, kI8), of({4, 6}, kI8), of({5}), kAbsent}, &plain);
  REFUSES("linear_int8", {of({2, 4}, kI8), of({4, 6}, kI8), of({6}), of({2, 6}, kI8)}, &plain);
  REFUSES("layer_norm_grad", {of({2, 4}), of({2, 4}), of({2}), of({3}), of({4})}, nullptr);
}

void test_sizes_that_overflow() {
  FullAttrs full;
  full.shape = Ints{2, {kHuge, kHuge}};
  full.dtype = static_cast<int64_t>(DType::kF32);
  REFUSES("full", {}, &full);
  const TileAttrs tile{Ints{1, {kHuge}}};
  REFUSES("tile", {of({8})}, &tile);
  const ReshapeAttrs reshape{Ints{3, {-1, kHuge, kHuge}}};
  REFUSES("reshape", {of({8})}, &reshape);
  const ReshapeAttrs empty{Ints{3, {2, kHuge, 0}}};  // whose strides do not fit
  REFUSES("reshape", {of({1, 1, 0})}, &empty);
  PadAttrs pad;
  pad.low = Ints{1, {kHuge}};
  pad.high = Ints{1, {kHuge}};
  REFUSES("pad", {of({8})}, &pad);
}

}  // namespace

int main() {
  test_elementwise();
  test_axes();
  test_scales();
  test_index();
  test_slices();
  test_networks();
  test_sizes_that_overflow();
  printf("%d failures\n", failures);
  return failures != 0;
}
