#include "trainium/tile/accesses.h"

namespace neuronmm::tile {
namespace {

// Lists the operands with the destination first. Messages and printed programs show these names,
// which are NKI's.
struct Operands {
  std::vector<Operand> operator()(const DmaCopy& op) const {
    std::vector<Operand> all = dst_and_src(op.dst, op.src);
    for (const Access& index : op.src.index) all.push_back({&index, false, "index"});
    return all;
  }
  std::vector<Operand> operator()(const NcMatmul& op) const {
    return {{&op.dst, true, "dst"},
            {&op.stationary, false, "stationary"},
            {&op.moving, false, "moving"}};
  }
  std::vector<Operand> operator()(const NcTranspose& op) const {
    return dst_and_src(op.dst, op.src);
  }
  std::vector<Operand> operator()(const TensorCopy& op) const {
    return dst_and_src(op.dst, op.src);
  }
  std::vector<Operand> operator()(const TensorTensor& op) const {
    return {{&op.dst, true, "dst"}, {&op.a, false, "a"}, {&op.b, false, "b"}};
  }
  std::vector<Operand> operator()(const ScaleAdd& op) const {
    return {{&op.dst, true, "dst"},
            {&op.src, false, "src"},
            {&op.scale, false, "scale"},
            {&op.addend, false, "addend"}};
  }
  std::vector<Operand> operator()(const Activate& op) const { return dst_and_src(op.dst, op.src); }
  std::vector<Operand> operator()(const Memset& op) const { return {{&op.dst, true, "dst"}}; }

 private:
  static std::vector<Operand> dst_and_src(const Access& dst, const Access& src) {
    return {{&dst, true, "dst"}, {&src, false, "src"}};
  }
};

// Returns the names that nki.isa uses.
struct OperationName {
  std::string_view operator()(const DmaCopy& op) const {
    return op.transpose ? "dma_transpose" : "dma_copy";
  }
  std::string_view operator()(const NcMatmul&) const { return "nc_matmul"; }
  std::string_view operator()(const NcTranspose&) const { return "nc_transpose"; }
  std::string_view operator()(const TensorCopy&) const { return "tensor_copy"; }
  std::string_view operator()(const TensorTensor&) const { return "tensor_tensor"; }
  std::string_view operator()(const ScaleAdd&) const { return "scalar_tensor_tensor"; }
  std::string_view operator()(const Activate&) const { return "activation"; }
  std::string_view operator()(const Memset&) const { return "memset"; }
};

}  // namespace

std::vector<Operand> operands_of(const Operation& operation) {
  return std::visit(Operands(), operation);
}

std::string_view operation_name(const Operation& operation) {
  return std::visit(OperationName(), operation);
}

}  // namespace neuronmm::tile
