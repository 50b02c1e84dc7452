#pragma once
// Task sizes: the minimum work of a task of parallel_for. What is smaller runs on the calling
// thread. They are the same on every CPU: the bits of split sums follow from kReduceTask.
//
// Chosen by `nox -s bench -- --suite tasks families conv --threads 2`. On a Zen 4 (EPYC, AVX-512,
// two cores, 24 November 2026) two tasks on two threads take this share of their time on one:
// products 0.57, exp and add 0.61, softmax 0.61, sums 0.67, a copy of transposed elements 0.54;
// Winograd of 64 channels at 14x14 0.84, at 28x28 0.93. On a Granite Rapids (Xeon, AVX-512, two
// cores, 28 November 2026, the suite `tasks` alone), likewise: logsumexp 0.60 to 0.73, products of
// integers 0.53, random numbers 0.60 to 0.71, the backward pass of prod 0.57, recurrences of 4096
// elements 0.89, of 16384 0.57, depthwise 3x3 convolution of 32 channels at 28x28 0.99 (one task;
// 1.24 with tasks of 1 << 16 multiply-adds), at 56x56 0.73. Still too small there: int8 depthwise
// of 64 channels at 28x28 1.13, batch norm of 4x32x32x32 1.17.
#include <stdint.h>

namespace proa {

// Multiply-adds:
constexpr int64_t kGemmTaskMacs = 1 << 19;           // matrix products, convolution by them,
constexpr int64_t kSmallMTaskMacs = 1 << 18;         // products of few rows, batches of matrices,
constexpr int64_t kWinogradTaskMacs = 1 << 17;       // one transform of Winograd convolution,
constexpr int64_t kDepthwiseTaskMacs = 1 << 18;      // depthwise convolution,
constexpr int64_t kInt8DepthwiseTaskMacs = 1 << 17;  // the same of int8,
constexpr int64_t kIntegerTaskMacs = 1 << 16;        // products of integers.
// Elements:
constexpr int64_t kElementTask = 1 << 14;    // elementwise loops, look-ups, scans, random numbers,
constexpr int64_t kRowTask = 1 << 13;        // rows of softmax and layer norm,
constexpr int64_t kLogSumExpTask = 1 << 12;  // rows and columns of logsumexp,
constexpr int64_t kCopyTask = 1 << 15;       // copies, pooling, quantization,
constexpr int64_t kReduceTask = 1 << 15;     // reductions,
constexpr int64_t kScalarTask = 1 << 10;     // what is computed an element at a time,
constexpr int64_t kRecurrentTask = 1 << 11;  // gates of a step of recurrent layers.
// Bytes:
constexpr int64_t kCopyTaskBytes = 1 << 16;  // rows copied into padded memory.

}  // namespace proa
