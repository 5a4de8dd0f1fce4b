#pragma once
// Measures this machine's limits when a benchmark starts, with all threads. The benchmark programs
// compare their results with them.

#include "cpu/buffer.h"

namespace neuronmm::bench {

// The limits of the machine.
struct MachineLimits {
  double fma_gflops = 0;  // fp32 fused multiply-adds on registers
  double bf16_gflops =
      0;  // products of bf16, summed in fp32 (AMX, AVX512-BF16; else those of fp32)
  double int8_gops =
      0;  // 8-bit multiply-adds on registers, by AMX, VNNI or as AVX2 has them; else 0
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
