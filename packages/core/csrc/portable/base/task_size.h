#pragma once
// Task sizes: the minimum work of a task of parallel_for. What is smaller runs on the calling
// thread. They are the same on every CPU: the bits of split sums follow from kReduceTask.
//
// Measured on a Zen 4 (EPYC, AVX-512, two cores, 24 November 2026): two tasks on two threads take
// this share of their time on one. Products 0.57, exp and add 0.61, softmax 0.61, sums 0.67, a copy
// of transposed elements 0.54. Convolutions gain from more work on: depthwise 3x3 of 32 channels at
// 3 tasks 1.04, at 13 0.77; Winograd of 64 channels at 14x14 0.84, at 28x28 0.93.
#include <stdint.h>

namespace proa {

// Multiply-adds:
constexpr int64_t kGemmTaskMacs = 1 << 19;       // matrix products, convolution by them,
constexpr int64_t kSmallMTaskMacs = 1 << 18;     // products of few rows, batches of matrices,
constexpr int64_t kWinogradTaskMacs = 1 << 17;   // one transform of Winograd convolution,
constexpr int64_t kDepthwiseTaskMacs = 1 << 16;  // depthwise convolution.
// Elements:
constexpr int64_t kElementTask = 1 << 14;  // elementwise loops, look-ups, scans,
constexpr int64_t kRowTask = 1 << 13;      // rows of softmax and layer norm,
constexpr int64_t kCopyTask = 1 << 15;     // copies, pooling, quantization,
constexpr int64_t kReduceTask = 1 << 15;   // reductions.

}  // namespace proa
