#pragma once
// How far ahead of their use weights are asked for.

#include <cstdint>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace neuronmm::cpu {

// With many rows computing is the limit, and asking for the weights 4 KiB ahead hides their latency
// (measured on Zen 4: bf16, M = 8: 87 -> 103 GFLOP/s of 118 per core).
inline constexpr int64_t kPrefetchWords = 1024;

// With few rows memory is. On Zen 4 the out-of-order window already runs far ahead, and prefetching
// costs (int8, M = 4 and 6: slower in each of 4 pairs of runs). Zen 5's faster products wait
// without it: int8, K 2048, N 8192, two cores: M = 4 .313 -> .268 ms, 8 .390 -> .292, 16 .584 ->
// .461. Other CPUs were not measured.
inline bool few_rows_gain_by_prefetching() {
#if defined(__x86_64__)
  // The family, by CPUID leaf 1, is base + extended (AMD64 Architecture Programmer's Manual, volume
  // 3, appendix E.3.2); 1Ah is Zen 5.
  constexpr unsigned kZen5 = 0x1A;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__builtin_cpu_is("amd") || __get_cpuid(1, &a, &b, &c, &d) == 0) return false;
  return (a >> 8 & 0xF) + (a >> 20 & 0xFF) >= kZen5;
#else
  return false;
#endif
}

// 0: what is asked for is what is read at once, which costs nothing.
inline int64_t few_rows_prefetch_words() {
  static const int64_t words = few_rows_gain_by_prefetching() ? kPrefetchWords : 0;
  return words;
}

}  // namespace neuronmm::cpu
