#include "compress/staged_work.h"

#include <system_error>

#include "io/safetensors_writer.h"
#include "io/text_file.h"

namespace neuronmm::compress {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSettingsName = "settings.json";
constexpr const char* kSingularValues = "singular_values";

Error cannot(const char* verb, const fs::path& path, const std::error_code& error) {
  return fail("{}: cannot be {}: {}", path.string(), verb, error.message());
}

std::vector<double> singular_values(const io::SafetensorsFile& factors) {
  const TensorView& tensor = factors.tensors().at(kSingularValues);
  std::vector<double> values(static_cast<size_t>(tensor.size()));
  to_doubles(tensor, 0, tensor.size(), values.data());
  return values;
}

}  // namespace

// Work under the same settings goes on; anything else in the folder is of another run and is
// deleted.
Result<StagedWork> StagedWork::open(const fs::path& folder, const std::string& settings) {
  const StagedWork work(folder);
  const fs::path settings_path = folder / kSettingsName;
  const auto before = io::read_text_file(settings_path, io::kMaxConfigBytes);
  if (before.ok() && *before == settings) return work;
  std::error_code error;
  fs::remove_all(folder, error);
  if (error) return cannot("deleted", folder, error);
  fs::create_directories(folder, error);
  if (error) return cannot("created", folder, error);
  NMM_TRY(io::write_text_file(settings_path, settings));
  return work;
}

// A matrix is done if its file is whole and holds what this run would have written: its ranks,
// shapes and dtype.
std::optional<MatrixReport> StagedWork::finished(const MatrixPlan& plan, DType dtype) const {
  std::error_code ignored;
  if (!fs::exists(factor_path(plan.layer, plan.matrix), ignored)) return std::nullopt;
  const auto file = open_factors(plan.layer, plan.matrix);
  if (!file.ok()) return std::nullopt;
  const auto has = [&](const char* name, const Shape& shape) {
    const auto found = file->tensors().find(name);
    return found != file->tensors().end() && found->second.shape == shape &&
           found->second.dtype == dtype;
  };
  if (!has("u_t", {plan.rank, plan.in_features}) || !has("v_t", {plan.out_features, plan.rank}) ||
      !file->tensors().contains(kSingularValues)) {
    return std::nullopt;
  }
  return MatrixReport{plan.layer, plan.matrix, plan.rank, plan.kept_share,
                      energy_lost(singular_values(*file), plan.rank)};
}

// Singular values are kept so that a run that goes on reports the same energies.
Status StagedWork::save(const MatrixPlan& plan, DType dtype, const Factors& factors) const {
  const std::vector<double>& values = factors.singular_values;
  NMM_ASSIGN(auto writer, io::SafetensorsWriter::create_checked(
                              factor_path(plan.layer, plan.matrix),
                              {{"u_t", dtype, {plan.rank, plan.in_features}},
                               {"v_t", dtype, {plan.out_features, plan.rank}},
                               {kSingularValues, DType::kF64, {std::ssize(values)}}}));
  NMM_TRY(writer.append(to_checkpoint(factors.u_t, dtype)));
  NMM_TRY(writer.append(to_checkpoint(factors.v_t, dtype)));
  NMM_TRY(writer.append(std::as_bytes(std::span(values))));
  return writer.finish();
}

Result<io::SafetensorsFile> StagedWork::open_factors(int64_t layer, MlpMatrix matrix) const {
  return io::SafetensorsFile::open_checked(factor_path(layer, matrix));
}

fs::path StagedWork::factor_path(int64_t layer, MlpMatrix matrix) const {
  return path_ / fmt::format("layer-{:05}.{}.safetensors", layer, matrix_name(matrix));
}

}  // namespace neuronmm::compress
