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
#include <stddef.h>
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

// Chains of elementwise steps (exec/chain.cc). With half and twice these values on a Zen 3 (EPYC,
// AVX2, one thread, 29 November 2026, other programs running) steps of 2 and 7 ops, arrays of 160
// KiB to 1 MiB: kChainBlockBytes 0.99 to 1.26 and 0.94 to 1.22, kMinChainBytes 0.93 to 1.09 and
// 0.79 to 1.09.
constexpr size_t kChainBlockBytes = 32 << 10;  // of the widest array in a block
constexpr size_t kMinChainBytes = 256 << 10;   // smaller arrays stay in cache anyway
static_assert(kMinChainBytes > kChainBlockBytes, "a chain has more than one block");

// Elements of arguments and results from which on eager mode runs a kernel without Python's lock.
// On the same machine sums of 4000 to 6000 elements take 1.13 to 1.19 of the time with half this
// value, those of 8000 and 12000 0.93 to 1.02 with twice.
constexpr int64_t kUnlockElements = 20000;

}  // namespace proa
