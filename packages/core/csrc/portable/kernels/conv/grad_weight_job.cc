#include "proa/kernels/conv/grad_weight_job.h"

#include "proa/gen/attrs/conv.h"
#include "proa/kernels/conv/pixel_pairs.h"
#include "proa/simd/gemm/gemm.h"
#include "proa/simd/tuning.h"

namespace proa::PROA_ISA {
namespace {

void set_layouts(GradWeightJob* j) {
  const Convolution& c = j->c;
  const bool few = c.channels.in < 16, pairs = multiplies_bf16_pairs(j->dy.dtype);
  const bool contiguous = c.window.dilation_w == 1 && c.x.shape[1] == c.channels.in;
  j->joined = few && contiguous && pairs && product_micro_kernel(j->dy.dtype, pairs).takes_rows();
  j->direct = few && !j->joined;
  j->pairs = pairs && (!j->direct || c.output.width % 2 == 0);
  j->x_shape = few ? padded_shape(c) : unpadded_shape(c.x);
  j->x_shape.pixel = 0;
  j->dy_shape = {0, 0, c.output.height, c.output.width};
  // Tiles read an even number of rows, and whole vectors.
  j->x_here = !few && is_usable_in_place(c.x, j->x_shape);
  j->dy_here = is_usable_in_place(j->dy, j->dy_shape) &&
               (!j->direct || c.channels.out % micro_kernel(j->dy.dtype).lanes == 0);
  if (j->pairs) {  // as pixels are read, their channels need not be pairs too
    j->x_here = !few && c.x.stride[1] == 1;
    if (!few) j->x_shape.pixel = (c.x.shape[1] + 1) / 2 * 2;
    const View& dy = j->dy;
    j->dy_here =
        dy.stride[1] == 1 &&
        (!j->by_rows() || is_flat(*j, {nullptr, dy.stride[0], dy.stride[2], dy.stride[3]}));
    j->dy_shape.pixel = (j->dy.shape[1] + 1) / 2 * 2;
  }
  j->run = contiguous ? c.window.kernel_w * c.channels.in : c.channels.in;
}

void set_blocks(GradWeightJob* j) {
  const Micro& micro = j->micro();
  j->height =
      micro.height(ceil_div(j->c.channels.out, max(ceil_div(j->c.channels.out, micro.rows), 1)));
  j->rows = ceil_div(j->c.channels.out, j->height);
  j->width = kTileVecs * j->lanes;
  j->cols = ceil_div(j->window, j->width);
  const int64_t tiles = max(j->rows * j->cols, 1);
  const bool shared = tiles >= kGradWeightTasks && !j->direct;
  j->parts = shared ? 1 : max(min(kGradWeightTasks, j->lines()), 1);
  const int64_t pixels = max(ceil_div(j->lines(), j->parts) * j->c.output.width, 1);
  const int64_t fit = kGradWeightPanel / (j->width * j->size) * (j->pairs ? 2 : 1);
  j->steps = ceil_div(pixels, ceil_div(pixels, fit));
  if (j->pairs) j->steps = round_up(j->steps, j->by_rows() ? kPixelsOfRow : 2);
  const int64_t x = j->steps * j->c.window.stride_h * j->c.window.stride_w * j->c.channels.in;
  j->taken = max(caches().grad_weight_block / ((j->block() + x) * j->size), 1);
  j->taken = min(j->taken, ceil_div(pixels, j->steps));
}

}  // namespace

GradWeightJob grad_weight_job(const Call& call) {
  const auto& a = call.attr<Conv2dGradWeightAttrs>();
  GradWeightJob j = {};
  j.dy = call.in[1];
  j.c = forward_convolution(call.in[0], call.out[0], j.dy, a);
  j.c.kernels.dtype = j.dy.dtype;
  set_layouts(&j);
  const Micro& micro = j.micro();
  j.size = micro.size;
  j.lanes = micro.lanes;
  j.window = j.c.window.taps() * j.c.channels.in;
  j.columns = gemm_columns(micro, j.direct ? j.c.channels.out : j.window);
  set_blocks(&j);
  const View& dw = call.out[0];
  j.straight = j.parts == 1 && j.c.window.taps() == 1 && dw.stride[1] == 1 && !j.direct &&
               (dw.dtype == DType::kF32 || is_double(dw.dtype)) && j.lines() * j.c.output.width > 0;
  return j;
}

}  // namespace proa::PROA_ISA
