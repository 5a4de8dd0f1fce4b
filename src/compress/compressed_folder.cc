#include "compress/compressed_folder.h"

#include <nlohmann/json.hpp>

#include "compress/output/model_writer.h"
#include "compress/output/transformers_code.h"
#include "compress/settings.h"
#include "io/atomic_file.h"
#include "io/model_files.h"
#include "io/model_folder.h"
#include "io/ordered_json.h"
#include "io/quantization.h"
#include "io/text_file.h"

namespace neuronmm::compress {
namespace {

namespace fs = std::filesystem;

// Returns the record of the compression for config.json.
io::CompressionRecord record_of(const CompressedModel& model) {
  io::CompressionRecord record = record_of_request(model);
  record.ranks = model.plan.mlp_shapes();
  record.form = form_name(model.plan.form);
  if (model.form) record.form_choice = form_choice_text(*model.form);
  if (model.sizes && !model.sizes->uses_measured()) {
    record.allocate = allocate_name(Allocate::kPredicted);
  }
  return record;
}

// Returns whether the result is an ordinary dense model with fewer neurons. Other programs can load
// it unchanged, and only its config.json records the compression.
bool is_plain_dense(const CompressedModel& model) {
  return model.plan.form == Form::kNeurons &&
         (model.request.pad || model.request.allocate == Allocate::kUniform);
}

// Returns config_text with this intermediate_size. Other keys and their order stay. The text must
// be valid JSON.
std::string with_intermediate_size(const std::string& config_text, int64_t size) {
  auto config = io::parse_ordered_json(config_text);
  config["intermediate_size"] = size;
  return config.dump(2) + "\n";
}

// Returns the config.json of the compressed model, still without its quantization.
Result<std::string> config_text(const CompressedModel& model, const fs::path& original) {
  NMM_ASSIGN(std::string config, io::config_text(model.checkpoint));
  io::CompressionRecord made = record_of(model);
  if (is_plain_dense(model)) {
    const int64_t neurons = model.plan.shapes.at(0).neurons;
    if (neurons > 0) config = with_intermediate_size(config, neurons);
    made.ranks.assign(made.ranks.size(), {});
  }
  return io::with_compression_record(config, made, original.string());
}

// Writes the weights of `model` before its layers learn. If `published`, the folder has the
// matrices of the published class.
Status write_unlearned(const CompressedModel& model,
                       const std::optional<io::Quantization>& quantization, bool published,
                       const fs::path& work, const fs::path& folder, Progress& progress) {
  return write_model({.checkpoint = model.checkpoint,
                      .config = model.config,
                      .matrices = model.plan.matrices,
                      .work = work,
                      .whole_mlps = narrows_mlps(model.request),
                      .published = published},
                     quantization, folder, progress);
}

// Writes the weights of `model`.
Status write_weights(const CompressedModel& model,
                     const std::optional<io::Quantization>& quantization, const fs::path& work,
                     const fs::path& folder, Progress& progress) {
  const bool published = is_plain_dense(model) && !quantization;
  if (model.reconstruction == nullptr) {
    return write_unlearned(model, quantization, published, work, folder, progress);
  }
  NMM_ASSIGN(const std::string config, config_text(model, model.request.model / "config.json"));
  return write_learnt_weights(config, quantization, published, work, folder, progress);
}

}  // namespace

io::CompressionRecord record_of_request(const CompressedModel& model) {
  const CompressRequest& request = model.request;
  io::CompressionRecord record = {.method = std::string(method_name(request.method)),
                                  .ratio = request.rule.ratio,
                                  .block = request.rule.block,
                                  .allocate = std::string(allocate_name(request.allocate))};
  if (model.calibration != nullptr) record.calibration = model.calibration->sources;
  // The names of texts may hold bytes that are not UTF-8.
  constexpr auto kReplace = nlohmann::ordered_json::error_handler_t::replace;
  record.settings = settings_json(request).dump(-1, ' ', false, kReplace);
  return record;
}

fs::path unreconstructed_model(const fs::path& work) { return work / "unreconstructed"; }

// config.json comes last, so that only a whole folder can be opened.
Status write_unreconstructed_model(const CompressedModel& model, const fs::path& work,
                                   Progress& progress) {
  const fs::path folder = unreconstructed_model(work);
  NMM_TRY(io::make_folder(folder));
  NMM_ASSIGN(const std::string config, config_text(model, model.request.model / "config.json"));
  NMM_TRY(write_unlearned(model, std::nullopt, /*published=*/false, work, folder, progress));
  return io::write_text_file(folder / "config.json", config);
}

Status write_learnt_weights(const std::string& config,
                            const std::optional<io::Quantization>& quantization, bool published,
                            const fs::path& work, const fs::path& folder, Progress& progress) {
  const fs::path before = unreconstructed_model(work);
  if (!quantization && !published) {
    return write_reconstructed_model(before, work, folder, progress);
  }
  const fs::path floats = work / "reconstructed";
  NMM_TRY(io::make_folder(floats));
  NMM_TRY(write_reconstructed_model(before, work, floats, progress));
  NMM_TRY(io::write_text_file(floats / "config.json", config));
  NMM_ASSIGN(const auto opened, io::open_model(floats));
  return write_model({.checkpoint = opened.checkpoint,
                      .config = opened.config,
                      .matrices = {},
                      .work = work,
                      .published = published},
                     quantization, folder, progress);
}

Status write_compressed_model(const CompressedModel& model, const io::FolderWriter& output,
                              Progress& progress) {
  const CompressRequest& request = model.request;
  const fs::path original = request.model / "config.json";
  NMM_ASSIGN(std::string config, config_text(model, original));
  NMM_ASSIGN(const auto written, io::ModelConfig::parse(config, original.string()));
  const auto quantization = quantization_of(request.weights, written);
  const fs::path work = output.resume_folder();
  NMM_TRY(write_weights(model, quantization, work, output.staging(), progress));
  if (quantization) {
    NMM_ASSIGN(config, io::with_quantization(config, original.string(), *quantization));
  }
  if (is_plain_dense(model) && !quantization) {
    NMM_TRY(io::write_text_file(output.staging() / "config.json", config));
  } else {
    NMM_TRY(write_transformers_files(output.staging(), config, original.string()));
  }
  NMM_ASSIGN(const auto left_out, io::copy_model_files(request.model, output.staging()));
  for (const std::string& note : left_out) progress.print(note);
  return {};
}

Status write_compressed_card(const CompressedModel& model, const std::optional<MeasuredLoss>& loss,
                             const io::FolderWriter& output) {
  const CompressRequest& request = model.request;
  const std::string_view form = form_name(model.plan.form);
  ModelCard card = model_card(output.out(), request.model, fmt::format(", {}", form_text(form)));
  card.plain = is_plain_dense(model) && !request.weights;
  card.tags = {std::string(form_tag(form))};
  if (request.weights) card.tags.push_back(bits_tag(request.weights->linear));
  card.facts = compression_facts(record_of(model), model.config, weights_text(request.weights));
  card.facts.emplace_back("calibration",
                          model.calibration != nullptr ? model.calibration->text : "none");
  if (model.reconstruction != nullptr) {
    card.facts.emplace_back("layers learnt", reconstruction_text(*model.reconstruction));
  }
  card.facts.emplace_back("measured against the dense model", loss_text(loss));
  return io::write_text_file(output.staging() / "README.md", model_card_text(card));
}

}  // namespace neuronmm::compress
