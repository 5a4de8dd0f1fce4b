#include "gguf_out/export_gguf.h"

#include <system_error>
#include <utility>

#include <fmt/ranges.h>

#include "gguf_out/architecture.h"
#include "gguf_out/file_check.h"
#include "gguf_out/metadata.h"
#include "gguf_out/tensor_plan.h"
#include "gguf_out/vocabulary_out.h"

namespace neuronmm::gguf_out {
namespace {

namespace fs = std::filesystem;

// Everything that will be written.
struct Export {
  Pairs pairs;
  TensorPlan plan;
};

void add_type_notes(const SourceModel& source, const TypeMix& mix, const TensorPlan& plan,
                    GgufSummary& summary) {
  for (const std::string& replaced : plan.replaced) summary.notes.push_back(replaced);
  const int64_t bits = source.bits();
  if (bits == 0 || mix.most == BlockType::kQ8_0 || mix.most == BlockType::kF32) return;
  summary.notes.push_back(fmt::format(
      "the weights of {} bits are rounded anew for {}: the model that they were made of "
      "is the better source",
      bits, mix.name));
}

Result<Export> plan_export(const GgufRequest& request, const SourceModel& source,
                           const TypeMix& mix, const BlockTypes& types, GgufSummary& summary) {
  const std::string name = request.model.string();
  Export result;
  NMM_ASSIGN(ArchitectureOut architecture, choose_architecture(source, mix, name));
  const auto numbers = add_architecture(source, architecture, result.pairs);
  add_names(source, request.model, mix, request.producer, result.pairs);
  NMM_TRY(add_sampling(request.model, result.pairs));
  summary.architecture = architecture.gguf->architecture;
  summary.notes = architecture.notes;
  NMM_TRY(add_vocabulary(request.model, source.config, result.pairs, summary.notes));
  result.plan = plan_tensors(source, architecture, mix, types, numbers);
  if (request.strict && !result.plan.replaced.empty())
    return fail("{}: --strict: {}", name, fmt::join(result.plan.replaced, "; "));
  add_type_notes(source, mix, result.plan, summary);
  NMM_TRY(check_file(source, architecture, result.pairs, result.plan, name));
  return result;
}

// Returns the mix for the request, whose type may be empty.
TypeMix mix_of(const GgufRequest& request, const SourceModel& source) {
  const TypeMix* const found =
      find_type_mix(request.type.empty() ? default_type(source) : request.type);
  NMM_CHECK(found != nullptr);
  TypeMix mix = *found;
  mix.calibrated = request.calibrated;
  return mix;
}

fs::path folder_of(const fs::path& file) {
  return file.has_parent_path() ? file.parent_path() : fs::path(".");
}

}  // namespace

// Q4_K needs rows of multiples of 256. In other models most of its tensors would have 5 bits.
std::string_view default_type(const SourceModel& model) {
  if (model.bits() == 8) return "Q8_0";
  return model.config.hidden_size % 256 == 0 ? "Q4_K" : "Q4_0";
}

Status check_gguf_output(const GgufRequest& request) {
  std::error_code error;
  if (fs::is_directory(request.out, error))
    return fail("{}: is a folder; expected the name of the GGUF file to write",
                request.out.string());
  if (!request.force && fs::is_regular_file(request.out, error))
    return Error{fmt::format("{}: already exists", request.out.string()), Error::Kind::kExists};
  if (request.force && fs::equivalent(request.model, request.out, error))
    return fail("{}: is the model itself; name another file", request.out.string());
  return {};
}

Result<BlockTypes> planned_types(const GgufRequest& request) {
  NMM_TRY(check_gguf_output(request));
  NMM_ASSIGN(const SourceModel source, SourceModel::open(request.model));
  GgufSummary summary;
  NMM_ASSIGN(const Export planned,
             plan_export(request, source, mix_of(request, source), {}, summary));
  BlockTypes types;
  for (const PlannedTensor& tensor : planned.plan.tensors) {
    for (const MatrixPart& part : tensor.parts) {
      const auto stored = source.checkpoint.tensors().find(part.name);
      if (stored == source.checkpoint.tensors().end() || stored->second.shape.size() != 2) continue;
      if (stored->second.columns() == tensor.info.shape.back()) types[part.name] = tensor.info.type;
    }
  }
  return types;
}

Result<GgufSummary> export_gguf(const GgufRequest& request, const RoundedMatrices& rounded,
                                Progress& progress,
                                const io::BeforeOutput<GgufSummary>& before_output) {
  NMM_TRY(check_gguf_output(request));
  NMM_ASSIGN(const SourceModel source, SourceModel::open(request.model));
  GgufSummary summary;
  const TypeMix mix = mix_of(request, source);
  summary.type = mix.name;
  NMM_ASSIGN(const Export planned, plan_export(request, source, mix, rounded.types, summary));
  std::vector<TensorInfo> infos;
  summary.parameters = source.checkpoint.parameters();
  for (const PlannedTensor& tensor : planned.plan.tensors) {
    infos.push_back(tensor.info);
    summary.bytes += tensor.info.bytes() + container_padding(tensor.info.bytes());
    ++summary.types[std::string(info(tensor.info.type).name)];
  }
  NMM_TRY(io::check_space(folder_of(request.out), summary.bytes));
  NMM_ASSIGN(ContainerWriter writer,
             ContainerWriter::create(request.out, planned.pairs, std::move(infos)));
  NMM_ASSIGN(
      const WrittenTensors written,
      write_tensors(planned.plan, source, request.model.string(), rounded.rows, writer, progress));
  if (written.inexact_blocks > 0)
    summary.notes.push_back(
        fmt::format("{} blocks of 32 weights have scales that F16 cannot hold, and were rounded "
                    "anew",
                    written.inexact_blocks));
  NMM_ASSIGN(summary.file, writer.inode());
  if (before_output) NMM_TRY(before_output(summary));
  NMM_TRY(writer.finish());
  return summary;
}

}  // namespace neuronmm::gguf_out
