#include "proa/kernels/conv/grad_weight_job.h"

#include "proa/gen/attrs/conv.h"
#include "proa/kernels/conv/pixel_pairs.h"
#include "proa/simd/gemm/gemm.h"
#include "proa/simd/tuning.h"

namespace proa::PROA_ISA {
namespace {

void set_layouts(GradWeightJob* j) {
  const Convolution& c = j->c;
  PixelSource &x = j->x, &dy = j->dy;
  const bool few = c.channels.in < 16, pairs = multiplies_bf16_pairs(dy.view.dtype);
  const bool contiguous = c.window.dilation_w == 1 && c.x.shape[1] == c.channels.in;
  PatchLayout& patch = j->patch;
  patch.joined =
      few && contiguous && pairs && product_micro_kernel(dy.view.dtype, pairs).takes_rows();
  patch.direct = few && !patch.joined;
  patch.size = c.window.taps() * c.channels.in;
  patch.run = contiguous ? c.window.kernel_w * c.channels.in : c.channels.in;
  j->unit.pairs = pairs && (!patch.direct || c.output.width % 2 == 0);
  x.shape = few ? padded_shape(c) : unpadded_shape(c.x);
  x.shape.pixel = 0;
  dy.shape = {0, 0, c.output.height, c.output.width};
  // Tiles read an even number of rows, and whole vectors.
  x.in_place = !few && is_usable_in_place(c.x, x.shape);
  dy.in_place = is_usable_in_place(dy.view, dy.shape) &&
                (!patch.direct || c.channels.out % micro_kernel(dy.view.dtype).lanes == 0);
  if (j->unit.pairs) {  // as pixels are read, their channels need not be pairs too
    x.in_place = !few && c.x.stride[1] == 1;
    if (!few) x.shape.pixel = (c.x.shape[1] + 1) / 2 * 2;
    const View& v = dy.view;
    dy.in_place = v.stride[1] == 1 &&
                  (!j->by_rows() || is_flat(*j, {nullptr, v.stride[0], v.stride[2], v.stride[3]}));
    dy.shape.pixel = (v.shape[1] + 1) / 2 * 2;
  }
}

void set_blocks(GradWeightJob* j) {
  const Convolution& c = j->c;
  const Micro& micro = j->micro();
  const PanelUnit& unit = j->unit;
  PixelBlocks& b = j->blocks;
  b.height = micro.height(ceil_div(c.channels.out, max(ceil_div(c.channels.out, micro.rows), 1)));
  b.rows = ceil_div(c.channels.out, b.height);
  b.width = kTileVecs * unit.lanes;
  b.cols = ceil_div(j->patch.size, b.width);
  const int64_t tiles = max(b.rows * b.cols, 1);
  const bool shared = tiles >= kGradWeightTasks && !j->patch.direct;
  b.parts = shared ? 1 : max(min(kGradWeightTasks, c.lines()), 1);
  const int64_t pixels = max(ceil_div(c.lines(), b.parts) * c.output.width, 1);
  const int64_t fit = kGradWeightPanel / (b.width * unit.size) * (unit.pairs ? 2 : 1);
  b.steps = ceil_div(pixels, ceil_div(pixels, fit));
  if (unit.pairs) b.steps = round_up(b.steps, j->by_rows() ? kPixelsOfRow : 2);
  const int64_t x = b.steps * c.window.stride_h * c.window.stride_w * c.channels.in;
  b.taken = max(caches().grad_weight_block / ((j->block() + x) * unit.size), 1);
  b.taken = min(b.taken, ceil_div(pixels, b.steps));
}

}  // namespace

GradWeightJob grad_weight_job(const Call& call) {
  const auto& a = call.attr<Conv2dGradWeightAttrs>();
  GradWeightJob j = {};
  j.dy.view = call.in[1];
  j.c = forward_convolution(call.in[0], call.out[0], j.dy.view, a);
  j.c.kernels.dtype = j.dy.view.dtype;
  j.x.view = j.c.x;
  set_layouts(&j);
  const Micro& micro = j.micro();
  j.unit.size = micro.size;
  j.unit.lanes = micro.lanes;
  j.sums.columns = gemm_columns(micro, j.patch.direct ? j.c.channels.out : j.patch.size);
  set_blocks(&j);
  const View& dw = call.out[0];
  j.sums.straight = j.blocks.parts == 1 && j.c.window.taps() == 1 && dw.stride[1] == 1 &&
                    !j.patch.direct && (dw.dtype == DType::kF32 || is_double(dw.dtype)) &&
                    j.c.pixels() > 0;
  return j;
}

}  // namespace proa::PROA_ISA
