#include "trainium/simulator/schedule.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <variant>

#include "trainium/tile/walk.h"

namespace neuronmm::simulator {

namespace {

using tile::Engine;
using tile::Memory;

// Fills in the fields that depend on the kind of instruction: the engines that may run it and its
// cost there. There is one overload per alternative of tile::Operation, for std::visit.
class Preparer {
 public:
  Preparer(const tile::Program& program, const std::vector<BufferGrid>& grids,
           const DeviceSpec& device, Prepared& out)
      : program_(program), grids_(grids), device_(device), out_(out) {}

  // A DMA has one or both of its sides in HBM. The on-chip side decides which DMA engines take
  // part. The HBM side decides how long the contiguous chunks are.
  void operator()(const tile::DmaCopy& op) const {
    out_.kind = Kind::kDma;
    out_.transposes = op.transpose;
    out_.loads = memory(op.src) == Memory::kHbm;
    out_.stores = memory(op.dst) == Memory::kHbm;
    out_.spans_partitions = !(out_.loads && out_.stores);
    out_.on_chip = memory(op.dst) == Memory::kHbm ? &op.src : &op.dst;
    out_.in_hbm = out_.loads ? &op.src : &op.dst;
    out_.hbm_element_bytes = dtype_size_bytes(program_.buffer(out_.in_hbm->buffer).dtype);
    for (const tile::Access& index : op.src.index) {
      out_.index.emplace_back(program_, index, grids_[static_cast<size_t>(index.buffer)]);
    }
  }
  void operator()(const tile::NcMatmul& op) const {
    out_.kind = Kind::kMatmul;
    const DType dtype = operand_kind(op.moving).dtype;
    out_.fp32 = dtype == DType::kF32;
    out_.tensor = matmul_cost(device_, dtype);
  }
  void operator()(const tile::NcTranspose& op) const {
    out_.kind = Kind::kTranspose;
    const DType dtype = operand_kind(op.src).dtype;
    out_.fp32 = dtype == DType::kF32;
    out_.tensor = transpose_cost(device_, dtype);
  }
  void operator()(const tile::TensorCopy& op) const {
    out_.kind = Kind::kCopy;
    const OperandKind dst = operand_kind(op.dst), src = operand_kind(op.src);
    out_.on_vector = op.engine == Engine::kAny || op.engine == Engine::kVector;
    out_.on_scalar = op.engine == Engine::kAny || op.engine == Engine::kScalar;
    out_.on_gpsimd = op.engine == Engine::kGpSimd;
    out_.vector = copy_cost(device_, Unit::kVector, dst, src);
    out_.scalar = copy_cost(device_, Unit::kScalar, dst, src);
    out_.gpsimd = copy_cost(device_, Unit::kGpSimd, dst, src);
  }
  // Only Vector is modelled, because these instructions run there unless a kernel asks for GpSimd.
  // Scalar takes one tensor operand only.
  void operator()(const tile::TensorTensor& op) const {
    out_.kind = Kind::kBinary;
    out_.on_vector = true;
    out_.vector =
        binary_cost(device_, operand_kind(op.dst), operand_kind(op.a), operand_kind(op.b));
  }
  // Runs on Vector, as binary operations do. The factor per partition takes no time of its own.
  void operator()(const tile::ScaleAdd& op) const {
    out_.kind = Kind::kBinary;
    out_.on_vector = true;
    out_.vector =
        binary_cost(device_, operand_kind(op.dst), operand_kind(op.src), operand_kind(op.addend));
  }
  // Only Scalar has the function tables.
  void operator()(const tile::Activate& op) const {
    out_.kind = Kind::kActivate;
    if (op.function != tile::Activation::kCopy) out_.table = static_cast<int32_t>(op.function);
    out_.on_scalar = true;
    out_.scalar = activation_cost(device_);
  }
  // GpSimd fills SBUF, so that Vector is free for evictions. GpSimd cannot reach PSUM.
  void operator()(const tile::Memset& op) const {
    out_.kind = Kind::kMemset;
    out_.on_vector = memory(op.dst) == Memory::kPsum;
    out_.on_gpsimd = !out_.on_vector;
    out_.vector = memset_cost(device_, Unit::kVector, operand_kind(op.dst), op.value == 0);
    out_.gpsimd = memset_cost(device_, Unit::kGpSimd, operand_kind(op.dst), op.value == 0);
  }

 private:
  Memory memory(const tile::Access& access) const { return operand_kind(access).memory; }
  OperandKind operand_kind(const tile::Access& access) const {
    const tile::Buffer& buffer = program_.buffer(access.buffer);
    return {buffer.memory, buffer.dtype};
  }

  const tile::Program& program_;
  const std::vector<BufferGrid>& grids_;
  const DeviceSpec& device_;
  Prepared& out_;
};

}  // namespace

Prepared prepare(const tile::Program& program, const tile::Instruction& instruction,
                 const std::vector<BufferGrid>& grids, const DeviceSpec& device) {
  Prepared out;
  out.instruction = &instruction;
  for_each_access(instruction.operation, [&](const tile::Access& access, bool writes) {
    const tile::Buffer& buffer = program.buffer(access.buffer);
    out.operands.emplace_back(program, access, grids[static_cast<size_t>(access.buffer)]);
    out.element_bytes.push_back(dtype_size_bytes(buffer.dtype));
    out.in_psum.push_back(buffer.memory == Memory::kPsum);
    out.touches_psum = out.touches_psum || buffer.memory == Memory::kPsum;
    if (writes) out.target = &buffer.name;
  });
  std::visit(Preparer(program, grids, device, out), instruction.operation);
  return out;
}

namespace {

// Returns how many elements of the region follow one another in the buffer, counting dimensions
// from `first` on. An outer dimension counts if its next element begins where the inner dimensions
// end.
int64_t contiguous_elements(const tile::Region& region, const tile::Buffer& buffer, size_t first) {
  const auto strides = buffer.strides();
  int64_t run = 1;
  for (size_t d = region.dimensions; d-- > first;) {
    if (region.size[d] == 1) continue;
    if (strides[d] != run) break;
    run *= region.size[d];
  }
  return run;
}

uint64_t mix(uint64_t hash, int64_t number) {
  hash = (hash ^ static_cast<uint64_t>(number)) * 0x9e3779b97f4a7c15;
  return (hash ^ hash >> 29) | 1;
}

int64_t elements(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

// Returns a number that is not 0 and the same for loads of the same region only.
uint64_t content_of(tile::BufferId buffer, const tile::Region& region) {
  uint64_t content = static_cast<uint64_t>(buffer) + 1;
  for (size_t d = 0; d < region.dimensions; ++d) {
    content = mix(mix(content, region.start[d]), region.size[d]);
  }
  return content;
}

}  // namespace

Transfer make_transfer(const tile::Program& program, const Prepared& p,
                       std::span<const int64_t> loop_values) {
  const tile::Region chip = tile::evaluate(*p.on_chip, loop_values);
  const tile::Region hbm = tile::evaluate(*p.in_hbm, loop_values);
  // A copy from HBM to HBM has no partitions of its own. It is spread over all 128, which keeps
  // every DMA engine busy.
  Transfer transfer{.first_partition = p.spans_partitions ? chip.start[0] : 0,
                    .partitions = p.spans_partitions ? chip.partitions() : 128,
                    .transposes = p.transposes};
  const int64_t row = p.spans_partitions ? chip.free_elements() : (chip.elements() + 127) / 128;
  transfer.bytes_per_partition = row * p.hbm_element_bytes;
  // A descriptor moves elements that are contiguous on both sides. A partition's elements are one
  // row.
  const int64_t contiguous = std::min(
      contiguous_elements(hbm, program.buffer(p.in_hbm->buffer), 0),
      contiguous_elements(chip, program.buffer(p.on_chip->buffer), p.spans_partitions ? 1 : 0));
  // The rate of a transposing transfer (dma_transpose_rate) covers its scattered reads. A charge
  // for short chunks would count them twice.
  transfer.chunk_bytes = (p.transposes ? row : std::min(row, contiguous)) * p.hbm_element_bytes;
  transfer.described = p.transposes;
  transfer.software = !p.index.empty();
  const tile::Buffer& target = program.buffer(p.on_chip->buffer);
  if (p.loads && p.spans_partitions && chip.elements() == elements(target.shape)) {
    transfer.content = content_of(p.in_hbm->buffer, hbm);
  }
  return transfer;
}

}  // namespace neuronmm::simulator
