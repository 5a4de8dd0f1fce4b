// neuronmm compress: a model folder with low-rank MLP weights.

#include "compress/compress.h"

#include <filesystem>

#include <fmt/core.h>

#include "commands.h"
#include "compress/allocate.h"
#include "io/text_file.h"

namespace neuronmm::apps {
namespace {

namespace fs = std::filesystem;

struct Flags {
  compress::CompressRequest request;
  std::string align = "nearest", method = "whitened", only = "gate,up,down";
  std::string weights = "original", allocate = "uniform";
  std::vector<std::string> calibration;
  int64_t calibration_tokens = compress::kDefaultCalibrationTokens;
  bool dry_run = false;
  DeviceOptions device;
};

// CLI11's Range includes both ends; a ratio of 0 or 1 leaves all or nothing.
std::string check_ratio(const std::string& text) {
  char* end = nullptr;
  const double ratio = std::strtod(text.c_str(), &end);
  if (!text.empty() && *end == '\0' && ratio > 0.0 && ratio < 1.0) return {};
  return fmt::format("expected a number between 0 and 1, found \"{}\"", text);
}

std::string check_only(const std::string& text) {
  const auto set = compress::parse_matrix_set(text);
  return set.ok() ? std::string() : set.error().message;
}

std::string in_megabytes(int64_t bytes) {
  return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
}

void print_total(int64_t parameters_before, int64_t parameters_after, int64_t bytes_before,
                 int64_t bytes_after) {
  const double share =
      static_cast<double>(parameters_after) / static_cast<double>(parameters_before);
  fmt::print("whole model: {} -> {} parameters ({:.4f}), {} -> {} bytes ({} -> {})\n",
             parameters_before, parameters_after, share, bytes_before, bytes_after,
             in_megabytes(bytes_before), in_megabytes(bytes_after));
}

void print_plan(const compress::Plan& plan) {
  const size_t layers = plan.matrices.size() / compress::kMlpMatrices.size();
  fmt::print("layers 0-{}, each:\n", layers - 1);  // one rule for all: they are alike
  fmt::print("{:<7} {:>7} {:>7} {:>7} {:>8} {:>14} {:>14}\n", "matrix", "K", "rank", "N", "kept",
             "bytes before", "bytes after");
  for (const compress::MlpMatrix which : compress::kMlpMatrices) {
    const compress::MatrixPlan& matrix = plan.of(0, which);
    const std::string rank = matrix.rank == 0 ? "dense" : std::to_string(matrix.rank);
    fmt::print("{:<7} {:>7} {:>7} {:>7} {:>8.4f} {:>14} {:>14}\n", compress::matrix_name(which),
               matrix.in_features, rank, matrix.out_features, matrix.kept_share,
               matrix.bytes_before, matrix.bytes_after);
  }
  print_total(plan.parameters_before, plan.parameters_after, plan.bytes_before, plan.bytes_after);
}

void print_summary(const compress::CompressSummary& summary) {
  fmt::print("{:>5} {:<7} {:>7} {:>7} {:>7} {:>8} {:>12}\n", "layer", "matrix", "K", "rank", "N",
             "kept", "energy lost");
  auto report = summary.matrices.begin();  // of the matrices that have factors, in this order
  for (const compress::MatrixPlan& matrix : summary.plan.matrices) {
    const bool dense = matrix.rank == 0;
    fmt::print("{:>5} {:<7} {:>7} {:>7} {:>7} {:>8.4f} {:>12}\n", matrix.layer,
               compress::matrix_name(matrix.matrix), matrix.in_features,
               dense ? "dense" : std::to_string(matrix.rank), matrix.out_features,
               matrix.kept_share, dense ? "0" : fmt::format("{:.4e}", report++->energy_lost));
  }
  if (summary.calibration_tokens > 0) {
    fmt::print("calibration: {} tokens\n", summary.calibration_tokens);
  }
  print_total(summary.parameters_before, summary.parameters_after, summary.bytes_before,
              summary.bytes_after);
}

Result<int> dry_run(const compress::CompressRequest& request) {
  std::error_code ignored;
  const fs::path config_json =
      fs::is_directory(request.model, ignored) ? request.model / "config.json" : request.model;
  NMM_ASSIGN(const auto config, io::ModelConfig::load(config_json));
  NMM_ASSIGN(const auto plan, compress::make_plan(config, request.rule, request.only,
                                                  request.weights, request.model.string()));
  print_plan(plan);
  if (request.allocate == compress::Allocate::kSensitivity) {
    NMM_TRY(compress::check_allocation(plan, request.rule.block, request.model.string()));
    fmt::print(
        "--allocate sensitivity measures which matrices get more and which get less; the total "
        "above is not exceeded\n");
  }
  return 0;
}

// What the flags mean is worked out before any file is read.
Result<int> run(Flags& flags) {
  compress::CompressRequest& request = flags.request;
  NMM_ASSIGN(request.rule.align, compress::parse_align(flags.align));
  NMM_ASSIGN(request.method, compress::parse_method(flags.method));
  NMM_ASSIGN(request.only, compress::parse_matrix_set(flags.only));
  if (flags.weights == compress::weights_name(compress::WeightFormat::kInt8)) {
    request.weights = compress::WeightFormat::kInt8;
  }
  if (flags.allocate == compress::allocate_name(compress::Allocate::kSensitivity)) {
    request.allocate = compress::Allocate::kSensitivity;
  }
  if (flags.dry_run) return dry_run(request);
  if (request.out.empty()) return fail("-o OUT_DIR is missing (only --dry-run needs none)");
  if (!flags.calibration.empty()) {
    request.calibration = {{}, flags.calibration_tokens};
    for (const std::string& name : flags.calibration) {
      NMM_ASSIGN(auto text, io::read_user_text(name));
      request.calibration->texts.push_back({name, std::move(text)});
    }
  }
  NMM_ASSIGN(const auto backend, make_backend(flags.device));
  Progress progress(stderr);
  NMM_ASSIGN(const auto summary, compress::compress(request, *backend, progress));
  print_summary(summary);
  fmt::print("written to {}\n", request.out.string());
  return 0;
}

void add_calibration_flags(CLI::App* command, Flags& flags) {
  command
      ->add_option("--calibration", flags.calibration,
                   "text that the model runs on; - is standard input. Several are sampled "
                   "evenly, so that the model stays good at all of them")
      ->allow_extra_args(false);
  command
      ->add_option(
          "--calibration-tokens", flags.calibration_tokens,
          "tokens to use in all, as many of each text, evenly spread over it, in sequences "
          "of at most 2048")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40))
      ->capture_default_str();
  command->add_option("--gram", flags.request.gram,
                      "Gram matrices that --save-gram wrote, in place of --calibration");
  command->add_option("--save-gram", flags.request.save_gram,
                      "also save the Gram matrices of the calibration text to this file");
}

void add_rank_flags(CLI::App* command, Flags& flags) {
  command
      ->add_option("--ratio", flags.request.rule.ratio,
                   "share of parameters to remove from each MLP matrix, between 0 and 1")
      ->required()
      ->check(check_ratio, "", "between 0 and 1");
  command->add_option("--block", flags.request.rule.block, "ranks are multiples of this")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20))
      ->capture_default_str();
  command->add_option("--align", flags.align, "to which multiple: nearest, floor or ceil")
      ->check(CLI::IsMember({"nearest", "floor", "ceil"}))
      ->capture_default_str();
  command
      ->add_option("--allocate", flags.allocate,
                   "uniform: the same rank for all; sensitivity: at the same parameters, more for "
                   "the matrices whose truncation, measured on the calibration text, hurts more, "
                   "and less for others, down to three quarters; the most sensitive stay dense")
      ->check(CLI::IsMember({"uniform", "sensitivity"}))
      ->capture_default_str();
  command->add_option("--only", flags.only, "which matrices, e.g. gate,up; others stay dense")
      ->check(check_only, "", "gate,up,down")
      ->capture_default_str();
}

}  // namespace

void add_compress(Program& program) {
  CLI::App* command = program.add(
      "compress", "Replace MLP weights by low-rank factors, whitened by a calibration text");
  const auto flags = std::make_shared<Flags>();
  command
      ->add_option("model", flags->request.model,
                   "model folder (for --dry-run its config.json is enough)")
      ->required();
  command->add_option("-o,--out", flags->request.out, "the new model folder");
  command
      ->add_option("--method", flags->method,
                   "whitened: least output error; error-aware: whitened, and every layer makes up "
                   "for what those before it lost (better, slower calibration); svd: least weight "
                   "error (no text needed)")
      ->check(CLI::IsMember({"whitened", "error-aware", "svd"}))
      ->capture_default_str();
  command
      ->add_option("--weights", flags->weights,
                   "of all linear layers, compressed or not: original (their dtype) or int8")
      ->check(CLI::IsMember({"original", "int8"}))
      ->capture_default_str();
  add_rank_flags(command, *flags);
  add_calibration_flags(command, *flags);
  command->add_flag("--dry-run", flags->dry_run, "print ranks and sizes, write nothing");
  command->add_flag("--force", flags->request.force, "replace an existing output folder");
  add_device_options(command, flags->device);
  command->parse_complete_callback([flags] {
    if (flags->allocate == "uniform" || !flags->calibration.empty() || flags->dry_run) return;
    throw CLI::ValidationError("--allocate sensitivity",
                               "needs --calibration TEXT, on which it measures what every matrix "
                               "is worth");
  });
  program.set_run(command, [flags] { return run(*flags); });
}

}  // namespace neuronmm::apps
