// neuronmm compress: a model folder with low-rank MLP weights.

#include "compress/compress.h"

#include <cmath>
#include <filesystem>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "compress/allocate.h"
#include "eval/divergence.h"
#include "flags.h"
#include "io/text_file.h"
#include "message.h"
#include "model/metric_program.h"
#include "report_writer.h"

namespace neuronmm::apps {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

struct Flags {
  compress::CompressRequest request;
  std::string align = "nearest", method = "whitened", only = "gate,up,down";
  std::string weights = "original", allocate = "uniform", form = "uv", fit = "none";
  std::vector<std::string> calibration;
  int64_t calibration_tokens = compress::kDefaultCalibrationTokens;
  std::string json;
  bool dry_run = false, no_measure = false;
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

void print_total(const ReportWriter& writer, int64_t parameters_before, int64_t parameters_after,
                 int64_t bytes_before, int64_t bytes_after) {
  const double share =
      static_cast<double>(parameters_after) / static_cast<double>(parameters_before);
  writer.print("whole model: {} -> {} parameters ({:.4f}), {} -> {} bytes ({} -> {})\n",
               parameters_before, parameters_after, share, bytes_before, bytes_after,
               in_megabytes(bytes_before), in_megabytes(bytes_after));
}

void print_plan(const ReportWriter& writer, const compress::Plan& plan) {
  const size_t layers = plan.matrices.size() / compress::kMlpMatrices.size();
  writer.print("layers 0-{}, each:\n", layers - 1);  // one rule for all: they are alike
  writer.print("{:<7} {:>7} {:>7} {:>7} {:>8} {:>14} {:>14}\n", "matrix", "K", "rank", "N", "kept",
               "bytes before", "bytes after");
  for (const compress::MlpMatrix which : compress::kMlpMatrices) {
    const compress::MatrixPlan& matrix = plan.of(0, which);
    const std::string rank = matrix.rank == 0 ? "dense" : std::to_string(matrix.rank);
    writer.print("{:<7} {:>7} {:>7} {:>7} {:>8.4f} {:>14} {:>14}\n", compress::matrix_name(which),
                 matrix.in_features, rank, matrix.out_features, matrix.kept_share,
                 matrix.bytes_before, matrix.bytes_after);
  }
  print_total(writer, plan.parameters_before, plan.parameters_after, plan.bytes_before,
              plan.bytes_after);
}

std::string size_text(int64_t size) { return size == 0 ? "whole" : std::to_string(size); }

// Of every form but uv: what each layer's MLP has become.
void print_layers(const ReportWriter& writer, const compress::CompressSummary& summary) {
  const bool pivoted = summary.plan.form == compress::Form::kPivoted;
  writer.print("form {}\n", compress::form_name(summary.plan.form));
  writer.print("{:>5} {:>8} {:>8} {:>8} {:>8} {:>8} {:>11}\n", "layer", pivoted ? "gate" : "input",
               pivoted ? "up" : "neurons", pivoted ? "down" : "output", "kept", "largest",
               "predicted");
  double predicted = 0.0;
  for (size_t i = 0; i < summary.layers.size(); ++i) {
    const compress::LayerReport& layer = summary.layers[i];
    const io::MlpShape& shape = layer.shape;
    writer.print("{:>5} {:>8} {:>8} {:>8} {:>8.4f} {:>8.2f} {:>11.3e}\n", i,
                 size_text(pivoted ? shape.gate : shape.input),
                 size_text(pivoted ? shape.up : shape.neurons), size_text(shape.down),
                 layer.kept_share, layer.largest_map, layer.predicted_loss);
    predicted += layer.predicted_loss;
  }
  writer.print("predicted loss (for ranking; too small by a factor): {:.4f} nats per token\n",
               predicted);
}

void print_matrices(const ReportWriter& writer, const compress::CompressSummary& summary) {
  writer.print("{:>5} {:<7} {:>7} {:>7} {:>7} {:>8} {:>12}\n", "layer", "matrix", "K", "rank", "N",
               "kept", "energy lost");
  auto report = summary.matrices.begin();  // of the matrices that have factors, in this order
  for (const compress::MatrixPlan& matrix : summary.plan.matrices) {
    const bool dense = matrix.rank == 0;
    writer.print("{:>5} {:<7} {:>7} {:>7} {:>7} {:>8.4f} {:>12}\n", matrix.layer,
                 compress::matrix_name(matrix.matrix), matrix.in_features,
                 dense ? "dense" : std::to_string(matrix.rank), matrix.out_features,
                 matrix.kept_share, dense ? "0" : fmt::format("{:.4e}", report++->energy_lost));
  }
}

void print_summary(const ReportWriter& writer, const compress::CompressSummary& summary) {
  if (summary.layers.empty()) {
    print_matrices(writer, summary);
  } else {
    print_layers(writer, summary);
  }
  if (summary.calibration_tokens > 0) {
    writer.print("calibration: {} tokens\n", summary.calibration_tokens);
  }
  print_total(writer, summary.parameters_before, summary.parameters_after, summary.bytes_before,
              summary.bytes_after);
}

// Warnings go to standard error, also where the report is JSON.
template <typename... Args>
void warn(fmt::format_string<Args...> format, Args&&... args) {
  print_message("warning: {}\n", fmt::format(format, std::forward<Args>(args)...));
}

// Ranks are multiples of the block: small matrices may be far from what was asked.
void warn_of_share(const compress::CompressRequest& request, const compress::Plan& plan) {
  constexpr double kTolerance = 0.02;
  const compress::RankRule& rule = request.rule;
  const double kept = compress::kept_share(plan, rule, request.only);
  if (std::abs(kept - (1.0 - rule.ratio)) <= kTolerance) return;
  const auto block = compress::finer_block(plan, rule, request.only, kTolerance);
  std::string remedy = "and no finer block would come nearer";
  if (block) {
    compress::RankRule finer = rule;
    finer.block = *block;
    remedy = fmt::format("--block {} would keep {:.4f}", *block,
                         compress::kept_share(plan, finer, request.only));
  }
  warn(
      "the compressed matrices keep {:.4f} of their parameters, asked was {:.4f}: ranks are "
      "multiples of --block {}; {}",
      kept, 1.0 - rule.ratio, rule.block, remedy);
}

compress::Measure measure_on(const compress::CompressRequest& request, const ops::Backend& backend,
                             Progress& progress) {
  return [&](const fs::path& compressed, const std::vector<std::vector<text::TokenId>>& sequences)
             -> Result<compress::MeasuredLoss> {
    NMM_ASSIGN(const auto summary,
               eval::folder_divergence(request.model, compressed, sequences, backend, progress));
    return compress::MeasuredLoss{summary.tokens, summary.divergence.value,
                                  summary.dense_perplexity, summary.perplexity};
  };
}

void print_loss(const ReportWriter& writer, const Flags& flags,
                const std::optional<compress::MeasuredLoss>& loss) {
  if (!loss) {
    writer.print("against the dense model: not measured{}\n",
                 flags.no_measure ? "" : "; give --calibration");
    return;
  }
  writer.print("against the dense model: {}\n", compress::loss_text(loss));
  constexpr double kMostDivergence = 0.5, kMostPerplexity = 1.5;
  const bool far = !(loss->divergence <= kMostDivergence);  // also where it is not a number
  if (!far && loss->perplexity <= kMostPerplexity * loss->dense_perplexity) return;
  warn(
      "the compressed model predicts much worse than the dense one (KL {:.3g}, perplexity {:.4g} "
      "after {:.4g}); remove less, calibrate on more text, or use --method error-aware",
      loss->divergence, loss->perplexity, loss->dense_perplexity);
}

Json loss_json(const std::optional<compress::MeasuredLoss>& loss) {
  if (!loss) return {};
  return {{"tokens", loss->tokens},
          {"held_out", loss->held_out},
          {"kl", loss->divergence},
          {"dense_perplexity", loss->dense_perplexity},
          {"perplexity", loss->perplexity}};
}

Json request_json(const compress::CompressRequest& request) {
  return {{"model", request.model.string()},
          {"output", request.out.string()},
          {"form", compress::form_name(request.form)},
          {"method", compress::method_name(request.method)},
          {"ratio", request.rule.ratio},
          {"block", request.rule.block},
          {"align", compress::align_name(request.rule.align)},
          {"allocate", compress::allocate_name(request.allocate)},
          {"weights", compress::weights_name(request.weights)}};
}

Json matrix_json(const compress::MatrixPlan& matrix) {
  return {{"layer", matrix.layer},
          {"matrix", compress::matrix_name(matrix.matrix)},
          {"in_features", matrix.in_features},
          {"rank", matrix.rank},  // 0: dense
          {"out_features", matrix.out_features},
          {"kept_share", matrix.kept_share},
          {"bytes_before", matrix.bytes_before},
          {"bytes_after", matrix.bytes_after}};
}

Json plan_json(const compress::CompressRequest& request, const compress::Plan& plan) {
  Json json = request_json(request);
  json["parameters_before"] = plan.parameters_before;
  json["parameters_after"] = plan.parameters_after;
  json["bytes_before"] = plan.bytes_before;
  json["bytes_after"] = plan.bytes_after;
  json["matrices"] = Json::array();
  for (const compress::MatrixPlan& matrix : plan.matrices) {
    json["matrices"].push_back(matrix_json(matrix));
  }
  return json;
}

Json layers_json(const compress::CompressSummary& summary) {
  Json list = Json::array();
  for (const compress::LayerReport& layer : summary.layers) {
    const io::MlpShape& shape = layer.shape;
    list.push_back({{"gate", shape.gate},  // 0: whole
                    {"up", shape.up},
                    {"input", shape.input},
                    {"neurons", shape.neurons},
                    {"down", shape.down},
                    {"kept_share", layer.kept_share},
                    {"largest_map", layer.largest_map},
                    {"predicted_loss", layer.predicted_loss}});
  }
  return list;
}

Json summary_json(const compress::CompressRequest& request,
                  const compress::CompressSummary& summary) {
  Json json = plan_json(request, summary.plan);
  json["calibration_tokens"] = summary.calibration_tokens;
  json["measured"] = loss_json(summary.loss);
  if (!summary.layers.empty()) {
    json["layers"] = layers_json(summary);
    return json;
  }
  auto report = summary.matrices.begin();  // of the matrices that have factors, in this order
  for (Json& matrix : json["matrices"]) {
    matrix["energy_lost"] = matrix["rank"] == 0 ? 0.0 : report++->energy_lost;
  }
  return json;
}

Result<int> dry_run(const compress::CompressRequest& request, ReportWriter& writer) {
  std::error_code ignored;
  const fs::path config_json =
      fs::is_directory(request.model, ignored) ? request.model / "config.json" : request.model;
  NMM_ASSIGN(const auto config, io::ModelConfig::load(config_json));
  NMM_ASSIGN(const auto plan, compress::make_plan(config, request.rule, request.only,
                                                  request.weights, request.model.string()));
  print_plan(writer, plan);
  warn_of_share(request, plan);
  if (request.allocate == compress::Allocate::kSensitivity) {
    NMM_TRY(compress::check_allocation(plan, request.rule.block, request.model.string()));
    writer.print(
        "--allocate sensitivity measures which matrices get more and which get less; the total "
        "above is not exceeded\n");
  }
  NMM_TRY(writer.write_json(plan_json(request, plan)));
  return 0;
}

// What the flags mean is worked out before any file is read.
Result<int> run(Flags& flags) {
  compress::CompressRequest& request = flags.request;
  NMM_ASSIGN(request.rule.align, compress::parse_align(flags.align));
  NMM_ASSIGN(request.method, compress::parse_method(flags.method));
  NMM_ASSIGN(request.form, compress::parse_form(flags.form));
  if (flags.fit == "local") request.fit = compress::FitTo::kLocal;
  if (flags.fit == "error-aware") request.fit = compress::FitTo::kErrorAware;
  if (request.method == compress::Method::kTwoSided && !metric_program_available()) {
    print_message(
        "note: --method two-sided needs the program neuronmm-finetune, which this build lacks; "
        "whitened is used\n");
    request.method = compress::Method::kWhitened;
  }
  NMM_ASSIGN(request.only, compress::parse_matrix_set(flags.only));
  if (flags.weights == compress::weights_name(compress::WeightFormat::kInt8)) {
    request.weights = compress::WeightFormat::kInt8;
  }
  for (const auto allocate : {compress::Allocate::kSensitivity, compress::Allocate::kPredicted}) {
    if (flags.allocate == compress::allocate_name(allocate)) request.allocate = allocate;
  }
  NMM_ASSIGN(ReportWriter writer, ReportWriter::open(flags.json));
  if (flags.dry_run) return dry_run(request, writer);
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
  const compress::Measure measure =
      flags.no_measure ? compress::Measure() : measure_on(request, *backend, progress);
  const compress::MakeMetric make_metric =
      [&](const std::vector<std::vector<text::TokenId>>& sequences, const fs::path& file) {
        return run_metric_program({.model = request.model,
                                   .sequences = sequences,
                                   .out = file,
                                   .threads = flags.device.threads});
      };
  NMM_ASSIGN(const auto summary,
             compress::compress(request, *backend, progress, {}, measure, make_metric));
  print_summary(writer, summary);
  warn_of_share(request, summary.plan);
  print_loss(writer, flags, summary.loss);
  writer.print("written to {}\n", request.out.string());
  NMM_TRY(writer.write_json(summary_json(request, summary)));
  return 0;
}

// What the library would refuse too, here by the names of the flags.
void require_text(const Flags& flags) {
  if (!flags.calibration.empty() || flags.dry_run) return;
  if (flags.allocate == "sensitivity") {
    throw CLI::ValidationError("--allocate sensitivity",
                               "needs --calibration TEXT, on which it measures what every matrix "
                               "is worth");
  }
  if (flags.method == "svd" || (flags.method == "whitened" && !flags.request.gram.empty())) return;
  throw CLI::ValidationError("--method " + flags.method,
                             flags.method == "whitened"
                                 ? "needs --calibration TEXT or --gram FILE; svd needs neither"
                                 : "needs --calibration TEXT; svd needs none");
}

void add_calibration_flags(CLI::App* command, Flags& flags) {
  command
      ->add_option("--calibration", flags.calibration,
                   "text that the model runs on; - is standard input. Several are sampled "
                   "evenly, so that the model stays good at all of them. svd only measures the "
                   "result on it")
      ->allow_extra_args(false);
  command
      ->add_option(
          "--calibration-tokens", flags.calibration_tokens,
          "tokens to use in all, as many of each text, evenly spread over it, in sequences "
          "of at most 2048")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40))
      ->capture_default_str();
  command->add_flag("--no-measure", flags.no_measure,
                    "do not compare the result with the dense model on 2048 tokens of the text; "
                    "both are in memory for it");
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
      ->check(CLI::IsMember({"uniform", "predicted", "sensitivity"}))
      ->capture_default_str();
  command->add_option("--only", flags.only, "which matrices, e.g. gate,up; others stay dense")
      ->check(check_only, "", "gate,up,down")
      ->capture_default_str();
}

}  // namespace

void add_compress(Program& program) {
  CLI::App* command =
      program.add(CommandGroup::kModels, "compress",
                  "Replace MLP weights by low-rank factors, whitened by a calibration text");
  const auto flags = std::make_shared<Flags>();
  command
      ->add_option("MODEL_DIR", flags->request.model,
                   "model folder (for --dry-run its config.json is enough)")
      ->required();
  add_output_option(command, flags->request.out, "the new model folder");
  command
      ->add_option("--method", flags->method,
                   "whitened: least output error; error-aware: whitened, and every layer makes up "
                   "for what those before it lost (better, slower calibration); svd: least weight "
                   "error (no text needed)")
      ->check(CLI::IsMember({"whitened", "two-sided", "error-aware", "svd"}))
      ->capture_default_str();
  command->add_option("--fit", flags->fit, "none, local, error-aware");
  command
      ->add_option("--form", flags->form,
                   "what becomes of an MLP: uv (two factors per matrix), pivoted, narrow, neurons, "
                   "mixed, or auto")
      ->check(CLI::IsMember({"uv", "pivoted", "narrow", "neurons", "mixed", "auto"}))
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
  add_json_option(command, flags->json);
  add_device_options(command, flags->device);
  command->parse_complete_callback([flags] { require_text(*flags); });
  program.set_run(command, [flags] { return run(*flags); });
}

}  // namespace neuronmm::apps
