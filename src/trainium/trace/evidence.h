#pragma once
// Says how well public measurements cover the cost of an instruction. The width of a prediction's
// band follows from the shares of the kernel's time that are charged to each kind (error_band.h).

#include <cstdint>
#include <string>
#include <string_view>

#include "trainium/trace/header.h"
#include "trainium/trace/pricing.h"

namespace neuronmm::trace {

enum class Evidence : uint8_t {
  kTransfer,        // A DMA whose rows have 512 bytes or more.
  kShortRows,       // A DMA with shorter rows.
  kTransposingDma,  // A DMA that transposes.
  kRunTimeAddress,  // A DMA whose place an index decides.
  kTensor,          // A matmul or transpose of bf16, fp16 or fp32.
  kElementwise,     // An instruction of Vector, Scalar or GpSimd that measured kernels contain.
  kUnmeasured       // Every other instruction.
};
inline constexpr size_t kEvidences = 7;

std::string_view evidence_name(Evidence evidence);
Evidence evidence_of(const Operation& operation, const Priced& priced);

// The part of a kernel's time that is charged to instructions of one kind.
struct ChargedTime {
  Evidence evidence = Evidence::kTransfer;
  std::string operation;  // The name of the call.
  double ns = 0;
};

}  // namespace neuronmm::trace
