// What the machine can do at most on one thread: multiply-adds from registers, and streams from
// memory. Built by peak_rates.py with -O3 -march=native -ffp-contract=fast; every function returns
// units per second.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#if defined(__AVX512VNNI__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
#define BYTES 64
#elif defined(__AVX2__)
#define BYTES 32
#else
#define BYTES 16
#endif
typedef float Vector __attribute__((vector_size(BYTES)));
#define SUMS 12

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// Floating-point operations in float.
double peak_f32(void) {
  const int steps = 1 << 17;
  double best = 0;
  for (int repeat = 0; repeat < 20; ++repeat) {
    Vector sum[SUMS], factor, term;
    for (int j = 0; j < (int)(BYTES / sizeof(float)); ++j) factor[j] = 0.999f, term[j] = 1e-3f;
    for (int i = 0; i < SUMS; ++i) sum[i] = term * (float)i;  // equal sums would become one
    const double start = now();
    for (int s = 0; s < steps; ++s)
#pragma GCC unroll 12
      for (int i = 0; i < SUMS; ++i) sum[i] = sum[i] * factor + term;
    const double seconds = now() - start;
    volatile float sink = 0;
    for (int i = 0; i < SUMS; ++i) sink += sum[i][0];
    const double rate = 2.0 * SUMS * (BYTES / sizeof(float)) * steps / seconds;
    best = rate > best ? rate : best;
  }
  return best;
}

// Integer operations on int8 with sums in int32; 0 where there is no such instruction.
double peak_int8(void) {
#if defined(__AVX512VNNI__)
  const int steps = 1 << 17;
  double best = 0;
  for (int repeat = 0; repeat < 20; ++repeat) {
    __m512i sum[SUMS];
    __m512i left = _mm512_set1_epi32((int)now()), right = _mm512_set1_epi32(repeat);
    for (int i = 0; i < SUMS; ++i) sum[i] = _mm512_set1_epi32(i);
    const double start = now();
    for (int s = 0; s < steps; ++s)
#pragma GCC unroll 12
      for (int i = 0; i < SUMS; ++i)  // the intrinsic would have GCC copy every sum
        __asm__("vpdpbusd %2, %1, %0" : "+v"(sum[i]) : "v"(left), "v"(right));
    const double seconds = now() - start;
    volatile int sink = 0;
    for (int i = 0; i < SUMS; ++i) sink += _mm512_cvtsi512_si32(sum[i]);
    const double rate = 2.0 * SUMS * 64 * steps / seconds;
    best = rate > best ? rate : best;
  }
  return best;
#else
  return 0;
#endif
}

// Bytes of the triad a = b + s * c over arrays beyond any cache (McCalpin, STREAM): two read and
// one written for each element.
double peak_memory(void) {
  const int64_t n = 1 << 25;
  float* a = malloc((size_t)n * sizeof(float));
  float* b = malloc((size_t)n * sizeof(float));
  float* c = malloc((size_t)n * sizeof(float));
  double best = 0;
  if (a != NULL && b != NULL && c != NULL) {
    memset(a, 0, (size_t)n * sizeof(float));
    for (int64_t i = 0; i < n; ++i) b[i] = (float)i, c[i] = 1.0f;
    for (int repeat = 0; repeat < 5; ++repeat) {
      const double start = now();
      for (int64_t i = 0; i < n; ++i) a[i] = b[i] + 3.0f * c[i];
      const double rate = 3.0 * (double)n * sizeof(float) / (now() - start);
      best = rate > best && a[n / 2] > 0 ? rate : best;
    }
  }
  free(a);
  free(b);
  free(c);
  return best;
}

// Bytes read of an array beyond any cache.
double peak_read(void) {
  const int64_t n = 1 << 25, width = BYTES / (int64_t)sizeof(float);
  Vector* a = aligned_alloc(BYTES, (size_t)n * sizeof(float));
  if (a == NULL) return 0;
  memset(a, 0, (size_t)n * sizeof(float));
  double best = 0;
  for (int repeat = 0; repeat < 5; ++repeat) {
    Vector sum[4] = {{0}, {0}, {0}, {0}};
    const double start = now();
    for (int64_t i = 0; i < n / width; i += 4)
      for (int k = 0; k < 4; ++k) sum[k] += a[i + k];
    const double seconds = now() - start;
    volatile float sink = 0;
    for (int k = 0; k < 4; ++k) sink += sum[k][0];
    const double rate = (double)n * sizeof(float) / seconds;
    best = rate > best ? rate : best;
  }
  free(a);
  return best;
}
