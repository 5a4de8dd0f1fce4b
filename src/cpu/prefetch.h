#pragma once
// How far before their use the kernels prefetch weights, which depends on the CPU and the number of
// rows.

#include <cstdint>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace neuronmm::cpu {

// With many rows computing is the limit, and prefetching weights 4 KiB ahead hides their latency.
// Measured on Zen 4: bf16 with 8 rows becomes a fifth faster.
inline constexpr int64_t kPrefetchWords = 1024;

// With few rows memory is the limit. Measured: on Zen 4 int8 with 4 and 6 rows becomes slower by
// prefetching, because the out-of-order window already runs far ahead. On Zen 5, whose products are
// faster, 4 to 16 rows take a seventh to a quarter less time (docs/measurements/serving.md).
// Other CPUs were not measured.
inline bool few_rows_gain_by_prefetching() {
#if defined(__x86_64__)
  // Documented: the family in CPUID leaf 1 is base + extended (AMD64 Architecture Programmer's
  // Manual, volume 3, appendix E.3.2); 1Ah is Zen 5.
  constexpr unsigned kZen5 = 0x1A;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__builtin_cpu_is("amd") || __get_cpuid(1, &a, &b, &c, &d) == 0) return false;
  return (a >> 8 & 0xF) + (a >> 20 & 0xFF) >= kZen5;
#else
  return false;
#endif
}

// Returns how far few rows prefetch. With 0 they prefetch what they read at once, which costs
// nothing.
inline int64_t few_rows_prefetch_words() {
  static const int64_t words = few_rows_gain_by_prefetching() ? kPrefetchWords : 0;
  return words;
}

}  // namespace neuronmm::cpu
