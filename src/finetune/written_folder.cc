#include "finetune/written_folder.h"

#include "compress/output/fused_sources.h"
#include "compress/output/model_card.h"
#include "compress/output/rank_record.h"
#include "compress/output/tensor_writer.h"
#include "compress/output/transformers_code.h"
#include "finetune/adapter_folder.h"
#include "io/model_files.h"
#include "io/model_folder.h"
#include "io/quantization.h"
#include "io/text_file.h"
#include "model/tensor_specs.h"

namespace neuronmm::finetune {
namespace {

namespace fs = std::filesystem;

// Returns whether the published class of the family loads the result.
bool is_plain(const io::ModelConfig& config, const Rounding& rounding) {
  return !config.compression && !rounding;
}

// Returns the weight that a tensor of scales or groups belongs to, or "" for any other tensor.
std::string weight_of_parts(const std::string& name) {
  for (const std::string_view ending : {io::kScaleEnding, io::kGroupEnding}) {
    if (name.ends_with(ending)) return name.substr(0, name.size() - ending.size());
  }
  return {};
}

// Lists the tensors of the output: those of the checkpoint, with the trained ones taken from the
// student. A tensor that has few bits already and is not trained is copied with its scales and
// groups. A published class gets the matrices that it has as one.
std::vector<compress::TensorSource> sources_of(Student& student, const Rounding& rounding) {
  auto trained = student.trained_sources();
  const training::Model<float>& model = student.model();
  std::vector<compress::TensorSource> sources;
  for (const auto& [name, tensor] : model.checkpoint().tensors()) {
    if (student.grids().contains(weight_of_parts(name)) && trained.contains(weight_of_parts(name)))
      continue;
    if (const auto found = trained.find(name); found != trained.end()) {
      sources.push_back(found->second);
      continue;
    }
    compress::TensorSource source = {{name, written_dtype(tensor.dtype), tensor.shape}};
    if (rounding && is_float(tensor.dtype)) {
      source.rounding = model::rounding_of(name, model.config(), *rounding);
    }
    source.visit = [&tensor](const compress::TensorSource::Use& use) { return use(tensor); };
    sources.push_back(std::move(source));
  }
  if (!is_plain(model.config(), rounding)) return sources;
  return compress::fused_sources(std::move(sources), model.config().architecture);
}

void add_compression(const io::ModelConfig& config, const Rounding& rounding,
                     compress::ModelCard& card) {
  const auto& record = config.compression;
  card.plain = is_plain(config, rounding);
  card.has_code = !config.experts;
  if (!record) return;
  card.tags = {config.experts ? "pruned" : std::string(compress::form_tag(record->form))};
  card.facts = compress::compression_facts(*record, config, weights_name(rounding));
}

Status write_card(const FinetuneRequest& request, const io::ModelConfig& config,
                  const Rounding& rounding, const io::FolderWriter& output) {
  compress::ModelCard card = compress::model_card(output.out(), request.model, ", fine-tuned");
  card.relation = "finetune";
  add_compression(config, rounding, card);
  if (rounding) card.tags.push_back(compress::bits_tag(rounding->format));
  std::string data;
  if (!request.data.empty()) data = compress::folder_name(request.data);
  if (request.recipe.self_generated > 0) {
    data += fmt::format("{}{} tokens that the model wrote before compression",
                        data.empty() ? "" : ", ", request.recipe.self_generated);
  }
  card.facts.emplace_back("fine-tuned on", data);
  if (!request.teacher.empty()) {
    card.facts.emplace_back("taught by", compress::folder_name(request.teacher));
  }
  return io::write_text_file(output.staging() / "README.md", compress::model_card_text(card));
}

// Writes config.json. Folders of earlier versions and of the reference system become folders that
// transformers opens.
Status write_config(const FinetuneRequest& request, const io::ModelConfig& config,
                    const io::Checkpoint& checkpoint, const Rounding& rounding,
                    const fs::path& folder) {
  const fs::path original = request.model / "config.json";
  NMM_ASSIGN(std::string text, io::config_text(checkpoint));
  NMM_ASSIGN(text, compress::with_rank_record(std::move(text), checkpoint, config));
  if (rounding) {
    NMM_ASSIGN(text, io::with_quantization(text, original.string(), *rounding));
  }
  NMM_ASSIGN(const auto written, io::ModelConfig::parse(text, original.string()));
  // Our Python files know no mixtures.
  if (is_plain(written, rounding) || written.experts) {
    return io::write_text_file(folder / "config.json", text);
  }
  return compress::write_transformers_files(folder, text, original.string());
}

}  // namespace

std::string weights_name(const Rounding& rounding) {
  return rounding ? io::quantization_text(*rounding) : "original";
}

Status write_trained(const FinetuneRequest& request, Student& student, const Rounding& rounding,
                     const io::FolderWriter& output, Progress& progress) {
  if (request.recipe.lora_rank > 0) {
    return write_adapters(student.adapted(), request.model, output.staging());
  }
  const training::Model<float>& model = student.model();
  NMM_TRY(compress::write_tensors(sources_of(student, rounding), model.config().architecture,
                                  output.staging(), progress));
  NMM_TRY(write_config(request, model.config(), model.checkpoint(), rounding, output.staging()));
  NMM_TRY(write_card(request, model.config(), rounding, output));
  NMM_ASSIGN(const auto left_out, io::copy_model_files(request.model, output.staging()));
  for (const std::string& note : left_out) progress.print(note);
  return {};
}

}  // namespace neuronmm::finetune
