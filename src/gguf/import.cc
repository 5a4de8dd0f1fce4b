#include "gguf/import.h"

#include <optional>

#include "gguf/gguf_shards.h"
#include "gguf/model_plan.h"
#include "gguf/tokenizer_files.h"
#include "gguf/vocabulary.h"
#include "io/folder_writer.h"
#include "io/gguf.h"
#include "io/shards.h"
#include "io/text_file.h"

namespace neuronmm::gguf {
namespace {

namespace fs = std::filesystem;

// A folder is an easy mistake to make, because all other commands expect one.
Status refuse_folder(const fs::path& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return {};
  const std::vector<std::string> found = io::gguf_files_in(path);
  return fail(
      "{}: is a folder; expected a GGUF file, or --adapter{}", path.string(),
      found.empty() ? " (there is none in it)" : fmt::format(": {} in it", fmt::join(found, ", ")));
}

// Everything that will be written. All of it is checked before any file is written.
struct Import {
  std::optional<Vocabulary> vocabulary;
  // Nothing if the file has only a vocabulary.
  std::optional<ModelPlan> model;
};

Status plan_weights(const io::GgufShards& model, DType dtype, Import& plan,
                    ImportSummary& summary) {
  const Vocabulary* const vocabulary = plan.vocabulary ? &*plan.vocabulary : nullptr;
  const TablesOfFile tables = find_tables(model);
  if (!tables.note.empty()) summary.notes.push_back(tables.note);
  NMM_ASSIGN(plan.model, plan_model(model, vocabulary, dtype, tables));
  summary.architecture = plan.model->architecture.name;
  summary.class_name = io::architecture_name(plan.model->config.architecture);
  for (const WeightSource& weight : plan.model->weights.sources) {
    summary.bytes_after += io::size_bytes(weight.spec);
    summary.parameters += TensorView{weight.spec.dtype, weight.spec.shape, nullptr}.size();
  }
  for (const std::string& name : plan.model->weights.unused_tensors)
    summary.notes.push_back(
        fmt::format("left out: tensor {:?}, which is no part of the model", name));
  return {};
}

void add_end_tokens(const Vocabulary& vocabulary, ImportSummary& summary) {
  for (const int64_t id : vocabulary.end_ids())
    summary.end_tokens.push_back({id, std::string(vocabulary.tokens[static_cast<size_t>(id)])});
  if (summary.end_tokens.empty())
    summary.notes.emplace_back(
        "the vocabulary has no token that ends a text: an answer ends at its limit of tokens");
}

Result<Import> plan_import(const io::GgufShards& model, DType dtype, ImportSummary& summary) {
  Import plan;
  NMM_ASSIGN(plan.vocabulary, read_vocabulary(model.metadata()));
  summary.tokenizer = plan.vocabulary.has_value();
  if (plan.vocabulary) add_end_tokens(*plan.vocabulary, summary);
  if (!model.tensors().empty()) {
    NMM_TRY(plan_weights(model, dtype, plan, summary));
  } else if (!plan.vocabulary) {
    return fail("{}: expected tensors or a vocabulary, found neither", model.metadata().source());
  }
  if (!plan.vocabulary)
    summary.notes.emplace_back("the file has no vocabulary: the folder has no tokenizer");
  else if (!plan.vocabulary->sentence_piece && !model.metadata().has("tokenizer.ggml.pre"))
    summary.notes.emplace_back(
        "the file does not say how a text is cut into words (tokenizer.ggml.pre): as llama.cpp's "
        "\"default\", which the model may not have been trained with");
  return plan;
}

// Writes config.json last. If the process is killed before that, the folder is no model folder.
Status write_folder(const io::GgufShards& model, const Import& plan, const fs::path& folder,
                    Progress& progress) {
  if (plan.vocabulary) {
    const Vocabulary& vocabulary = *plan.vocabulary;
    NMM_TRY(io::write_text_file(folder / "tokenizer.json", tokenizer_json(vocabulary)));
    NMM_TRY(
        io::write_text_file(folder / "tokenizer_config.json", tokenizer_config_json(vocabulary)));
  }
  if (!plan.model) return {};
  const std::string generation =
      plan.vocabulary ? generation_config_json(*plan.vocabulary) : std::string();
  if (!generation.empty())
    NMM_TRY(io::write_text_file(folder / "generation_config.json", generation));
  NMM_TRY(write_weights(model, plan.model->weights, folder, progress));
  return io::write_text_file(folder / "config.json", plan.model->config_text);
}

}  // namespace

Result<ImportSummary> import_model(const fs::path& file, const fs::path& out, DType dtype,
                                   bool force, Progress& progress,
                                   const io::BeforeOutput<ImportSummary>& before_output) {
  using io::FolderWriter;
  NMM_TRY(refuse_folder(file));
  const auto if_exists = force ? FolderWriter::IfExists::kReplace : FolderWriter::IfExists::kRefuse;
  NMM_TRY(FolderWriter::check(out, if_exists, {}));
  NMM_ASSIGN(const io::GgufShards model, io::GgufShards::open(file));
  ImportSummary summary;
  for (const fs::path& path : model.paths()) {
    std::error_code error;
    summary.files.push_back(path.string());
    summary.bytes_before += static_cast<int64_t>(fs::file_size(path, error));
    if (error) return fail("{}: cannot be read: {}", path.string(), error.message());
  }
  NMM_ASSIGN(const Import plan, plan_import(model, dtype, summary));
  NMM_ASSIGN(FolderWriter writer,
             FolderWriter::create(out, if_exists, {}, FolderWriter::Resume::kNever));
  NMM_TRY(write_folder(model, plan, writer.staging(), progress));
  if (before_output) NMM_TRY(before_output(summary));
  NMM_TRY(writer.commit());
  return summary;
}

}  // namespace neuronmm::gguf
