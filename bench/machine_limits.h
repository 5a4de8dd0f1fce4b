#pragma once
// Measures this machine's limits when a benchmark starts, with all threads. The benchmark programs
// compare their results with them.

#include "cpu/buffer.h"

namespace neuronmm::bench {

// The limits of the machine.
struct MachineLimits {
  double fma_gflops = 0;  // fp32 fused multiply-adds on registers
  // Products of bf16 that are summed in fp32, by AMX or AVX512-BF16. Other CPUs have fma_gflops.
  double bf16_gflops = 0;
  // 8-bit multiply-adds on registers, by AMX, VNNI or AVX2. Other CPUs have 0.
  double int8_gops = 0;
  double read_gb_s = 0;  // reading memory that no cache holds
};

// Measures the limits. Each is a median over about 50 ms.
MachineLimits measure_machine_limits();

// Memory that is larger than the caches, in huge pages like packed weights. Reading it evicts
// everything else from the caches.
class CacheFlusher {
 public:
  CacheFlusher();
  void operator()() const;
  double gigabytes() const;

 private:
  int64_t count_;
  cpu::Buffer<uint32_t> words_;
};

}  // namespace neuronmm::bench
