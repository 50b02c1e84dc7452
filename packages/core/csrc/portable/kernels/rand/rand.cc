// Random arrays. Element i uses word i of the stream (words 2i and 2i + 1 for 64 bits), counted in
// logical row-major order, independent of strides and threads.
#include "proa/base/expect.h"
#include "proa/kernels/rand/philox.h"

#include "proa/base/dispatch.h"
#include "proa/base/task_size.h"
#include "proa/gen/attrs/rand.h"
#include "proa/kernels/elementwise/functions.h"
#include "proa/kernels/reduce/reducer.h"
#include "proa/kernels/sort/order.h"

namespace proa::PROA_ISA {

namespace {

constexpr int kCounters = 64;              // of one call of philox
constexpr int64_t kBlock = 4 * kCounters;  // words handled at once
static_assert(kElementTask % kBlock == 0, "a task begins with a block");

struct Stream {
  int64_t seed, offset;
  /// Words [first, first + kBlock); first is a multiple of kBlock.
  void fill(int64_t first, uint32_t* words) const {
    philox_words<kCounters>(seed, offset, first / 4, words);
  }
};

/// The top 53 bits of two words as a double in [0, 1).
PROA_INLINE double unit(uint32_t low, uint32_t high) {
  const uint64_t w = static_cast<uint64_t>(high) << 32 | low;
  return static_cast<double>(static_cast<int64_t>(w >> 11)) * 0x1p-53;
}

/// Writes n stored elements, one after another, to where `at` is in the nest of `out`.
void scatter(const uint8_t* from, int64_t n, const View& out, const Nest& nest, Cursor* at) {
  const int64_t size = static_cast<int64_t>(size_of(out.dtype));
  while (n > 0) {
    const int64_t left = nest.rank > 0 ? nest.inner() - at->at[nest.rank - 1] : 1;
    const int64_t m = n < left ? n : left;
    scatter_row(size_of(out.dtype), from, out.as<uint8_t>() + at->offset[0] * size,
                nest.inner_stride(0), m);
    at->advance(nest, m);
    from += m * size;
    n -= m;
  }
}

/// Dense blocks of T, n of at most kBlock * 4 / sizeof(T) elements from their words, written to
/// `out`.
template <class T, class F>
Status generate(const Call& c, const Stream& stream, DType as, F&& make) {
  const View& out = c.out[0];
  Nest nest;
  nest.set_shape(out);
  nest.add(out);
  nest.merge();
  constexpr int64_t kEach = kBlock / (static_cast<int64_t>(sizeof(T)) / 4);
  parallel_for(c, out.numel(), kElementTask, [&](int64_t begin, int64_t end) {
    uint32_t words[kBlock];
    T block[kEach];
    alignas(64) uint8_t stored[kEach * 8];
    Cursor at;
    at.seek(nest, begin);
    for (int64_t i = begin; i < end; i += kEach) {
      stream.fill(i * (kBlock / kEach), words);
      make(words, block);
      const int64_t n = end - i < kEach ? end - i : kEach;
      convert(as, block, out.dtype, stored, n);
      scatter(stored, n, out, nest, &at);
    }
  });
  return Status::kOk;
}

/// Pairs of independent normal numbers from pairs of uniform ones (Box & Muller, 1958).
void normal_f32(const uint32_t* words, float* block, float mean, float std) {
  float radius[kBlock / 2], angle[kBlock / 2], pairs[2][kBlock / 2];
  for (int64_t k = 0; k < kBlock / 2; ++k) {
    radius[k] = 1.0f - unit_float(words[2 * k]);  // in (0, 1]: its logarithm is finite
    angle[k] = unit_float(words[2 * k + 1]) * 6.283185307179586f;
  }
  for (int64_t k = 0; k < kBlock / 2; k += kLanes) {
    const VF r = sqrt(log(load(radius + k)) * -2.0f);
    const SinCos t = sincos_reduced(load(angle + k));
    store(pairs[0] + k, fma(r * t.cos, splat(std), mean));
    store(pairs[1] + k, fma(r * t.sin, splat(std), mean));
  }
  for (int64_t k = 0; k < kBlock / 2; ++k) {
    block[2 * k] = pairs[0][k];
    block[2 * k + 1] = pairs[1][k];
  }
}

/// The high 64 bits of a product.
uint64_t multiply_high(uint64_t a, uint64_t b) {
  const uint64_t al = a & 0xffffffffu, ah = a >> 32, bl = b & 0xffffffffu, bh = b >> 32;
  const uint64_t middle = ah * bl + (al * bl >> 32), cross = al * bh + (middle & 0xffffffffu);
  return ah * bh + (middle >> 32) + (cross >> 32);
}

}  // namespace

Status uniform(const Call& c) {
  const auto& a = c.attr<UniformAttrs>();
  const Stream stream = {a.seed, a.offset};
  if (!is_floating(c.out[0].dtype)) return Status::kUnimplemented;
  if (c.out[0].dtype == DType::kF64) {
    const double width = a.high - a.low;
    return generate<double>(c, stream, DType::kF64, [&](const uint32_t* words, double* block) {
      for (int64_t k = 0; k < kBlock / 2; ++k) {
        const double v = a.low + unit(words[2 * k], words[2 * k + 1]) * width;
        block[k] = v < a.high ? v : a.low;  // rounding may reach the open end
      }
    });
  }
  const float low = static_cast<float>(a.low), high = static_cast<float>(a.high);
  return generate<float>(c, stream, DType::kF32, [&](const uint32_t* words, float* block) {
    for (int64_t k = 0; k < kBlock; ++k) {
      const float v = low + unit_float(words[k]) * (high - low);
      block[k] = v < high ? v : low;
    }
  });
}

Status gaussian(const Call& c) {
  const auto& a = c.attr<GaussianAttrs>();
  const Stream stream = {a.seed, a.offset};
  if (!is_floating(c.out[0].dtype)) return Status::kUnimplemented;
  if (c.out[0].dtype == DType::kF64) {
    return generate<double>(c, stream, DType::kF64, [&](const uint32_t* words, double* block) {
      for (int64_t k = 0; k < kBlock / 2; k += 2) {
        const uint32_t* w = words + 2 * k;
        const double r = ::sqrt(-2 * ::log(1 - unit(w[0], w[1])));
        const double t = unit(w[2], w[3]) * 6.283185307179586;
        block[k] = a.mean + a.std * r * ::cos(t);
        block[k + 1] = a.mean + a.std * r * ::sin(t);
      }
    });
  }
  return generate<float>(c, stream, DType::kF32, [&](const uint32_t* words, float* block) {
    normal_f32(words, block, static_cast<float>(a.mean), static_cast<float>(a.std));
  });
}

Status randint(const Call& c) {
  const auto& a = c.attr<RandintAttrs>();
  PROA_EXPECT(c, a.low < a.high, "low less than high", named("low", a.low), named("high", a.high));
  const uint64_t width = static_cast<uint64_t>(a.high) - static_cast<uint64_t>(a.low);
  const Stream stream = {a.seed, a.offset};
  return generate<int64_t>(c, stream, DType::kI64, [&](const uint32_t* words, int64_t* block) {
    for (int64_t k = 0; k < kBlock / 2; ++k) {
      const uint64_t w = static_cast<uint64_t>(words[2 * k + 1]) << 32 | words[2 * k];
      block[k] = static_cast<int64_t>(static_cast<uint64_t>(a.low) + multiply_high(w, width));
    }
  });
}

size_t randperm_scratch(const Call& c) {
  return 2 * static_cast<size_t>(c.attr<RandpermAttrs>().count) * sizeof(Keyed);
}

Status randperm(const Call& c) {
  const auto& a = c.attr<RandpermAttrs>();
  const View& out = c.out[0];
  const int64_t count = a.count;
  const Stream stream = {a.seed, a.offset};
  Keyed *items = static_cast<Keyed*>(c.scratch), *spare = items + count;
  parallel_for(c, count, kElementTask, [&](int64_t begin, int64_t end) {
    uint32_t words[kBlock];
    for (int64_t i = begin; i < end; i += kBlock / 2) {
      stream.fill(i * 2, words);
      for (int64_t k = 0; k < kBlock / 2 && i + k < end; ++k) {
        items[i + k] = {static_cast<uint64_t>(words[2 * k + 1]) << 32 | words[2 * k], i + k};
      }
    }
  });
  const Keyed* sorted = sort_keys(items, spare, count);
  const int64_t size = static_cast<int64_t>(size_of(out.dtype));
  for (int64_t i = 0; i < count; ++i) {
    convert(DType::kI64, &sorted[i].index, out.dtype, out.as<uint8_t>() + i * out.stride[0] * size,
            1);
  }
  return Status::kOk;
}

namespace {

/// y = f(x, u) with u uniform in [0, 1), elementwise in logical order, computed as T.
template <class T, class F>
Status map_random(const Call& c, const Stream& stream, DType as, F&& f) {
  const View& x = c.in[0];
  Nest nest;
  nest.set_shape(x);
  nest.add(x);
  nest.merge();
  // A view of the output alone, to be written in the same order.
  const View& out = c.out[0];
  Nest to;
  to.set_shape(out);
  to.add(out);
  to.merge();
  const bool direct = out.dtype == as && to.rank <= 1 && to.inner_stride(0) == 1;
  parallel_for(c, x.numel(), kElementTask, [&](int64_t begin, int64_t end) {
    uint32_t words[kBlock];
    alignas(64) uint8_t stored[kBlock * 8];
    T block[kBlock];
    RunReader reader(nest, x.data, x.dtype, as);
    Cursor at;
    at.seek(to, begin);
    for (int64_t i = begin; i < end; i += kBlock) {
      stream.fill(i, words);
      int64_t n = end - i < kBlock ? end - i : kBlock, filled = 0;
      T* y = direct ? out.as<T>() + i : block;
      const void* run;
      reader.start(i, i + n);
      while (const int64_t m = reader.next(&run)) {
        const T* v = static_cast<const T*>(run);
        for (int64_t k = 0; k < m; ++k) y[filled + k] = f(v[k], unit_float(words[filled + k]));
        filled += m;
      }
      if (direct) continue;
      convert(as, block, out.dtype, stored, n);
      scatter(stored, n, out, to, &at);
    }
  });
  return Status::kOk;
}

constexpr int64_t kDropped = 128;  // few at a time: words are made while memory is at work

/// Dropout of floats that follow each other, n <= kDropped from a multiple of kDropped on.
void drop_floats(const Stream& stream, const float* x, float* y, int64_t first, int64_t n,
                 uint32_t threshold, float scale) {
  alignas(64) uint32_t words[kDropped];
  philox_words<kDropped / 4>(stream.seed, stream.offset, first / 4, words);
  for (int64_t k = 0; k < n; k += kLanes) {
    const int64_t some = n - k < kLanes ? n - k : kLanes;
    prefetch_ahead(x + k);
    prefetch_ahead(y + k);
    const VF v = some == kLanes ? load(x + k) : load_n(x + k, some);
    const VF result = (load(words + k) >> 8) >= threshold ? v * scale : VF{};
    if (some == kLanes) {
      store(y + k, result);
    } else {
      store_n(y + k, result, some);
    }
  }
}

}  // namespace

Status bernoulli(const Call& c) {
  const auto& a = c.attr<BernoulliAttrs>();
  const Stream stream = {a.seed, a.offset};
  if (c.in[0].dtype == DType::kF64) {
    return map_random<double>(c, stream, DType::kF64, [](double p, float u) {
      return static_cast<double>(u) < p ? 1.0 : 0.0;
    });
  }
  return map_random<float>(c, stream, DType::kF32,
                           [](float p, float u) { return u < p ? 1.0f : 0.0f; });
}

Status dropout(const Call& c) {
  const auto& a = c.attr<DropoutAttrs>();
  const Stream stream = {a.seed, a.offset};
  const double factor = a.upscale == 0 ? 1 : a.p < 1 ? 1 / (1 - a.p) : 0;
  const float p = static_cast<float>(a.p);
  if (c.in[0].dtype == DType::kF64) {
    return map_random<double>(c, stream, DType::kF64,
                              [=](double x, float u) { return u >= p ? x * factor : 0.0; });
  }
  const float scale = static_cast<float>(factor);
  const View &x = c.in[0], &out = c.out[0];
  if (x.dtype == DType::kF32 && out.dtype == DType::kF32 && x.contiguous() && out.contiguous()) {
    // u is w / 2**24 of a word's top 24 bits w: it is at threshold p where w is at threshold p *
    // 2**24.
    const auto threshold = static_cast<uint32_t>(::ceil(static_cast<double>(p) * 0x1p24));
    parallel_for(c, x.numel(), kElementTask, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i += kDropped) {
        const int64_t n = end - i < kDropped ? end - i : kDropped;
        drop_floats(stream, x.as<const float>() + i, out.as<float>() + i, i, n, threshold, scale);
      }
    });
    return Status::kOk;
  }
  return map_random<float>(c, stream, DType::kF32,
                           [=](float v, float u) { return u >= p ? v * scale : 0.0f; });
}

}  // namespace proa::PROA_ISA
