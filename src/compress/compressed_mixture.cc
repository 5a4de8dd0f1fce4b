#include "compress/compressed_mixture.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "compress/factors/narrow_experts.h"
#include "compress/output/model_writer.h"
#include "compress/settings.h"
#include "io/model_files.h"
#include "io/model_folder.h"
#include "io/quantization.h"
#include "io/text_file.h"

namespace neuronmm::compress {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

// Returns whether other programs can load the result: all experts have as many neurons, in floats.
bool is_plain(const CompressedModel& model, const ExpertSizes& sizes) {
  return sizes.uniform && !model.request.weights;
}

io::CompressionRecord record_of(const CompressedModel& model, const ExpertSizes& sizes) {
  const CompressRequest& request = model.request;
  io::CompressionRecord record = {
      .method = std::string(method_name(request.method)),
      .ratio = request.rule.ratio,
      .block = request.rule.block,
      .ranks = std::vector<io::MlpShape>(static_cast<size_t>(model.config.num_hidden_layers)),
      .allocate = std::string(allocate_name(request.allocate)),
      .form = std::string(form_name(request.form))};
  if (!sizes.uniform) record.experts = sizes.widths();
  if (model.calibration != nullptr) record.calibration = model.calibration->sources;
  constexpr auto kReplace = ordered_json::error_handler_t::replace;
  record.settings = settings_json(request).dump(-1, ' ', false, kReplace);
  return record;
}

// Changes the numbers of config.json that other programs read.
void set_sizes(const io::ModelConfig& after, const ExpertSizes& sizes, ordered_json& config) {
  if (sizes.form == Form::kExperts) {
    bool found = false;
    for (const char* const key : {"num_experts", "num_local_experts"}) {
      if (!config.contains(key)) continue;
      config[key] = after.experts->count;
      found = true;
    }
    if (!found) config["num_experts"] = after.experts->count;
  } else if (sizes.uniform) {
    const bool own = after.architecture == io::Architecture::kQwen3Moe;
    config[own ? "moe_intermediate_size" : "intermediate_size"] = after.experts->width;
  }
}

Result<std::string> config_text(const CompressedModel& model, const ExpertSizes& sizes) {
  NMM_ASSIGN(const std::string original, io::config_text(model.checkpoint));
  auto config = ordered_json::parse(original);
  set_sizes(config_of_experts(model.config, sizes), sizes, config);
  return io::with_compression_record(config.dump(2), record_of(model, sizes),
                                     (model.request.model / "config.json").string());
}

// Returns "6 of 8 experts", "352 of 448 neurons" or "128 to 448 of 448 neurons".
std::string sizes_text(const io::ModelConfig& config, const ExpertSizes& sizes) {
  const io::ModelConfig after = config_of_experts(config, sizes);
  if (sizes.form == Form::kExperts) {
    return fmt::format("{} of {} experts in each layer", after.experts->count,
                       config.experts->count);
  }
  int64_t least = config.experts->width, most = 0;
  for (const auto& layer : sizes.layers) {
    for (const ExpertReport& expert : layer) {
      least = std::min(least, expert.neurons);
      most = std::max(most, expert.neurons);
    }
  }
  const std::string left =
      least == most ? std::to_string(least) : fmt::format("{} to {}", least, most);
  return fmt::format("{} of {} neurons in each expert", left, config.experts->width);
}

}  // namespace

Result<CompressRequest> mixture_request(CompressRequest request, const io::ModelConfig& config) {
  const std::string model = request.model.string();
  if (request.form == Form::kAuto) request.form = Form::kNeurons;
  if (request.form != Form::kNeurons && request.form != Form::kExperts) {
    return fail(
        "{}: its layers are mixtures of experts, which have the forms neurons and experts; found "
        "form {}",
        model, form_name(request.form));
  }
  if (request.pad) {
    return fail(
        "{}: neurons of zeros are not added to experts; leave pad out, or take uniform sizes",
        model);
  }
  if (!request.shapes.empty()) {
    return fail("{}: its layers are mixtures of experts, which take no sizes per layer", model);
  }
  if (request.method == Method::kTwoSided) request.method = Method::kWhitened;
  if (request.form == Form::kExperts) {
    request.allocate = Allocate::kUniform;
  } else if (request.allocate == Allocate::kMeasured) {
    request.allocate = Allocate::kPredicted;
  }
  const Status sizes = check_expert_sizes(
      config, {request.form, request.rule, request.allocate == Allocate::kUniform});
  if (!sizes.ok()) return fail("{}: {}", model, sizes.error().message);
  return request;
}

Result<ExpertSizes> make_experts(const CompressionInputs& inputs, const CompressRequest& request,
                                 const fs::path& statistics, const fs::path& work) {
  NMM_ASSIGN(ExpertSizes sizes,
             choose_expert_sizes(
                 inputs, {request.form, request.rule, request.allocate == Allocate::kUniform},
                 statistics));
  if (sizes.form == Form::kExperts) return sizes;
  NMM_TRY(narrow_experts(inputs,
                         {.statistics = statistics,
                          .widths = sizes.widths(),
                          .orders = sizes.orders,
                          .weights = request.weights},
                         work));
  return sizes;
}

Status write_compressed_mixture(const CompressedModel& model, const ExpertSizes& sizes,
                                const io::FolderWriter& output, Progress& progress) {
  const CompressRequest& request = model.request;
  const std::string original = (request.model / "config.json").string();
  NMM_ASSIGN(std::string config, config_text(model, sizes));
  NMM_ASSIGN(const auto written, io::ModelConfig::parse(config, original));
  const auto quantization = quantization_of(request.weights, written);
  NewExperts experts{.kept = {}, .narrowed = sizes.form == Form::kNeurons};
  for (int64_t layer = 0; layer < model.config.num_hidden_layers; ++layer) {
    experts.kept.push_back(sizes.kept(layer));
  }
  NMM_TRY(write_model({.checkpoint = model.checkpoint,
                       .config = model.config,
                       .matrices = model.plan.matrices,
                       .work = output.resume_folder(),
                       .experts = &experts},
                      quantization, output.staging(), progress));
  if (quantization) {
    NMM_ASSIGN(config, io::with_quantization(config, original, *quantization));
  }
  NMM_TRY(io::write_text_file(output.staging() / "config.json", config));
  NMM_ASSIGN(const auto left_out, io::copy_model_files(request.model, output.staging()));
  for (const std::string& note : left_out) progress.print(note);
  return {};
}

Status write_mixture_card(const CompressedModel& model, const ExpertSizes& sizes,
                          const std::optional<MeasuredLoss>& loss, const io::FolderWriter& output) {
  const CompressRequest& request = model.request;
  const bool experts = sizes.form == Form::kExperts;
  ModelCard card = model_card(output.out(), request.model,
                              experts ? ", fewer experts" : ", experts of fewer neurons");
  card.plain = is_plain(model, sizes);
  card.tags = {"pruned"};
  if (request.weights) card.tags.push_back(bits_tag(request.weights->linear));
  card.facts = {
      {"form", experts ? "experts: the least used experts are dropped"
                       : "neurons: each expert has fewer neurons"},
      {"ratio asked to be removed from the experts", fmt::format("{:.4g}", request.rule.ratio)},
      {"sizes", fmt::format("{} (allocation: {})", sizes_text(model.config, sizes),
                            allocate_name(request.allocate))},
      {"weights", weights_text(request.weights)},
      {"calibration", model.calibration != nullptr ? model.calibration->text : "none"},
      {"measured against the original model", loss_text(loss)}};
  if (const std::string rare = completed_experts(sizes.uses()); !rare.empty()) {
    card.facts.emplace_back("experts whose statistics are partly those of their layer", rare);
  }
  return io::write_text_file(output.staging() / "README.md", model_card_text(card));
}

}  // namespace neuronmm::compress
