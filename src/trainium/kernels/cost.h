#pragma once
// This file declares the closed formulas of the kernels: bytes over HBM, FLOPs and nc_matmul
// instructions from the shape and the tiling alone. Kernel descriptions (description.h) refer to
// them. Tests compare the results with the counts of a walk through the program.

#include <cstdint>

#include "trainium/kernels/kernel.h"

namespace neuronmm::kernels {

// The total work of a kernel.
struct Cost {
  int64_t hbm_read_bytes = 0, hbm_write_bytes = 0;
  int64_t flops = 0;
  int64_t nc_matmuls = 0;

  int64_t hbm_bytes() const { return hbm_read_bytes + hbm_write_bytes; }
};
Cost operator+(const Cost& a, const Cost& b);

Cost matmul_tiled_cost(const KernelShape&, const Tiling&, const KernelOptions&);
Cost matmul_hoisted_cost(const KernelShape&, const Tiling&, const KernelOptions&);
Cost matmul_blocked_cost(const KernelShape&, const Tiling&, const KernelOptions&);
Cost matmul_optimized_cost(const KernelShape&, const Tiling&, const KernelOptions&);
Cost matmul_fixed_order_cost(const KernelShape&, const Tiling&, const KernelOptions&);
Cost xuv_cost(const KernelShape&, const Tiling&, const KernelOptions&);
Cost xuv_transposed_cost(const KernelShape&, const Tiling&, const KernelOptions&);
Cost xuv_sequential_cost(const KernelShape&, const Tiling&, const KernelOptions&);
Cost xuv_naive_cost(const KernelShape&, const Tiling&, const KernelOptions&);
Cost xuv_pivoted_cost(const KernelShape&, const Tiling&, const KernelOptions&);
Cost xuv_pivoted_out_cost(const KernelShape&, const Tiling&, const KernelOptions&);
Cost mlp_up_cost(const KernelShape&, const Tiling&, const KernelOptions&);
Cost dense_mlp_cost(const KernelShape&, const Tiling&, const KernelOptions&);
Cost narrow_mlp_cost(const KernelShape&, const Tiling&, const KernelOptions&);
Cost narrow_mlp_in_cost(const KernelShape&, const Tiling&, const KernelOptions&);
Cost narrow_mlp_out_cost(const KernelShape&, const Tiling&, const KernelOptions&);
Cost pivoted_mlp_cost(const KernelShape&, const Tiling&, const KernelOptions&);
Cost pivoted_mlp_in_cost(const KernelShape&, const Tiling&, const KernelOptions&);
Cost dense_moe_mlp_cost(const KernelShape&, const Tiling&, const KernelOptions&);
Cost moe_mlp_cost(const KernelShape&, const Tiling&, const KernelOptions&);
Cost mlp_cost(const KernelShape&, const Tiling&, const KernelOptions&);

}  // namespace neuronmm::kernels
