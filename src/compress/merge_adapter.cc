#include "compress/merge_adapter.h"

#include <span>
#include <utility>

#include <nlohmann/json.hpp>

#include "compress/output/fused_sources.h"
#include "compress/output/rank_record.h"
#include "compress/output/tensor_writer.h"
#include "compress/output/transformers_code.h"
#include "compress/rounding/stored_format.h"
#include "io/file_identity.h"
#include "io/merged_tensor.h"
#include "io/model_files.h"
#include "io/model_folder.h"
#include "io/text_file.h"
#include "io/transformers_config.h"

namespace neuronmm::compress {
namespace {

namespace fs = std::filesystem;

// Passes the values of a float tensor to `use`, some rows at a time, rounded to `dtype`.
Status visit_merged(const io::Checkpoint& checkpoint, const std::string& name,
                    const TensorView& tensor, DType dtype, const TensorSource::Use& use) {
  std::vector<std::byte> bytes;
  const Status visited = visit_floats(tensor, [&](const TensorView& rows) -> Status {
    const std::span values(reinterpret_cast<const float*>(rows.data),
                           static_cast<size_t>(rows.size()));
    NMM_TRY(check_range(name, values, dtype));
    bytes.clear();
    append_rounded(dtype, values.data(), rows.size(), bytes);
    return use({dtype, rows.shape, bytes.data()});
  });
  checkpoint.release_pages();
  return visited;
}

// Lists all tensors of the merged model. Floats are converted to `dtype` if there is one.
std::vector<TensorSource> merged_sources(const io::Checkpoint& checkpoint,
                                         const std::optional<DType>& dtype) {
  std::vector<TensorSource> sources;
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    TensorSource source = {.spec = {name, tensor.dtype, tensor.shape}};
    if (is_float(tensor.dtype)) source.spec.dtype = dtype.value_or(io::merged_dtype(tensor));
    const bool as_it_is = tensor.foreign == nullptr && source.spec.dtype == tensor.dtype;
    source.visit = [&checkpoint, name = name, view = tensor, as_it_is,
                    to = source.spec.dtype](const TensorSource::Use& use) -> Status {
      if (!as_it_is) return visit_merged(checkpoint, name, view, to, use);
      NMM_TRY(use(view));
      checkpoint.release_pages();
      return {};
    };
    sources.push_back(std::move(source));
  }
  return sources;
}

// Returns the tensors as the class has them that loads the folder: a published one, or ours for a
// model with smaller MLPs.
std::vector<TensorSource> written_sources(std::vector<TensorSource> sources,
                                          const io::ModelConfig& config) {
  if (config.compression) return sources;
  return fused_sources(std::move(sources), config.architecture);
}

Status write_merged_config(const io::ModelFolder& model, const fs::path& folder) {
  const fs::path original = model.checkpoint.folder() / "config.json";
  NMM_ASSIGN(std::string text, io::config_text(model.checkpoint));
  NMM_ASSIGN(text, with_rank_record(std::move(text), model.checkpoint, model.config));
  NMM_ASSIGN(const auto written, io::ModelConfig::parse(text, original.string()));
  if (written.compression) return write_transformers_files(folder, text, original.string());
  NMM_ASSIGN(text, io::with_published_classes(text, original.string()));
  return io::write_text_file(folder / "config.json", text);
}

}  // namespace

Result<MergeSummary> write_merged(const MergeRequest& request, Progress& progress,
                                  const io::BeforeOutput<MergeSummary>& before_output) {
  using io::FolderWriter;
  const auto if_exists =
      request.force ? FolderWriter::IfExists::kReplace : FolderWriter::IfExists::kRefuse;
  NMM_TRY(FolderWriter::check(request.out, if_exists, request.model));
  NMM_ASSIGN(const auto identity, io::folder_identity(request.model));
  NMM_ASSIGN(const io::ModelFolder model, io::open_model_to_run(request.model));
  const io::Checkpoint& checkpoint = model.checkpoint;
  if (model.config.quantization)
    return fail(
        "{}: its weights are rounded to few bits; merge the adapter into the original model",
        request.model.string());
  const auto sources = written_sources(merged_sources(checkpoint, request.dtype), model.config);
  MergeSummary summary = {
      .class_name = std::string(io::architecture_name(model.config.architecture)),
      .parameters = checkpoint.parameters(),
      .bytes_before = checkpoint.size_bytes()};
  for (const TensorSource& source : sources) summary.bytes_after += io::size_bytes(source.spec);
  NMM_ASSIGN(auto output, FolderWriter::create(request.out, if_exists, request.model,
                                               FolderWriter::Resume::kNever));
  NMM_TRY(io::check_space(output.staging(), summary.bytes_after));
  NMM_TRY(write_tensors(sources, model.config.architecture, output.staging(), progress));
  NMM_TRY(write_merged_config(model, output.staging()));
  NMM_ASSIGN(summary.notes, io::copy_model_files(request.model, output.staging()));
  NMM_TRY(io::check_unchanged(request.model, identity));
  if (before_output) NMM_TRY(before_output(summary));
  NMM_TRY(output.commit());
  return summary;
}

}  // namespace neuronmm::compress
