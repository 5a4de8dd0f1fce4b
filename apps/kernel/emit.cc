// neuronmm emit: a kernel, for one shape and tiling, as NKI source.

#include <cmath>
#include <filesystem>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "flags.h"
#include "kernel/kernel_check.h"
#include "output_file.h"
#include "report_writer.h"
#include "trainium/nki/driver.h"
#include "trainium/nki/emitter.h"

namespace neuronmm::apps {
namespace {

using Json = nlohmann::ordered_json;

struct EmitFlags {
  KernelFlags kernel;
  std::string output, json;
  bool driver = false, force = false;
};

// The command that emits the same again.
std::string command_of(const KernelSettings& s) {
  const kernels::KernelShape& p = s.shape;
  std::string command = fmt::format("neuronmm emit {} --shape {},{}", s.kernel->name, p.M, p.K);
  if (s.kernel->has_rank) command += fmt::format(",{}", p.r);
  command += fmt::format(",{}", p.N);
  if (!s.kernel->tiling.empty()) command += " --tiling " + tiling_text(s.tiling);
  command += fmt::format(" --dtype {} --accumulate {}", dtype_text(s.options.dtype),
                         dtype_text(s.options.accumulate));
  if (s.options.left == kernels::Layout::kNatural) command += " --left natural";
  return command + fmt::format(" --device {}", s.device.name);
}

// The registry's expression has tokens as rows; the operands lie as they lie.
std::string reference_of(const KernelSettings& s) {
  std::string expression(s.kernel->reference);
  if (is_transposed(s, s.kernel->operands.front())) {
    for (size_t at = 0; (at = expression.find("x @", at)) != expression.npos; at += 3) {
      expression.replace(at, 1, "x.T");
    }
  }
  const bool transposed = is_transposed(s, s.kernel->operands.back());
  return transposed ? fmt::format("({}).T", expression) : expression;
}

// Five times the relative rms error that independent roundings, of 0.41 units rms each, would add
// up to: one to the operands' dtype per product and two for a gate; for a sum that is kept in bf16
// up to one per 128 rows of the contraction, of partial sums that have half the final variance on
// average; and the fp32 sums themselves.
double tolerance_of(const KernelSettings& s) {
  double roundings = 2, sums = 0;
  for (const kernels::OperandDescription& operand : s.kernel->operands) {
    if (operand.role != tile::HbmRole::kInput || operand.name == "x") continue;
    const auto contraction = static_cast<double>(operand_shape(s, operand)[0]);
    roundings += 1 + (s.options.accumulate == DType::kBF16 ? contraction / 256 : 0);
    sums += contraction;
  }
  const double unit = s.options.dtype == DType::kBF16 ? 0x1p-8 : 0x1p-24;
  return 5 * 0.41 * std::sqrt(roundings * unit * unit + sums * 0x1p-48);
}

nki::Description describe(const KernelSettings& s) {
  nki::Description description{
      .summary = std::string(s.kernel->description),
      .provenance = "Emitted by: " + command_of(s),
      .reference = reference_of(s),
      .dimensions = {},
      .operands = {},
      .blocks = {},
      .sbuf_bytes_per_partition = s.limits.sbuf_bytes_per_partition_usable};
  for (const char letter : std::string_view(s.kernel->has_rank ? "MKrN" : "MKN")) {
    description.dimensions.push_back(
        {std::string(1, letter), kernels::dimension_of(s.shape, letter)});
  }
  for (const kernels::OperandDescription& operand : s.kernel->operands) {
    const auto [rows, columns] = operand_dimensions(s, operand);
    description.operands.push_back(
        {std::string(operand.name), {std::string(1, rows), std::string(1, columns)}});
  }
  for (const kernels::TilingParameter& parameter : s.kernel->tiling) {
    description.blocks.push_back({parameter.name, s.tiling[parameter.name], parameter.meaning});
  }
  for (const char* prefix : {"", "up.", "down."}) {
    description.blocks.push_back({fmt::format("{}TM", prefix), 0, "rows that one matmul streams"});
    description.blocks.push_back({fmt::format("{}RP", prefix), 0, "ranks of one pass over X"});
  }
  return description;
}

Status check_fits(const KernelSettings& s) {
  NMM_ASSIGN(const tile::CheckReport report, check_program(s));
  if (report.fits()) return {};
  std::string message = fmt::format("{} with --tiling {} does not fit {}:", s.kernel->name,
                                    tiling_text(s.tiling), s.device.name);
  for (const std::string& reason : report.over_capacity) message += "\n  " + reason;
  std::string changes;
  for (const std::string& change : changes_that_fit(s)) {
    changes += fmt::format("{}{}", changes.empty() ? "" : ", or ", change);
  }
  if (!changes.empty()) message += "\n  it would with " + changes;
  return fail("{}", message);
}

Status check_output(const EmitFlags& flags) {
  std::error_code ignored;
  if (flags.force || !std::filesystem::exists(flags.output, ignored)) return {};
  return Error{flags.output + ": already exists", Error::Kind::kExists};
}

Result<int> run_emit(const EmitFlags& flags) {
  NMM_TRY(check_output(flags));
  NMM_ASSIGN(OutputFile output, OutputFile::open(flags.output));
  NMM_ASSIGN(ReportWriter report, ReportWriter::open(flags.json));
  NMM_ASSIGN(const KernelSettings settings, read_settings(flags.kernel));
  NMM_TRY(check_fits(settings));
  const nki::Description description = describe(settings);
  NMM_ASSIGN(std::string source, nki::emit(settings.program, description));
  if (flags.driver) {
    source += nki::emit_driver(settings.program, description, tolerance_of(settings));
  }
  NMM_TRY(output.write(source));
  NMM_TRY(report.write_json(Json{{"output", flags.output},
                                 {"kernel", settings.kernel->name},
                                 {"shape", shape_text(settings)},
                                 {"tiling", tiling_text(settings.tiling)},
                                 {"device", settings.device.name},
                                 {"driver", flags.driver}}));
  report.print("{}: {} for {}, tiling {}\n", flags.output, settings.kernel->name,
               shape_text(settings), tiling_text(settings.tiling));
  return 0;
}

}  // namespace

void add_emit(Program& program) {
  auto flags = std::make_shared<EmitFlags>();
  CLI::App* command =
      program.add(CommandGroup::kKernels, "emit", "Write a kernel as NKI source for Trainium");
  add_kernel_flags(command, flags->kernel);
  add_output_option(command, flags->output, "the Python file to write")->required();
  add_json_option(command, flags->json, "what was emitted");
  command->add_flag("--driver", flags->driver,
                    "add a main that runs it from torch on a device, checks and times it");
  command->add_flag("--force", flags->force, "replace the file if it exists");
  program.set_run(command, [flags] { return run_emit(*flags); });
}

}  // namespace neuronmm::apps
