// Group normalisation (Wu & He, 2018): each group of channels (axis 1) of each sample has its own
// mean and 1 / sqrt(variance + epsilon). A sample is split into blocks of whole groups that stay
// in cache from the sums to the map; where channels are contiguous a block is all of them. Blocks
// depend on the shape of a sample alone, so a sample's result does not depend on its batch.
#include <math.h>

#include "proa/base/dispatch.h"
#include "proa/gen/attrs/norm.h"
#include "proa/kernels/norm/channel_map.h"
#include "proa/simd/gemm/pack.h"
#include "proa/simd/tuning.h"

namespace proa::PROA_ISA {
namespace {

/// How images are split into blocks.
struct Cut {
  int64_t batch, channels, inner;  // elements of a channel
  int64_t groups, wide;            // channels of a group
  int64_t block, blocks;           // groups of a block, blocks of a sample

  Cut(const View& x, int64_t groups_)
      : batch(x.shape[0]), channels(x.shape[1]), inner(1), groups(groups_) {
    for (int d = 2; d < x.rank; ++d) inner *= x.shape[d];
    wide = channels / groups;
    const int64_t fit = kGroupNormBlock / (wide * inner + 1);
    const bool neighbours = channels == 1 || x.stride[1] == 1;
    block = neighbours || fit > groups ? groups : fit > 1 ? fit : 1;
    blocks = (groups + block - 1) / block;
  }
  int64_t count() const { return batch * blocks; }
  int64_t elements() const { return block * wide * inner; }
};

/// Groups [group, group + groups) of one sample, and its channels from `channel` on.
struct Block {
  int64_t sample, group, groups, channel, channels;
  Block(const Cut& cut, int64_t i)
      : sample(i / cut.blocks),
        group(i % cut.blocks * cut.block),
        groups(cut.groups - group < cut.block ? cut.groups - group : cut.block),
        channel(group * cut.wide),
        channels(groups * cut.wide) {}
};

Columns columns_of(const View& v, const Block& b) {
  View part = v;
  part.shape[0] = 1;
  part.shape[1] = b.channels;
  part.data = v.as<uint8_t>() + (b.sample * v.stride[0] + b.channel * v.stride[1]) *
                                    static_cast<int64_t>(size_of(v.dtype));
  return channels_of(part);
}

/// The block's channels of a vector over all channels.
void read_channels(const View& v, const Block& b, void* to) {
  const int64_t at = b.channel * v.stride[0] * static_cast<int64_t>(size_of(v.dtype));
  widen(v.as<uint8_t>() + at, v.dtype, v.stride[0], b.channels, to);
}

/// The block's groups of an array (samples, groups).
uint8_t* statistics_of(const View& v, const Block& b) {
  return v.as<uint8_t>() +
         (b.sample * v.stride[0] + b.group * v.stride[1]) * static_cast<int64_t>(size_of(v.dtype));
}

/// Runs body(call, block, its number) over all blocks: side by side, or each on all threads.
template <class F>
void for_blocks(const Call& c, const Cut& cut, F body) {
  Call around = c, inside = c;
  (cut.count() < kGroupNormBlocks ? around : inside).parallel = nullptr;
  const int64_t grain = 1 + kGroupNormBlock / (2 * cut.elements() + 1);
  parallel_for(around, cut.count(), grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) body(inside, Block(cut, i), i);
  });
}

/// Numbers in the scratch of a block: the map's, one vector more, and what the sums need.
template <class C>
int64_t block_numbers(const View& x, const Cut& cut) {
  const Columns first = columns_of(x, Block(cut, 0));
  const int64_t sums = static_cast<int64_t>(column_sums_scratch(first) / sizeof(C));
  return ((kFactors + 1) * first.n + sums + 15) / 16 * 16;
}

template <class C>
struct Moments {
  C mean, rstd;
};
/// Those of a group, from the moments of its channels.
template <class C>
Moments<C> join(const C* mean, const C* variance, int64_t wide, double epsilon) {
  C sum = 0, square = 0;
  for (int64_t j = 0; j < wide; ++j) sum += mean[j];
  const C center = sum / static_cast<C>(wide);
  for (int64_t j = 0; j < wide; ++j)
    square += variance[j] + (mean[j] - center) * (mean[j] - center);
  const double average = static_cast<double>(square) / static_cast<double>(wide);
  return {center, static_cast<C>(1.0 / ::sqrt(average + epsilon))};
}

template <class C>
void normalise(const Call& c, int64_t groups, double epsilon) {
  const View &x = c.in[0], &mean = c.out[1], &rstd = c.out[2];
  const Cut cut(x, groups);
  const int64_t numbers = block_numbers<C>(x, cut);
  for_blocks(c, cut, [&](const Call& call, const Block& b, int64_t i) {
    const Columns from = columns_of(x, b);
    const Factors<C> f(static_cast<C*>(c.scratch) + i * numbers, from.n);
    column_moments(call, from, f.k + 2 * from.n, f.center, f.b);
    read_channels(c.in[1], b, f.a);
    read_channels(c.in[2], b, f.k);
    for (int64_t g = 0; g < b.groups; ++g) {
      const int64_t j = g * cut.wide;
      const Moments<C> m = join(f.center + j, f.b + j, cut.wide, epsilon);
      const int64_t size = static_cast<int64_t>(size_of(x.dtype));
      narrow(&m.mean, mean.dtype, 1, 1, statistics_of(mean, b) + g * mean.stride[1] * size);
      narrow(&m.rstd, rstd.dtype, 1, 1, statistics_of(rstd, b) + g * rstd.stride[1] * size);
      for (int64_t k = j; k < j + cut.wide; ++k) {
        f.center[k] = m.mean;
        f.a[k] *= m.rstd;
      }
    }
    map_channels(call, from, nullptr, columns_of(c.out[0], b), f.center, from.n);
  });
}

/// mean and rstd of the block's groups, spread to its channels.
template <class C>
void take_moments(const Call& call, const Columns& x, const Cut& cut, const Block& b,
                  double epsilon, void* rest, C* mean, C* rstd) {
  const bool rounded = size_of(x.dtype) == 2;  // as they were stored
  const View &means = call.in[2], &inverses = call.in[3];
  if (rounded) {
    column_moments(call, x, rest, mean, rstd);
  } else {
    widen(statistics_of(means, b), means.dtype, means.stride[1], b.groups, mean);
    widen(statistics_of(inverses, b), inverses.dtype, inverses.stride[1], b.groups, rstd);
  }
  for (int64_t g = b.groups - 1; g >= 0; --g) {
    const int64_t j = g * cut.wide;
    const Moments<C> m =
        rounded ? join(mean + j, rstd + j, cut.wide, epsilon) : Moments<C>{mean[g], rstd[g]};
    for (int64_t k = j; k < j + cut.wide; ++k) {
      mean[k] = m.mean;
      rstd[k] = m.rstd;
    }
  }
}

// With m elements in a group, sums over it of s = scale * dy and d = scale * dy * (x - mean), and
// r = rstd: dx = r * (scale * dy - s / m - (x - mean) * r**2 * d / m); dscale and dbias are sums
// over the samples of the channels' sums of dy * (x - mean) * r and dy.
template <class C>
void gradient(const Call& c, int64_t groups, double epsilon) {
  const View& x = c.in[1];
  const Cut cut(x, groups);
  const int64_t numbers = block_numbers<C>(x, cut), all = cut.batch * cut.channels;
  C *const scales = static_cast<C*>(c.scratch), *const biases = scales + all;
  C* const memory = scales + (2 * all + 15) / 16 * 16;
  for_blocks(c, cut, [&](const Call& call, const Block& b, int64_t i) {
    const Columns from = columns_of(x, b), dy = columns_of(c.in[0], b);
    const Factors<C> f(memory + i * numbers, from.n);
    C *const rstd = f.k + from.n, *const rest = rstd + from.n;
    C* const dot = scales + b.sample * cut.channels + b.channel;
    C* const sum = biases + b.sample * cut.channels + b.channel;
    take_moments(call, from, cut, b, epsilon, rest, f.center, rstd);
    column_products(call, from, f.center, dy, rest, sum, dot);
    read_channels(c.in[4], b, f.b);
    const C share = C{1} / static_cast<C>(cut.wide * cut.inner);
    for (int64_t g = 0; g < b.groups; ++g) {
      const int64_t begin = g * cut.wide, end = begin + cut.wide;
      const C r = rstd[begin];
      C s = 0, d = 0;
      for (int64_t k = begin; k < end; ++k) {
        s += f.b[k] * sum[k];
        d += f.b[k] * dot[k];
      }
      for (int64_t k = begin; k < end; ++k) {
        f.a[k] = -r * r * r * d * share;
        f.b[k] *= r;
        f.k[k] = -r * s * share;
        dot[k] *= r;
      }
    }
    map_channels(call, from, &dy, columns_of(c.out[0], b), f.center, from.n);
  });
  const C* const parts[2] = {scales, biases};
  for (int o = 0; o < 2; ++o) {
    const View& out = c.out[1 + o];
    const int64_t step = out.stride[0] * static_cast<int64_t>(size_of(out.dtype));
    for (int64_t k = 0; k < cut.channels; ++k) {
      C total = 0;
      for (int64_t n = 0; n < cut.batch; ++n) total += parts[o][n * cut.channels + k];
      narrow(&total, out.dtype, 1, 1, out.as<uint8_t>() + k * step);
    }
  }
}

size_t scratch_of(const View& x, int64_t groups, int64_t vectors) {
  const Cut cut(x, groups);
  const int64_t own = (vectors * cut.batch * cut.channels + 15) / 16 * 16;
  return is_double(x.dtype)
             ? static_cast<size_t>(own + cut.count() * block_numbers<double>(x, cut)) * 8
             : static_cast<size_t>(own + cut.count() * block_numbers<float>(x, cut)) * 4;
}

}  // namespace

Status group_norm(const Call& c) {
  const auto& a = c.attr<GroupNormAttrs>();
  if (is_double(c.in[0].dtype))
    normalise<double>(c, a.groups, a.epsilon);
  else
    normalise<float>(c, a.groups, a.epsilon);
  return Status::kOk;
}
size_t group_norm_scratch(const Call& c) {
  return scratch_of(c.in[0], c.attr<GroupNormAttrs>().groups, 0);
}

Status group_norm_grad(const Call& c) {
  const auto& a = c.attr<GroupNormGradAttrs>();
  if (is_double(c.in[1].dtype))
    gradient<double>(c, a.groups, a.epsilon);
  else
    gradient<float>(c, a.groups, a.epsilon);
  return Status::kOk;
}
size_t group_norm_grad_scratch(const Call& c) {
  return scratch_of(c.in[1], c.attr<GroupNormGradAttrs>().groups, 2);
}

}  // namespace proa::PROA_ISA
