#include "compress/compressed_mixture.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "compress/factors/narrow_experts.h"
#include "compress/output/model_writer.h"
#include "compress/sizes/mixture_search.h"
#include "io/atomic_file.h"
#include "io/model_files.h"
#include "io/model_folder.h"
#include "io/ordered_json.h"
#include "io/quantization.h"
#include "io/text_file.h"
#include "io/transformers_config.h"

namespace neuronmm::compress {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

// Returns whether other programs can load the result: all experts have equally many neurons, in
// floats, and share no bases.
bool is_plain(const CompressedModel& model, const ExpertSizes& sizes) {
  return sizes.uniform && sizes.bases.empty() && !model.request.weights;
}

io::CompressionRecord record_of(const CompressedModel& model, const ExpertSizes& sizes) {
  io::CompressionRecord record = record_of_request(model);
  record.ranks.resize(static_cast<size_t>(model.config.num_hidden_layers));
  record.form = form_name(model.request.form);
  if (!sizes.uniform) record.experts = sizes.widths();
  record.bases = sizes.basis_ranks();
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
    config[io::expert_width_key(after.architecture)] = after.experts->width;
  }
}

// Returns the config.json of the compressed mixture, still without its quantization.
Result<std::string> config_text(const CompressedModel& model, const ExpertSizes& sizes) {
  NMM_ASSIGN(const std::string original, io::config_text(model.checkpoint));
  auto config = io::parse_ordered_json(original);
  set_sizes(config_of_experts(model.config, sizes), sizes, config);
  return io::with_compression_record(config.dump(2), record_of(model, sizes),
                                     (model.request.model / "config.json").string());
}

// Writes the weights that make_experts() has made, as floats or rounded. If `published`, the folder
// has the matrices of the published class.
Status write_made(const CompressedModel& model, const ExpertSizes& sizes,
                  const std::optional<io::Quantization>& quantization, bool published,
                  const fs::path& work, const fs::path& folder, Progress& progress) {
  NewExperts experts{
      .kept = {}, .narrowed = sizes.form != Form::kExperts, .bases = sizes.basis_ranks()};
  for (int64_t layer = 0; layer < model.config.num_hidden_layers; ++layer) {
    experts.kept.push_back(sizes.kept(layer));
  }
  return write_model({.checkpoint = model.checkpoint,
                      .config = model.config,
                      .matrices = model.plan.matrices,
                      .work = work,
                      .experts = &experts,
                      .published = published},
                     quantization, folder, progress);
}

// Writes the weights of the result, whose config.json is `config`.
Status write_weights(const CompressedModel& model, const ExpertSizes& sizes,
                     const std::string& config, const std::optional<io::Quantization>& quantization,
                     const io::FolderWriter& output, Progress& progress) {
  const fs::path work = output.resume_folder();
  const bool published = is_plain(model, sizes);
  if (model.reconstruction == nullptr) {
    return write_made(model, sizes, quantization, published, work, output.staging(), progress);
  }
  return write_learnt_weights(config, quantization, published, work, output.staging(), progress);
}

// Returns "352" or "128 to 448".
std::string range_text(int64_t least, int64_t most) {
  return least == most ? std::to_string(least) : fmt::format("{} to {}", least, most);
}

// Returns "inputs of rank 192 to 256 and outputs of rank 160 of 288".
std::string bases_text(const io::ModelConfig& config, const ExpertSizes& sizes) {
  io::ExpertBases least = {config.hidden_size, config.hidden_size}, most;
  for (size_t i = 0; i < sizes.bases.size(); ++i) {
    if (sizes.layers[i].empty()) continue;
    for (const auto side : {&io::ExpertBases::input, &io::ExpertBases::output}) {
      const int64_t rank = sizes.bases[i].ranks.*side;
      least.*side = std::min(least.*side, rank > 0 ? rank : config.hidden_size);
      most.*side = std::max(most.*side, rank > 0 ? rank : config.hidden_size);
    }
  }
  return fmt::format("inputs of rank {} and outputs of rank {} of {}",
                     range_text(least.input, most.input), range_text(least.output, most.output),
                     config.hidden_size);
}

// Returns "6 of 8 experts", "352 of 448 neurons" or "128 to 448 of 448 neurons", or what
// bases_text() does, or both.
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
  if (sizes.form == Form::kBasis) return bases_text(config, sizes);
  const std::string bases =
      sizes.bases.empty() ? "" : fmt::format(", {}", bases_text(config, sizes));
  return fmt::format("{} of {} neurons in each expert{}", range_text(least, most),
                     config.experts->width, bases);
}

std::string_view form_sentence(Form form) {
  switch (form) {
    case Form::kExperts:
      return "experts: the least used experts are dropped";
    case Form::kBasis:
      return "basis: the experts of a layer read and write through shared bases";
    case Form::kMixed:
      return "mixed: experts have fewer neurons, and those of a layer share bases";
    default:
      return "neurons: each expert has fewer neurons";
  }
}

std::string_view form_title(Form form) {
  switch (form) {
    case Form::kExperts:
      return ", fewer experts";
    case Form::kBasis:
      return ", experts with shared bases";
    case Form::kMixed:
      return ", experts of fewer neurons with shared bases";
    default:
      return ", experts of fewer neurons";
  }
}

// Returns the form that loses least (measured, docs/measurements/mixture_forms.md). Uniform sizes
// are asked for so that other programs can load the result, which they cannot with bases.
Form form_of_auto(Allocate allocate) {
  return allocate == Allocate::kUniform ? Form::kNeurons : Form::kMixed;
}

}  // namespace

Result<CompressRequest> mixture_request(CompressRequest request, const io::ModelConfig& config) {
  const std::string model = request.model.string();
  if (request.form == Form::kAuto) request.form = form_of_auto(request.allocate);
  if (request.form != Form::kExperts && !has_bases(request.form) &&
      !has_fewer_neurons(request.form)) {
    return fail(
        "{}: its layers are mixtures of experts, which have the forms mixed, basis, neurons and "
        "experts; found form {}",
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
                          .bases = sizes.basis_ranks(),
                          .uses = sizes.uses(),
                          .weights = request.weights},
                         work));
  return sizes;
}

// config.json comes last, so that only a whole folder can be opened.
Status write_unreconstructed_mixture(const CompressedModel& model, const ExpertSizes& sizes,
                                     const fs::path& work, Progress& progress) {
  const fs::path folder = unreconstructed_model(work);
  NMM_TRY(io::make_folder(folder));
  NMM_ASSIGN(const std::string config, config_text(model, sizes));
  NMM_TRY(write_made(model, sizes, std::nullopt, /*published=*/false, work, folder, progress));
  return io::write_text_file(folder / "config.json", config);
}

Status write_compressed_mixture(const CompressedModel& model, const ExpertSizes& sizes,
                                const io::FolderWriter& output, Progress& progress) {
  const CompressRequest& request = model.request;
  const std::string original = (request.model / "config.json").string();
  NMM_ASSIGN(std::string config, config_text(model, sizes));
  NMM_ASSIGN(const auto written, io::ModelConfig::parse(config, original));
  const auto quantization = quantization_of(request.weights, written);
  NMM_TRY(write_weights(model, sizes, config, quantization, output, progress));
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
  ModelCard card = model_card(output.out(), request.model, std::string(form_title(sizes.form)));
  card.plain = is_plain(model, sizes);
  card.has_code = false;
  card.tags = {"pruned"};
  if (request.weights) card.tags.push_back(bits_tag(request.weights->linear));
  card.facts = {
      {"form", std::string(form_sentence(sizes.form))},
      {"ratio asked to be removed from the experts", fmt::format("{:.4g}", request.rule.ratio)},
      {"sizes", fmt::format("{} (allocation: {})", sizes_text(model.config, sizes),
                            allocate_name(request.allocate))},
      {"weights", weights_text(request.weights)},
      {"calibration", model.calibration != nullptr ? model.calibration->text : "none"},
      {"measured against the original model", loss_text(loss)}};
  if (model.reconstruction != nullptr) {
    card.facts.emplace_back("layers learnt", reconstruction_text(*model.reconstruction));
  }
  if (const std::string rare = completed_experts(sizes.uses()); !rare.empty()) {
    card.facts.emplace_back("experts whose statistics are partly those of their layer", rare);
  }
  return io::write_text_file(output.staging() / "README.md", model_card_text(card));
}

}  // namespace neuronmm::compress
