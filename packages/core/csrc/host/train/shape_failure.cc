// The expectations of the rules in portable/shapes/network.cc, in the order in which they check.
// A rule reports that it refuses; it cannot build a text, as it also runs on small devices.
#include "proa/train/shape_failure.h"

#include "proa/gen/attrs.h"
#include "proa/gen/shapes.h"
#include "proa/shapes/dims.h"
#include "proa/train/dispatch.h"

namespace proa {
namespace {

using Values = std::initializer_list<std::pair<const char*, int64_t>>;

/// Collects the first expectation that is not met.
class Expectations {
 public:
  Expectations& expect(bool met, const std::string& what, const std::string& got) {
    if (!met && text_.empty()) text_ = what + ", got " + got;
    return *this;
  }
  Expectations& expect(bool met, const std::string& what, Values values) {
    std::string got;
    for (const auto& [name, value] : values) {
      got += (got.empty() ? "" : ", ") + std::string(name) + "=" + std::to_string(value);
    }
    return expect(met, what, got);
  }
  Expectations& rank(const char* name, const View& x, int rank) {
    return expect(x.rank == rank, std::string(name) + " with " + std::to_string(rank) + " axes",
                  "shape " + shape_text(x));
  }
  Expectations& min_rank(const char* name, const View& x, int rank) {
    return expect(x.rank >= rank,
                  std::string(name) + " with at least " + std::to_string(rank) + " axes",
                  "shape " + shape_text(x));
  }
  /// A vector of `size` elements, if it is given.
  Expectations& vector(const char* name, const View& v, const char* of, int64_t size) {
    if (!v.given()) return *this;
    return expect(v.rank == 1 && may_equal(v.shape[0], size),
                  std::string(name) + " of shape (" + of + ",)",
                  "shape " + shape_text(v) + ", " + of + "=" + std::to_string(size));
  }
  bool met() const { return text_.empty(); }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

bool divides(int64_t divisor, int64_t n) {
  return n == kUnknown || (divisor > 0 && n % divisor == 0);
}

/// A kernel or window and what it slides over, along height and width.
void expect_windows(const View& x, const int64_t* kernel, const Ints& padding,
                    const int64_t* dilation, Expectations* e) {
  for (int i = 0; i < 2; ++i) {
    if (x.shape[2 + i] == kUnknown || kernel[i] == kUnknown) continue;
    const int64_t padded = x.shape[2 + i] + padding[2 * i] + padding[2 * i + 1];
    const int64_t extent = (kernel[i] - 1) * dilation[i] + 1;
    const std::string side = i == 0 ? "height" : "width";
    e->expect(extent <= padded, "a kernel no larger than the padded image",
              "kernel " + side + " " + std::to_string(extent) + ", padded " + side + " " +
                  std::to_string(padded));
  }
}

void expect_conv2d(const Call& c, Expectations* e) {
  const auto& a = c.attr<Conv2dAttrs>();
  const View &x = c.in[0], &w = c.in[1];
  e->rank("x", x, 4).rank("w", w, 4);
  if (!e->met()) return;
  const int64_t channels = x.shape[1];
  e->expect(a.groups > 0, "groups of at least 1", {{"groups", a.groups}})
      .expect(divides(a.groups, channels), "in_channels divisible by groups",
              {{"in_channels", channels}, {"groups", a.groups}})
      .expect(divides(a.groups, w.shape[0]), "out_channels divisible by groups",
              {{"out_channels", w.shape[0]}, {"groups", a.groups}})
      .expect(channels == kUnknown || w.shape[1] == kUnknown || channels == w.shape[1] * a.groups,
              "in_channels equal to groups * w.shape[1]",
              {{"in_channels", channels}, {"groups", a.groups}, {"w.shape[1]", w.shape[1]}});
  expect_windows(x, w.shape + 2, a.padding, a.dilation.v, e);
  if (c.n_in >= 3 && x.dtype != DType::kI8) e->vector("bias", c.in[2], "out_channels", w.shape[0]);
}

void expect_conv2d_transpose(const Call& c, Expectations* e) {
  const auto& a = c.attr<Conv2dTransposeAttrs>();
  const View &x = c.in[0], &w = c.in[1];
  e->rank("x", x, 4).rank("w", w, 4);
  if (!e->met()) return;
  e->expect(a.groups > 0, "groups of at least 1", {{"groups", a.groups}})
      .expect(may_equal(x.shape[1], w.shape[0]), "in_channels equal to w.shape[0]",
              {{"in_channels", x.shape[1]}, {"w.shape[0]", w.shape[0]}})
      .expect(divides(a.groups, x.shape[1]), "in_channels divisible by groups",
              {{"in_channels", x.shape[1]}, {"groups", a.groups}});
  for (int i = 0; i < 2; ++i) {
    e->expect(a.output_padding[i] < a.stride[i], "output_padding less than stride",
              {{"output_padding", a.output_padding[i]}, {"stride", a.stride[i]}});
  }
  if (e->met() && w.shape[1] != kUnknown && c.n_in >= 3) {
    e->vector("bias", c.in[2], "out_channels", w.shape[1] * a.groups);
  }
}

void expect_matmul(const Call& c, Expectations* e) {
  const View &x = c.in[0], &y = c.in[1];
  e->min_rank("x", x, 2).min_rank("y", y, 2);
  if (!e->met()) return;
  View batch;
  const int64_t columns = x.shape[x.rank - 1], rows = y.shape[y.rank - 2];
  e->expect(may_equal(columns, rows), "x's last axis as long as y's last but one",
            {{"x.shape[-1]", columns}, {"y.shape[-2]", rows}})
      .expect(broadcast_leading(x, x.rank - 2, y, y.rank - 2, &batch),
              "leading axes of x and y that broadcast", shape_text(x) + " and " + shape_text(y));
}

void expect_linear(const Call& c, Expectations* e) {
  const View &x = c.in[0], &w = c.in[1];
  e->min_rank("x", x, 2).rank("w", w, 2);
  if (!e->met()) return;
  const int64_t features = x.shape[x.rank - 1];
  e->expect(may_equal(features, w.shape[0]), "in_features equal to w.shape[0]",
            {{"in_features", features}, {"w.shape[0]", w.shape[0]}});
  if (c.n_in >= 3 && x.dtype != DType::kI8) {
    e->vector("bias", c.in[2], "out_features", w.shape[1]);
  }
}

void expect_pool2d(const Call& c, Expectations* e) {
  const auto& a = c.attr<MaxPool2dAttrs>();
  const View& x = c.in[0];
  e->rank("x", x, 4);
  if (!e->met()) return;
  for (int i = 0; i < 4; ++i) {
    e->expect(a.padding[i] < a.kernel[i / 2], "padding less than the kernel",
              {{"padding", a.padding[i]}, {"kernel", a.kernel[i / 2]}});
  }
  const int64_t dilation[] = {1, 1};
  expect_windows(x, a.kernel.v, a.padding, dilation, e);
}

void expect_channels(const Call& c, Expectations* e) {
  const View& x = c.in[0];
  e->min_rank("x", x, 2);
  for (int i = 1; e->met() && i < c.n_in; ++i) {
    e->vector("scale, bias, mean and variance", c.in[i], "channels", x.shape[1]);
  }
}

void expect_group_norm(const Call& c, Expectations* e) {
  const View& x = c.in[0];
  const int64_t groups = c.attr<GroupNormAttrs>().groups;
  e->min_rank("x", x, 2);
  if (!e->met()) return;
  e->expect(divides(groups, x.shape[1]), "channels divisible by groups",
            {{"channels", x.shape[1]}, {"groups", groups}});
  for (int i = 1; i < c.n_in; ++i) e->vector("scale and bias", c.in[i], "channels", x.shape[1]);
}

}  // namespace

std::string unmet_expectation(const OpInfo& op, const Call& call) {
  const struct {
    ShapeRule rule;
    void (*expect)(const Call&, Expectations*);
  } kinds[] = {
      {shape_conv2d, expect_conv2d},
      {shape_conv2d_transpose, expect_conv2d_transpose},
      {shape_matmul, expect_matmul},
      {shape_linear, expect_linear},
      {shape_pool2d, expect_pool2d},
      {shape_batch_norm, expect_channels},
      {shape_batch_norm_infer, expect_channels},
      {shape_group_norm, expect_group_norm},
  };
  Expectations expectations;
  for (const auto& kind : kinds) {
    if (op.shape == kind.rule) kind.expect(call, &expectations);
  }
  return expectations.text();
}

}  // namespace proa
