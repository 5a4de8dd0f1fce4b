// `neuronmm kernels` lists the tile kernels, or describes one of them.

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "report_writer.h"
#include "trainium/kernels/registry.h"
#include "trainium/reference/python.h"

namespace neuronmm::apps {
namespace {

using kernels::Kernel;
using Json = nlohmann::ordered_json;

struct KernelsFlags {
  std::string kernel, json;
};

Json list_json() {
  Json list = Json::array();
  for (const Kernel& kernel : kernels::kernels()) {
    list.push_back({{"kernel", kernel.name},
                    {"shape", shape_syntax(kernel)},
                    {"description", kernel.description}});
  }
  return {{"kernels", list}};
}

std::string layout_text(const Kernel& kernel, const kernels::OperandDescription& operand) {
  const auto with = [&](kernels::Layout left) {
    return to_string(layout_of(kernel, operand, {.left = left}));
  };
  std::string usual = with(kernels::Layout::kTransposed);
  std::string natural = with(kernels::Layout::kNatural);
  if (usual == natural) return usual;
  return fmt::format("{}, or {} with a natural left operand", usual, natural);
}

Json kernel_json(const Kernel& kernel) {
  Json operands = Json::array(), tiling = Json::array();
  for (const kernels::OperandDescription& operand : kernel.operands) {
    operands.push_back({{"name", operand.name},
                        {"role", operand.role == tile::HbmRole::kInput ? "input" : "output"},
                        {"layout", layout_text(kernel, operand)}});
  }
  for (const kernels::TilingParameter& parameter : kernel.tiling) {
    tiling.push_back(
        {{"name", parameter.name}, {"default", parameter.value}, {"meaning", parameter.meaning}});
  }
  return {{"kernel", kernel.name},
          {"shape", shape_syntax(kernel)},
          {"description", kernel.description},
          {"operands", operands},
          {"tiling", tiling},
          {"hbm_bytes", kernel.hbm_bytes},
          {"flops", kernel.flops},
          {"nc_matmuls", kernel.nc_matmuls}};
}

void print_list(const ReportWriter& report) {
  report.print("{:<20}{:<15}{}\n", "kernel", "shape", "what it computes");
  for (const Kernel& kernel : kernels::kernels()) {
    report.print("{:<20}{:<15}{}\n", kernel.name, shape_syntax(kernel), kernel.description);
  }
  report.print("\n`neuronmm kernels NAME`: operands, tiling parameters, closed formulas.\n");
}

std::string_view role_text(tile::HbmRole role) {
  return role == tile::HbmRole::kInput ? "input" : "output";
}

void print_kernel(const ReportWriter& report, const Kernel& kernel) {
  report.print("{}: {}\n  --shape {}\n\n{:<12}{:<9}{}\n", kernel.name, kernel.description,
               shape_syntax(kernel), "operand", "role", "layout in HBM");
  for (const kernels::OperandDescription& operand : kernel.operands) {
    report.print("{:<12}{:<9}{}\n", operand.name, role_text(operand.role),
                 layout_text(kernel, operand));
  }
  report.print("\nin Python, with tokens as rows: {}\n",
               reference::python_by_rows(kernel).expression);
  report.print("\n{:<12}{:<9}{}\n", "tiling", "default", "meaning");
  for (const kernels::TilingParameter& parameter : kernel.tiling) {
    report.print("{:<12}{:<9}{}\n", parameter.name, parameter.value, parameter.meaning);
  }
  if (kernel.tiling.empty()) report.print("none\n");
  report.print("\n{:<12}{}\n{:<12}{}\n{:<12}{}\n", "HBM bytes", kernel.hbm_bytes, "FLOPs",
               kernel.flops, "nc_matmul", kernel.nc_matmuls);
  report.print(
      "  s: bytes per element. BM, BK, Br, BN: here in elements, tiles times tile size. A row\n"
      "  tile: the largest of 512, 384, 256, 128 rows that divides BM. P: passes over X, as many\n"
      "  as equal shares of the ranks, in whole blocks of U, need; one with contiguous loads.\n"
      "  Spills come on top.\n");
  if (kernel.experts) {
    report.print(
        "  E: the mixture's experts. A: those that a token chooses. D: the distinct experts that\n"
        "  the M tokens choose together, at least A and at most M·A.\n");
  }
}

Result<int> run_kernels(const KernelsFlags& flags) {
  NMM_ASSIGN(ReportWriter report, ReportWriter::open(flags.json));
  if (flags.kernel.empty()) {
    print_list(report);
    NMM_TRY(report.write_json(list_json()));
    return 0;
  }
  NMM_ASSIGN(const Kernel* kernel, kernels::find_kernel(flags.kernel));
  print_kernel(report, *kernel);
  NMM_TRY(report.write_json(kernel_json(*kernel)));
  return 0;
}

}  // namespace

void add_kernels(Program& program) {
  auto flags = std::make_shared<KernelsFlags>();
  CLI::App* command = program.add(CommandGroup::kKernels, "kernels",
                                  "Show kernels for Trainium: operands, parameters, formulas",
                                  {"neuronmm kernels", "neuronmm kernels xuv"});
  command->add_option("KERNEL", flags->kernel, "Show this kernel; without it, list all")
      ->group(kInput);
  add_json_option(command, flags->json, "the list");
  program.set_run(command, [flags] { return run_kernels(*flags); });
}

}  // namespace neuronmm::apps
