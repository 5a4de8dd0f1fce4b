#include "kernel/kernel_settings.h"

#include <charconv>
#include <cmath>

#include <CLI/CLI.hpp>

#include "help.h"
#include "kernel/tuned.h"
#include "trainium/kernels/cores.h"
#include "trainium/reference/errors.h"
#include "trainium/simulator/residency.h"
#include "trainium/tuner/cache.h"

namespace neuronmm::apps {
namespace {

using kernels::Kernel;
using kernels::KernelShape;

// The most matmuls that are simulated. The simulator runs about 10^6 instructions per second, and a
// matmul tile comes with a few other instructions.
constexpr double kMostMatmuls = 1 << 24;
constexpr std::string_view kAuto = "auto";

Result<int64_t> parse_integer(std::string_view flag, std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range) return fail("{}: {} is too large", flag, text);
  if (error != std::errc() || end != text.data() + text.size()) {
    return fail("{}: expected a whole number, found '{}'", flag, text);
  }
  return value;
}

// Splits at commas and keeps empty parts, so that "1,,2" is refused instead of being read as "1,2".
std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t comma = text.find(',');
    parts.push_back(text.substr(0, comma));
    if (comma == text.npos) return parts;
    text.remove_prefix(comma + 1);
  }
}

// Parses --shape. The number of sizes is checked first.
Result<KernelShape> parse_shape(const Kernel& kernel, std::string_view text) {
  const std::vector<std::string_view> parts = split(text);
  if (parts.size() != kernel.dimensions.size()) {
    return fail("--shape {}: {} takes {}, found {} sizes", text, kernel.name, shape_syntax(kernel),
                parts.size());
  }
  KernelShape shape;
  for (size_t i = 0; i < parts.size(); ++i) {
    NMM_ASSIGN(dimension_of(shape, kernel.dimensions[i]), parse_integer("--shape", parts[i]));
  }
  return shape;
}

// Parses --tiling. Only its form is checked here; the names are compared with the kernel's later.
Result<kernels::TilingValues> parse_tiling(std::string_view text) {
  kernels::TilingValues values;
  if (text.empty()) return values;
  for (const std::string_view part : split(text)) {
    const size_t equals = part.find('=');
    if (equals == 0 || equals == part.npos) {
      return fail("--tiling: expected NAME=VALUE,..., found '{}'", part);
    }
    const std::string name(part.substr(0, equals));
    for (const auto& [before, value] : values) {
      if (before == name) return fail("--tiling: {} is given twice", name);
    }
    NMM_ASSIGN(const int64_t value, parse_integer("--tiling " + name, part.substr(equals + 1)));
    values.emplace_back(name, value);
  }
  return values;
}

// Refuses problems with too many instructions. The closed formulas use 64 bits, so a rough estimate
// refuses absurdly large shapes first.
Status check_work(const tuner::Problem& p, const kernels::Tiling& tiling) {
  constexpr double kTile = 128.0 * 128 * 512;
  double matmuls = reference::problem_flops(*p.kernel, p.shape) / 2 / kTile;
  if (matmuls <= kMostMatmuls) {
    matmuls = static_cast<double>(p.kernel->cost(p.shape, tiling, p.options).nc_matmuls);
  }
  if (matmuls <= kMostMatmuls) return {};
  return fail("--shape: {} would take {:.3g} nc_matmul instructions; at most {:.0f} are simulated",
              tuner::key_of(p), matmuls, kMostMatmuls);
}

Status check_cores(const tuner::Problem& p) {
  const auto most = static_cast<int64_t>(p.device.logical_core);
  if (p.cores <= most) return {};
  return fail("--cores: a launch on {} takes at most {} core{}, found {}", p.device.name, most,
              most == 1 ? "" : "s", p.cores);
}

}  // namespace

void add_kernel_flags(CLI::App* command, KernelFlags& flags) {
  command->add_option("KERNEL", flags.kernel, "Name of a kernel that `neuronmm kernels` lists")
      ->required()
      ->group(kInput);
  command->add_option("--shape", flags.shape, "Sizes M,K,r,N, or what `kernels KERNEL` names")
      ->type_name("SHAPE")
      ->required()
      ->group(kInput);
  command->add_option("--dtype", flags.dtype, "Type of all operands: bf16 or fp32")
      ->check(CLI::IsMember({"bf16", "fp32"}))
      ->type_name("TYPE")
      ->capture_default_str()
      ->group(kInput);
  command->add_option("--device", flags.device, "Simulate a core of trn1, trn2 or trn3")
      ->check(CLI::IsMember({"trn1", "trn2", "trn3"}))
      ->type_name("NAME")
      ->capture_default_str()
      ->group(kSpeed);
  command->add_option("--cores", flags.cores, "Use N cores in a launch; trn2 and trn3 allow 2")
      ->check(CLI::Range(1, 64))
      ->capture_default_str()
      ->group(kSpeed);
  command->add_option("--tiling", flags.tiling, "Use NAME=TILES,..., or auto for the tuned tiling")
      ->type_name("TILING")
      ->group(kSpeed);
  command->add_option("--cache", flags.cache, "Keep tuned tilings here")
      ->type_name("FILE")
      ->default_str("~/.cache/neuronmm")
      ->group(kRare);
  command->add_option("--left", flags.left, "Left operand: transposed or natural")
      ->check(CLI::IsMember({"transposed", "natural"}))
      ->type_name("LAYOUT")
      ->capture_default_str()
      ->group(kAdvanced);
  command
      ->add_option("--accumulate", flags.accumulate, "Add up blocks in fp32, or bf16 as published")
      ->check(CLI::IsMember({"fp32", "bf16"}))
      ->type_name("TYPE")
      ->capture_default_str()
      ->group(kAdvanced);
}

// Finds every mistake in the flags of a kernel before the tuner searches or the simulator runs.
Result<tuner::Problem> read_problem(const KernelFlags& flags) {
  const auto dtype = [](const std::string& name) {
    return name == "bf16" ? DType::kBF16 : DType::kF32;
  };
  tuner::Problem p;
  NMM_ASSIGN(p.kernel, kernels::find_kernel(flags.kernel));
  NMM_ASSIGN(p.shape, parse_shape(*p.kernel, flags.shape));
  NMM_ASSIGN(p.device, simulator::find_device(flags.device));
  p.cores = flags.cores;
  NMM_TRY(check_cores(p));
  NMM_ASSIGN(p.shape, kernels::share_of_core(p.shape, p.cores));
  p.device = simulator::with_shared_stack(p.device, p.cores);
  p.options.dtype = dtype(flags.dtype);
  p.options.accumulate = dtype(flags.accumulate);
  if (flags.left == "natural") p.options.left = kernels::Layout::kNatural;
  if (flags.tiling != kAuto) {
    NMM_ASSIGN(p.chosen, parse_tiling(flags.tiling));
  }
  NMM_ASSIGN(const kernels::Tiling tiling, kernels::tiling_of(*p.kernel, p.chosen));
  NMM_TRY(kernels::make_program(*p.kernel, p.shape, tiling, p.options));  // Refuses bad shapes.
  NMM_TRY(check_work(p, tiling));
  return p;
}

// The tiling is the kernel's default, fitted to SBUF, unless --tiling gives one. With `auto` it is
// the tuner's best.
Result<KernelSettings> read_settings(const KernelFlags& flags) {
  NMM_ASSIGN(const tuner::Problem problem, read_problem(flags));
  KernelSettings s;
  s.kernel = problem.kernel;
  s.shape = problem.shape;
  s.options = problem.options;
  s.device = problem.device;
  s.cores = problem.cores;
  s.limits = simulator::limits_of(s.device);
  s.tiling_given = !flags.tiling.empty();
  NMM_ASSIGN(s.tiling,
             kernels::fitting_tiling(*s.kernel, s.shape, s.options, problem.chosen, s.limits));
  if (flags.tiling == kAuto) {
    Progress progress(stderr);
    NMM_ASSIGN(const tuner::Outcome tuned, tune_with_cache(problem, 1, flags.cache, progress));
    s.tiling = tuned.best.front().tiling;
  }
  NMM_ASSIGN(s.program, kernels::make_program(*s.kernel, s.shape, s.tiling, s.options));
  return s;
}

Result<KernelSettings> settings_of_all_cores(const KernelSettings& settings) {
  KernelSettings all = settings;
  all.shape.M *= settings.cores;
  NMM_ASSIGN(all.program, kernels::make_program_on_cores(*all.kernel, all.shape, all.tiling,
                                                         all.options, all.cores));
  return all;
}

std::string shape_text(const KernelSettings& s) {
  std::string text;
  for (const char letter : s.kernel->dimensions) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", letter, dimension_of(s.shape, letter));
  }
  return text;
}

std::string tiling_text(const kernels::Tiling& tiling) {
  const std::string text = tuner::tiling_text(tiling);
  return text.empty() ? "none" : text;
}

std::string_view dtype_text(DType dtype) { return dtype == DType::kBF16 ? "bf16" : "fp32"; }

}  // namespace neuronmm::apps
