#include "trainium/tile/counts.h"

#include <variant>

namespace neuronmm::tile {
namespace {

// Adds one DMA. HBM traffic is what leaves and enters HBM, so a copy inside HBM counts on both
// sides.
void add_dma(Counts& counts, const Program& program, const DmaCopy& dma,
             std::span<const int64_t> loop_values) {
  ++counts.dma_copies;
  const Buffer &src = program.buffer(dma.src.buffer), &dst = program.buffer(dma.dst.buffer);
  const int64_t elements = evaluate(dma.src, loop_values).elements();
  if (src.memory == Memory::kHbm) counts.hbm_read_bytes += elements * dtype_size_bytes(src.dtype);
  if (dst.memory == Memory::kHbm) counts.hbm_write_bytes += elements * dtype_size_bytes(dst.dtype);
}

}  // namespace

void Counts::add(const Program& program, const Instruction& instruction,
                 std::span<const int64_t> loop_values) {
  ++instructions;
  if (const auto* dma = std::get_if<DmaCopy>(&instruction.operation)) {
    add_dma(*this, program, *dma, loop_values);
  } else if (const auto* matmul = std::get_if<NcMatmul>(&instruction.operation)) {
    ++nc_matmuls;
    const Region stationary = evaluate(matmul->stationary, loop_values);
    const Region moving = evaluate(matmul->moving, loop_values);
    // An element of the stationary tile takes two FLOPs, a product and a sum, for every moving
    // column. Transposes are not FLOPs of the model and are counted separately.
    matmul_flops += 2 * stationary.elements() * moving.free_elements();
  } else if (std::holds_alternative<NcTranspose>(instruction.operation)) {
    ++nc_transposes;
  }
}

Counts count(const Program& program) {
  Counts counts;
  for (Walker walker(program); walker.next();) {
    if (walker.instruction()) counts.add(program, *walker.instruction(), walker.loop_values());
  }
  return counts;
}

}  // namespace neuronmm::tile
