// neuronmm kernels: the list of tile kernels, or all about one.

#include <fmt/core.h>

#include "commands.h"
#include "trainium/kernels/registry.h"
#include "trainium/reference/python.h"

namespace neuronmm::apps {
namespace {

using kernels::Kernel;

void print_list() {
  fmt::print("{:<20}{:<11}{}\n", "kernel", "shape", "what it computes");
  for (const Kernel& kernel : kernels::kernels()) {
    fmt::print("{:<20}{:<11}{}\n", kernel.name, kernel.has_rank ? "M,K,r,N" : "M,K,N",
               kernel.description);
  }
  fmt::print("\n`neuronmm kernels NAME`: operands, tiling parameters, closed formulas.\n");
}

std::string_view role_text(tile::HbmRole role) {
  return role == tile::HbmRole::kInput ? "input" : "output";
}

std::string layout_text(const Kernel& kernel, const kernels::OperandDescription& operand) {
  const auto with = [&](kernels::Layout left) {
    return to_string(layout_of(kernel, operand, {.left = left}));
  };
  const std::string usual = with(kernels::Layout::kTransposed);
  const std::string natural = with(kernels::Layout::kNatural);
  if (usual == natural) return usual;
  return fmt::format("{}, or {} with a natural left operand", usual, natural);
}

void print_kernel(const Kernel& kernel) {
  fmt::print("{}: {}\n  --shape {}\n\n{:<12}{:<9}{}\n", kernel.name, kernel.description,
             kernel.has_rank ? "M,K,r,N" : "M,K,N", "operand", "role", "layout in HBM");
  for (const kernels::OperandDescription& operand : kernel.operands) {
    fmt::print("{:<12}{:<9}{}\n", operand.name, role_text(operand.role),
               layout_text(kernel, operand));
  }
  fmt::print("\nin Python, with tokens as rows: {}\n",
             reference::python_by_rows(kernel).expression);
  fmt::print("\n{:<12}{:<9}{}\n", "tiling", "default", "meaning");
  for (const kernels::TilingParameter& parameter : kernel.tiling) {
    fmt::print("{:<12}{:<9}{}\n", parameter.name, parameter.value, parameter.meaning);
  }
  if (kernel.tiling.empty()) fmt::print("none\n");
  fmt::print("\n{:<12}{}\n{:<12}{}\n{:<12}{}\n", "HBM bytes", kernel.hbm_bytes, "FLOPs",
             kernel.flops, "nc_matmul", kernel.nc_matmuls);
  fmt::print(
      "  s: bytes per element. BM, BK, Br, BN: here in elements, tiles times tile size. A row\n"
      "  tile: the largest of 512, 384, 256, 128 rows that divides BM. P: passes over X, as many\n"
      "  as equal shares of the ranks, in whole blocks of U, need. Spills come on top.\n");
}

Result<int> run_kernels(const std::string& name) {
  if (name.empty()) {
    print_list();
    return 0;
  }
  NMM_ASSIGN(const Kernel* kernel, kernels::find_kernel(name));
  print_kernel(*kernel);
  return 0;
}

}  // namespace

void add_kernels(Program& program) {
  auto name = std::make_shared<std::string>();
  CLI::App* command =
      program.add("kernels", "Trainium kernels: operands, tiling parameters, formulas");
  command->add_option("name", *name, "one kernel");
  program.set_run(command, [name] { return run_kernels(*name); });
}

}  // namespace neuronmm::apps
