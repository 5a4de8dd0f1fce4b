// The command neuronmm compress: makes a model folder with smaller MLPs.

#include "compress/compress.h"

#include <filesystem>

#include <nlohmann/json.hpp>

#include "commands.h"
#include "compress/compressed_mixture.h"
#include "compress/sizes/allocate.h"
#include "eval/folder_divergence.h"
#include "io/model_name.h"
#include "message.h"
#include "model/compress_flags.h"
#include "model/compress_report.h"
#include "model/data_processes.h"
#include "model/float_folder.h"
#include "processes.h"
#include "report_writer.h"

namespace neuronmm::apps {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

compress::MeasureLoss measure_on(const compress::CompressRequest& request,
                                 const ops::Backend& backend, Progress& progress) {
  return [&](const fs::path& compressed, const std::vector<std::vector<text::TokenId>>& sequences)
             -> Result<compress::MeasuredLoss> {
    NMM_ASSIGN(const auto summary,
               eval::folder_divergence(request.model, compressed, sequences, backend, progress));
    return compress::MeasuredLoss{summary.tokens, summary.divergence.value,
                                  summary.dense_perplexity, summary.perplexity};
  };
}

// Prints what a dry run knows of forms that narrow whole MLPs. Sizes that depend on losses are
// known only after a text has been read, but their sum is bounded by the ratio.
Status dry_run_shapes(const compress::CompressRequest& request, const io::ModelConfig& config,
                      ReportWriter& writer) {
  NMM_TRY(compress::check_uncompressed(config, request.model.string()));
  const compress::MlpSizes sizes = {config.hidden_size, config.intermediate_size};
  const bool by_formula = request.allocate == compress::Allocate::kUniform &&
                          request.form != compress::Form::kMixed &&
                          request.form != compress::Form::kAuto;
  if (by_formula) {
    NMM_ASSIGN(const io::MlpShape shape,
               compress::uniform_shape(request.form, sizes, request.rule));
    const compress::Plan plan = compress::plan_of_shapes(
        config, request.form,
        std::vector<io::MlpShape>(static_cast<size_t>(config.num_hidden_layers), shape),
        request.weights);
    print_plan(writer, plan);
    warn_of_share(request, plan);
    return writer.write_json(plan_json(request, plan));
  }
  const auto dense = sizes.dense_parameters() * config.num_hidden_layers;
  const auto most = static_cast<int64_t>((1.0 - request.rule.ratio) * static_cast<double>(dense));
  writer.print(
      "sizes follow from the losses that the calibration text tells; the MLPs keep at most {} of "
      "{} parameters\n",
      most, dense);
  Json json = request_json(request);
  json["mlp_parameters_before"] = dense;
  json["mlp_parameters_at_most"] = most;
  return writer.write_json(json);
}

// Prints what a dry run knows of a mixture: the parameters that its experts may keep.
Status dry_run_mixture(const compress::CompressRequest& asked, const io::ModelConfig& config,
                       ReportWriter& writer) {
  NMM_TRY(compress::check_uncompressed(config, asked.model.string()));
  NMM_ASSIGN(const compress::CompressRequest request, compress::mixture_request(asked, config));
  print_settings(writer, request);
  int64_t layers = 0;
  for (int64_t i = 0; i < config.num_hidden_layers; ++i) layers += config.is_mixture(i) ? 1 : 0;
  const compress::MlpSizes sizes = {config.hidden_size, config.experts->width};
  const int64_t all = sizes.dense_parameters() * config.experts->count * layers;
  const auto most = static_cast<int64_t>((1.0 - request.rule.ratio) * static_cast<double>(all));
  writer.print("the experts keep about {} of {} parameters\n", most, all);
  Json json = request_json(request);
  json["expert_parameters_before"] = all;
  json["expert_parameters_about"] = most;
  return writer.write_json(json);
}

Result<int> dry_run(const compress::CompressRequest& request, ReportWriter& writer) {
  const fs::path config_json =
      io::may_be_model(request.model) ? request.model / "config.json" : request.model;
  NMM_ASSIGN(const auto config, io::ModelConfig::load(config_json));
  if (config.experts) {
    NMM_TRY(dry_run_mixture(request, config, writer));
    return 0;
  }
  print_settings(writer, request);
  if (compress::narrows_mlps(request)) {
    NMM_TRY(dry_run_shapes(request, config, writer));
    return 0;
  }
  NMM_ASSIGN(const auto plan,
             compress::make_plan(config, request.rule, request.weights, request.model.string()));
  print_plan(writer, plan);
  warn_of_share(request, plan);
  if (request.allocate == compress::Allocate::kMeasured) {
    NMM_TRY(compress::check_allocation(plan, request.rule.block, request.model.string()));
    writer.print(
        "--allocate measured says which matrices get more and which get less; the total above is "
        "not exceeded\n");
  }
  NMM_TRY(writer.write_json(plan_json(request, plan)));
  return 0;
}

Result<int> compress_with(const CompressFlags& flags, compress::CompressRequest request,
                          const ops::Backend& backend, compress::DataParallel* helpers) {
  NMM_ASSIGN(ReportWriter writer, ReportWriter::open(flags.json));
  if (request.calibration) NMM_TRY(compress::read_texts(*request.calibration));
  Progress progress(stderr);
  const compress::MeasureLoss measure =
      flags.no_measure ? compress::MeasureLoss() : measure_on(request, backend, progress);
  compress::CompressRequest reported = request;
  reported.model = flags.given.model;  // the report names the folder that the user gave
  const auto write_report = [&](const compress::CompressSummary& summary) {
    return writer.write_json(summary_json(reported, summary));
  };
  NMM_ASSIGN(const auto summary,
             compress::compress(request, backend, progress, {}, measure, helpers, write_report));
  print_summary(writer, summary);
  if (!summary.experts) warn_of_share(request, summary.plan);
  print_loss(writer, !flags.no_measure, summary.loss);
  writer.print("written to {}\n", request.out.string());
  return 0;
}

Result<int> run(const CompressFlags& flags) {
  const compress::CompressRequest request = compress_settings(flags);
  if (flags.dry_run) {
    if (!world_communicator().is_first()) return 0;
    NMM_ASSIGN(ReportWriter writer, ReportWriter::open(flags.json));
    return dry_run(request, writer);
  }
  const auto on_model = [&](const fs::path& model) {
    compress::CompressRequest of_model = request;
    of_model.model = model;
    return run_data_parallel(model, flags.device,
                             [&](const ops::Backend& backend, compress::DataParallel* helpers) {
                               return compress_with(flags, of_model, backend, helpers);
                             });
  };
  return run_on_floats(request.model, request.out,
                       {.dequantize = flags.dequantize, .force = request.force}, on_model);
}

}  // namespace

void add_compress(Program& program) {
  CLI::App* command =
      program.add(CommandGroup::kModels, "compress",
                  "Make the MLPs of a model smaller, keeping what matters for a text",
                  {"neuronmm compress MODEL_DIR -o small --ratio 0.2 --calibration text.txt",
                   "neuronmm compress MODEL_DIR --ratio 0.2 --dry-run"});
  const auto flags = std::make_shared<CompressFlags>();
  add_compress_flags(command, *flags);
  program.set_usage(command,
                    "MODEL_DIR --ratio X -o DIR "
                    "(--calibration FILE | --self-generated N | --statistics DIR | "
                    "--form uv --method svd)");
  program.set_run(
      command, [flags] { return run(*flags); }, ProcessMode::kDataParallel);
}

}  // namespace neuronmm::apps
