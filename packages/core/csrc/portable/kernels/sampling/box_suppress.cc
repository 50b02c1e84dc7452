// Non-maximum suppression of sorted boxes: every box is compared with the better ones that are
// kept, in the order in which they were (Neubeck and Van Gool, 2006, algorithm 1).
#include "proa/base/dispatch.h"
#include "proa/gen/attrs/sampling.h"

namespace proa::PROA_ISA {
namespace {

template <class C>
struct Box {
  C x1, y1, x2, y2;
  C area() const { return side(x1, x2) * side(y1, y2); }
  static C side(C low, C high) { return high > low ? high - low : C(0); }
};

template <class T>
Box<Compute<T>> box_at(const View& boxes, int64_t n, int64_t i) {
  const T* p = boxes.as<const T>() + n * boxes.stride[0] + i * boxes.stride[1];
  const int64_t s = boxes.stride[2];
  using C = Compute<T>;
  return {static_cast<C>(p[0]), static_cast<C>(p[s]), static_cast<C>(p[2 * s]),
          static_cast<C>(p[3 * s])};
}

/// Intersection over union; 0 if both are empty.
template <class C>
C overlap(const Box<C>& a, const Box<C>& b) {
  const C width = Box<C>::side(a.x1 > b.x1 ? a.x1 : b.x1, a.x2 < b.x2 ? a.x2 : b.x2);
  const C height = Box<C>::side(a.y1 > b.y1 ? a.y1 : b.y1, a.y2 < b.y2 ? a.y2 : b.y2);
  const C common = width * height;
  const C whole = a.area() + b.area() - common;
  return whole > C(0) ? common / whole : C(0);
}

template <class T>
void suppress(const Call& c, int64_t n) {
  const auto& a = c.attr<BoxSuppressAttrs>();
  const View &boxes = c.in[0], &valid = c.in[1], &y = c.out[0];
  using C = Compute<T>;
  C threshold = static_cast<C>(a.threshold);
  // As bytes: those of a file may be neither 0 nor 1.
  const uint8_t* usable = valid.as<const uint8_t>() + n * valid.stride[0];
  bool* selected = y.as<bool>() + n * y.stride[0];
  for (int64_t i = 0; i < boxes.shape[1]; ++i) {
    bool keep = usable[i * valid.stride[1]] != 0;
    if (keep) {
      const Box<C> own = box_at<T>(boxes, n, i);
      for (int64_t j = 0; j < i && keep; ++j)
        if (selected[j * y.stride[1]]) keep = !(overlap(own, box_at<T>(boxes, n, j)) > threshold);
    }
    selected[i * y.stride[1]] = keep;
    if (keep && a.eta < 1 && threshold > C(0.5)) threshold *= static_cast<C>(a.eta);
  }
}

template <class T>
void suppress_lists(const Call& c) {
  parallel_for(c, c.in[0].shape[0], 1, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) suppress<T>(c, n);
  });
}

}  // namespace

Status box_suppress(const Call& c) {
  PROA_FLOATING(c.in[0].dtype, T, suppress_lists<T>(c));
  return Status::kOk;
}

}  // namespace proa::PROA_ISA
