#include "kernel/emitted_source.h"

#include <fmt/core.h>

#include "kernel/kernel_check.h"
#include "trainium/nki/emitter.h"
#include "trainium/reference/errors.h"
#include "trainium/reference/python.h"

namespace neuronmm::apps {
namespace {

// Returns the command that emits the same file again.
std::string command_of(const KernelSettings& s, const nki::Release& release) {
  std::string command =
      fmt::format("neuronmm emit {} --shape {}", s.kernel->name, shape_sizes(*s.kernel, s.shape));
  if (!s.kernel->tiling.empty()) command += " --tiling " + tiling_text(s.tiling);
  command += fmt::format(" --dtype {} --accumulate {}", dtype_text(s.options.dtype),
                         dtype_text(s.options.accumulate));
  if (s.options.left == kernels::Layout::kNatural) command += " --left natural";
  if (s.cores > 1) command += fmt::format(" --cores {}", s.cores);
  return command + fmt::format(" --device {} --sdk {}", s.device.name, release.sdk);
}

// Returns what the emitted file says in addition to its instructions: its origin, what it computes,
// and what its numbers mean.
nki::Description describe(const KernelSettings& s, const nki::Release& release) {
  const reference::Python reference = reference::python(*s.kernel, s.options);
  nki::Description description{
      .summary = std::string(s.kernel->description),
      .provenance = "Emitted by: " + command_of(s, release),
      .reference = reference.expression,
      .functions = {reference.functions.begin(), reference.functions.end()},
      .dimensions = {},
      .operands = {},
      .blocks = {},
      .sbuf_bytes_per_partition = s.limits.sbuf_bytes_per_partition_usable,
      .release = release,
      .cores = s.cores};
  // An operand may lie along the rest that pivots leave of a dimension. Such a rest gets a name,
  // too.
  std::string letters(s.kernel->dimensions);
  for (const kernels::OperandDescription& operand : s.kernel->operands) {
    for (const char letter : {operand.layout.rows, operand.layout.columns}) {
      if (letter != '1' && letters.find(letter) == letters.npos) letters += letter;
    }
  }
  for (const char letter : letters) {
    description.dimensions.push_back(
        {kernels::dimension_name(letter), kernels::dimension_of(s.shape, letter)});
  }
  for (const kernels::OperandDescription& operand : s.kernel->operands) {
    const kernels::MatrixLayout layout = layout_of(*s.kernel, operand, s.options);
    description.operands.push_back(
        {.name = std::string(operand.name),
         .dimensions = {kernels::dimension_name(layout.rows),
                        kernels::dimension_name(layout.columns)},
         .contraction = kernels::dimension_name(kernels::contraction_of(layout.rows)),
         .values = operand.kind == kernels::OperandKind::kExperts ? "E" : ""});
  }
  for (const kernels::TilingParameter& parameter : s.kernel->tiling) {
    description.blocks.push_back({parameter.name, s.tiling[parameter.name], parameter.meaning});
  }
  if (s.cores > 1) description.blocks.push_back({"CM", 0, "rows of one core"});
  for (const kernels::DerivedStep& step : s.kernel->steps) {
    description.blocks.push_back({step.name, 0, step.meaning});
  }
  return description;
}

}  // namespace

Result<std::string> emitted_source(const KernelSettings& settings, const nki::Release& release,
                                   std::optional<nki::Driver> driver) {
  const nki::Description description = describe(settings, release);
  NMM_ASSIGN(std::string source, nki::emit(settings.program, description));
  if (driver) {
    source +=
        nki::emit_driver(settings.program, description, *driver, reference::tolerance(settings));
  }
  return source;
}

}  // namespace neuronmm::apps
