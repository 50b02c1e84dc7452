// Depthwise convolution of floats.
#include "proa/simd/conv/depthwise_blocks.h"

#include "proa/simd/conv/depthwise_blocks_body.h"

namespace proa::PROA_ISA {

bool depthwise_reads_bf16(const Convolution& /*c*/) { return false; }

void depthwise_blocks(const Convolution& c, const PaddedInput& input, const float* packed,
                      const float* bias, const GemmOutput& end, int64_t first, int64_t last) {
  if constexpr (kHasDepthwiseBlocks) {
    Job s = float_job(c, input, packed, bias, end);
    with_act(c.end.act, [&](auto act) {
      if (!finishes(c, DType::kF32)) return;
      s.finish = finish_lines<float, act.value>;
      s.clamps = act.value <= Act::kRelu6 && !c.end.is_scaled();
    });
    run<float>(s, first, last);
  }
}

}  // namespace proa::PROA_ISA
