// GFLOP/s of matmul for common shapes on the calling thread, against the machine's measured peak of
// fused multiply-adds. See bench_timer.h for how times are taken.
#include <stdio.h>

#include "bench_timer.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace {

#if defined(__x86_64__)
#define PROA_STEP(r) "vfmadd231ps %%zmm30, %%zmm31, %%zmm" #r "\n"
__attribute__((target("avx512f"))) double peak_of_fma() {
  double best = 0;
  for (int repeat = 0; repeat < 20; ++repeat) {
    constexpr int64_t kSteps = 1 << 18;
    const double start = proa_bench::now();
    for (int64_t i = 0; i < kSteps; ++i)
      __asm__ volatile(PROA_STEP(0) PROA_STEP(1) PROA_STEP(2) PROA_STEP(3) PROA_STEP(4) PROA_STEP(5)
                           PROA_STEP(6) PROA_STEP(7) PROA_STEP(8) PROA_STEP(9) PROA_STEP(10)
                               PROA_STEP(11)::
                                   : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7",
                                     "xmm8", "xmm9", "xmm10", "xmm11");
    const double rate = 2.0 * 16 * 12 * kSteps / (proa_bench::now() - start) * 1e-9;
    best = rate > best ? rate : best;
  }
  return best;
}
#endif

void bench(int64_t m, int64_t k, int64_t n) {
  using proa_test::Array;
  Array<float> x({m, k}, proa::DType::kF32), y({k, n}, proa::DType::kF32),
      z({m, n}, proa::DType::kF32);
  x.fill(1, 1000, 1e-3);
  y.fill(2, 1000, 1e-3);
  const double work = 2.0 * m * k * n;
  printf("%5d x %5d x %5d", static_cast<int>(m), static_cast<int>(k), static_cast<int>(n));
  for (bool prepack : {false, true}) {
    const proa::View in[2] = {x.view, y.view};
    const double seconds = proa_bench::seconds_of("matmul", in, 2, &z.view, nullptr, prepack);
    printf("  %s %6.1f", prepack ? "packed" : "plain", work / seconds * 1e-9);
  }
  printf("\n");
}

}  // namespace

int main() {
  proa_bench::choose_caches();
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) printf("peak %.1f GFLOP/s\n", peak_of_fma());
#endif
  proa_test::for_each_isa([](int isa) {
    printf("isa %d\n", isa);
    for (int64_t n : {64, 128, 256, 512, 1024}) bench(n, n, n);
    bench(64, 400, 120);
    for (int64_t n : {1, 2, 4, 8}) bench(n, 768, 3072);
    bench(1, 4096, 4096);
    bench(16, 768, 3072);
    bench(128, 768, 3072);
  });
  return 0;
}
