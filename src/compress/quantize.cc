#include "compress/quantize.h"

#include <nlohmann/json.hpp>

#include "base/interrupt.h"
#include "compress/factorize.h"
#include "compress/model_card.h"
#include "compress/model_writer.h"
#include "compress/staged_work.h"
#include "io/checkpoint.h"
#include "io/file_identity.h"
#include "io/folder_writer.h"
#include "io/model_config.h"
#include "io/quantization.h"
#include "io/text_file.h"
#include "model/transformer.h"

namespace neuronmm::compress {
namespace {

namespace fs = std::filesystem;

struct LowRankMatrix {
  MatrixPlan plan;
  TensorView u_t, v_t;
};

// Checks names and shapes of all layers on the way.
Result<std::vector<LowRankMatrix>> low_rank_matrices(const io::Checkpoint& checkpoint,
                                                     const io::ModelConfig& config) {
  std::vector<LowRankMatrix> matrices;
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    NMM_ASSIGN(const auto weights, model::layer_weights(checkpoint, config, layer));
    for (const MlpMatrix which : kMlpMatrices) {
      const ops::LinearWeight& weight = weight_of(weights.mlp, which);
      if (!weight.low_rank()) continue;
      MatrixPlan plan = {.layer = layer, .matrix = which};
      plan.in_features = weight.in_features();
      plan.out_features = weight.out_features();
      plan.rank = weight.rank();
      plan.kept_share = kept_share(plan.in_features, plan.out_features, plan.rank);
      matrices.push_back({plan, weight.u_t, weight.v_t});
    }
  }
  return matrices;
}

std::string settings_of(const fs::path& model) {
  const nlohmann::ordered_json settings = {{"weights", weights_name(WeightFormat::kInt8)},
                                           {"model", io::folder_identity(model)}};
  return settings.dump(2) + "\n";
}

// Leaves the rounded factors in `work` and skips those that are there.
Status round_all(const std::vector<LowRankMatrix>& matrices, const io::Checkpoint& checkpoint,
                 const StagedWork& work, Progress& progress, const OnMatrix& on_matrix) {
  progress.start("rounding factors", std::ssize(matrices));
  int64_t done = 0;
  for (const auto& [plan, u_t, v_t] : matrices) {
    if (interrupted()) {
      return interrupted_error(
          fmt::format("{} of {} matrices are kept in {}; run the same command again to go on", done,
                      matrices.size(), work.path().parent_path().string()));
    }
    const std::string name = fmt::format("layer {} {}", plan.layer, matrix_name(plan.matrix));
    if (!work.finished(plan, DType::kF32)) {
      DoubleMatrix second = to_double_matrix(v_t), first = to_double_matrix(u_t);
      checkpoint.release_pages();
      if (!first.all_finite() || !second.all_finite()) {
        return fail("{}: {}: its factors hold NaN or infinity", checkpoint.folder().string(), name);
      }
      NMM_TRY(work.save(plan, DType::kF32, round_factors(std::move(second), std::move(first))));
    }
    progress.update(++done, name);
    if (on_matrix) on_matrix({plan.layer, plan.matrix, plan.rank, plan.kept_share});
  }
  progress.finish();
  return {};
}

Status write_card(const ModelSource& source, const io::FolderWriter& output,
                  const std::string& config_text) {
  const std::string model = folder_name(source.checkpoint.folder());
  ModelCard card = {fmt::format("{}: {} with int8 weights", folder_name(output.out()), model),
                    hub_name(config_text),
                    folder_name(output.out()),
                    {{"weights", "int8"}}};
  if (const auto& record = source.config.compression) {
    card.facts = compression_facts(*record, source.config, "int8");
  }
  return io::write_text_file(output.staging() / "README.md", model_card_text(card));
}

Status write_folder(const ModelSource& source, const io::FolderWriter& output, Progress& progress) {
  const fs::path& model = source.checkpoint.folder();
  const fs::path original = model / "config.json";
  NMM_TRY(write_model(source, WeightFormat::kInt8, output.staging(), progress));
  NMM_ASSIGN(std::string config, io::read_text_file(original));
  NMM_TRY(write_card(source, output, config));
  NMM_ASSIGN(config, io::with_quantization(config, original.string()));
  NMM_TRY(io::write_text_file(output.staging() / "config.json", config));
  return {};
}

}  // namespace

Result<QuantizeSummary> quantize(const fs::path& model, const fs::path& out, bool force,
                                 Progress& progress, const OnMatrix& on_matrix) {
  NMM_ASSIGN(const auto config, io::ModelConfig::load(model / "config.json"));
  if (config.int8_weights) {
    return fail("{}: its weights are int8 already; quantize the original model", model.string());
  }
  NMM_ASSIGN(const auto checkpoint, io::Checkpoint::open(model));
  NMM_ASSIGN(const auto matrices, low_rank_matrices(checkpoint, config));
  const auto if_exists =
      force ? io::FolderWriter::IfExists::kReplace : io::FolderWriter::IfExists::kRefuse;
  NMM_ASSIGN(auto output, io::FolderWriter::create(out, if_exists, model));
  NMM_ASSIGN(const auto work, StagedWork::open(output.staging(), settings_of(model)));
  NMM_TRY(round_all(matrices, checkpoint, work, progress, on_matrix));
  std::vector<MatrixPlan> plans;
  for (const LowRankMatrix& matrix : matrices) plans.push_back(matrix.plan);
  NMM_TRY(write_folder({checkpoint, config, plans, work}, output, progress));
  NMM_TRY(output.copy_other_files(model));
  QuantizeSummary summary = {checkpoint.parameters(), checkpoint.size_bytes(), 0};
  {
    NMM_ASSIGN(const auto written, io::Checkpoint::open(output.staging()));
    summary.bytes_after = written.size_bytes();
  }
  NMM_TRY(work.commit(output));
  return summary;
}

}  // namespace neuronmm::compress
