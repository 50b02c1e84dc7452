// The greatest element of each bin of each box. Boxes are rounded to whole pixels, both ends
// included; a bin reaches from the floor of its begin to the ceiling of its end, within the image.
#include <math.h>

#include "proa/base/dispatch.h"
#include "proa/gen/attrs/sampling.h"

namespace proa::PROA_ISA {
namespace {

struct Span {
  int64_t begin, end;
};

/// Bins of one axis of one box.
struct Bins {
  double begin, width;
  int64_t size;  // of the image
  Span at(int64_t i) const {
    const double whole = static_cast<double>(size);
    const double low = begin + ::floor(static_cast<double>(i) * width);
    const double high = begin + ::ceil(static_cast<double>(i + 1) * width);
    return {static_cast<int64_t>(::fmin(::fmax(low, 0), whole)),
            static_cast<int64_t>(::fmin(::fmax(high, 0), whole))};
  }
};

Bins bins_of(double low, double high, double scale, int64_t bins, int64_t size) {
  const double begin = ::round(low * scale), end = ::round(high * scale);
  return {begin, ::fmax(end - begin + 1, 1) / static_cast<double>(bins), size};
}

template <class T>
int64_t argmax(const View& x, int64_t n, int64_t channel, Span h, Span w) {
  using C = Compute<T>;
  const T* plane = x.as<const T>() + n * x.stride[0] + channel * x.stride[1];
  int64_t index = -1;
  C best = 0;
  for (int64_t p = h.begin; p < h.end; ++p)
    for (int64_t q = w.begin; q < w.end; ++q) {
      const C v = static_cast<C>(plane[p * x.stride[2] + q * x.stride[3]]);
      if (index >= 0 && !(v > best) && (v == v || best != best)) continue;
      best = v;
      index = ((n * x.shape[1] + channel) * x.shape[2] + p) * x.shape[3] + q;
    }
  return index;
}

template <class T>
void find(const Call& c) {
  const auto& a = c.attr<RoiMaxIndexAttrs>();
  const View &x = c.in[0], &boxes = c.in[1], &image = c.in[2], &y = c.out[0];
  parallel_for(c, y.shape[0], 1, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const int64_t n = image.dtype == DType::kI64 ? image.as<const int64_t>()[r * image.stride[0]]
                                                   : image.as<const int32_t>()[r * image.stride[0]];
      const auto edge = [&](int64_t k) {
        return static_cast<double>(static_cast<Compute<T>>(
            boxes.as<const T>()[r * boxes.stride[0] + k * boxes.stride[1]]));
      };
      const Bins down = bins_of(edge(1), edge(3), a.scale, a.size[0], x.shape[2]);
      const Bins along = bins_of(edge(0), edge(2), a.scale, a.size[1], x.shape[3]);
      for (int64_t k = 0; k < x.shape[1]; ++k)
        for (int64_t i = 0; i < a.size[0]; ++i)
          for (int64_t j = 0; j < a.size[1]; ++j)
            y.as<int64_t>()[r * y.stride[0] + k * y.stride[1] + i * y.stride[2] + j * y.stride[3]] =
                argmax<T>(x, n, k, down.at(i), along.at(j));
    }
  });
}

template <class I>
bool all_inside(const View& image, int64_t size) {
  bool inside = true;
  for (int64_t r = 0; r < image.shape[0]; ++r) {
    const I n = image.as<const I>()[r * image.stride[0]];
    inside &= n >= 0 && n < size;
  }
  return inside;
}

}  // namespace

Status roi_max_index(const Call& c) {
  const View& image = c.in[2];
  const int64_t size = c.in[0].shape[0];
  const bool inside = image.dtype == DType::kI64 ? all_inside<int64_t>(image, size)
                                                 : all_inside<int32_t>(image, size);
  if (!inside) return Status::kOutOfRange;
  PROA_FLOATING(c.in[0].dtype, T, find<T>(c));
  return Status::kOk;
}

}  // namespace proa::PROA_ISA
