#include "compress/quantized_folder.h"

#include <string>
#include <utility>

#include "compress/compressed_folder.h"
#include "compress/output/model_card.h"
#include "compress/output/rank_record.h"
#include "compress/output/transformers_code.h"
#include "io/atomic_file.h"
#include "io/model_folder.h"
#include "io/text_file.h"

namespace neuronmm::compress {
namespace {

namespace fs = std::filesystem;

// Returns the config.json of the rounded model.
Result<std::string> quantized_config(const QuantizedModel& model) {
  const io::Checkpoint& checkpoint = model.source.checkpoint;
  NMM_ASSIGN(std::string config, io::config_text(checkpoint));
  NMM_ASSIGN(config, with_rank_record(std::move(config), checkpoint, model.source.config));
  return io::with_quantization(config, (checkpoint.folder() / "config.json").string(),
                               model.quantization);
}

Status write_card(const QuantizedModel& model, const io::FolderWriter& output) {
  const io::ModelConfig& config = model.source.config;
  const io::Quantization& quantization = model.quantization;
  const int bits = quantization.format.bits;
  const std::string weights = io::quantization_text(quantization);
  ModelCard card = model_card(output.out(), model.source.checkpoint.folder(),
                              bits == 8 ? " with int8 weights" : fmt::format(" in {} bits", bits));
  card.tags = {bits_tag(quantization.format)};
  card.facts = {{"weights", weights}};
  card.has_code = !config.experts;
  if (const auto& record = config.compression) {
    card.tags.emplace_back(config.experts ? "pruned" : form_tag(record->form));
    card.facts = compression_facts(*record, config, weights);
  }
  for (const io::CalibrationSource& text : quantization.calibration) {
    card.facts.emplace_back("rounded by", fmt::format("{} tokens of {}", text.tokens, text.name));
  }
  if (model.reconstruction != nullptr) {
    card.facts.emplace_back("layers learnt", reconstruction_text(*model.reconstruction));
  }
  return io::write_text_file(output.staging() / "README.md", model_card_text(card));
}

}  // namespace

// config.json comes last, so that only a whole folder can be opened.
Status write_unreconstructed_codes(const QuantizedModel& model, Progress& progress) {
  const fs::path folder = unreconstructed_model(model.source.work);
  NMM_TRY(io::make_folder(folder));
  NMM_ASSIGN(const std::string config, quantized_config(model));
  NMM_TRY(write_model(model.source, model.quantization, folder, progress));
  return io::write_text_file(folder / "config.json", config);
}

Status write_quantized_folder(const QuantizedModel& model, const io::FolderWriter& output,
                              Progress& progress) {
  const fs::path& work = model.source.work;
  NMM_TRY(
      model.reconstruction != nullptr
          ? write_reconstructed_model(unreconstructed_model(work), work, output.staging(), progress)
          : write_model(model.source, model.quantization, output.staging(), progress));
  NMM_TRY(write_card(model, output));
  NMM_ASSIGN(const std::string config, quantized_config(model));
  return write_transformers_files(output.staging(), config,
                                  (model.source.checkpoint.folder() / "config.json").string());
}

}  // namespace neuronmm::compress
