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

Status remove_all_but(const fs::path& folder, const fs::path& kept) {
  std::error_code error;
  std::vector<fs::path> doomed;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path() != kept) doomed.push_back(entry->path());
  }
  if (error) return cannot("read", folder, error);
  for (const fs::path& path : doomed) {
    fs::remove_all(path, error);
    if (error) return cannot("deleted", path, error);
  }
  return {};
}

}  // namespace

Result<StagedWork> StagedWork::open(const fs::path& staging, const std::string& settings) {
  const StagedWork work(staging / kName);
  const fs::path settings_path = work.path_ / kSettingsName;
  std::error_code error;
  const bool ours = fs::exists(settings_path, error);
  if (!ours && !fs::is_empty(staging, error)) {
    return fail(
        "{}: expected nothing or an unfinished compression, found other files; delete or rename it",
        staging.string());
  }
  bool same = false;
  if (ours) {
    NMM_ASSIGN(const std::string before, io::read_text_file(settings_path));
    same = before == settings;
  }
  NMM_TRY(remove_all_but(staging, same ? work.path_ : fs::path()));
  fs::create_directories(work.path_, error);
  if (error) return cannot("created", work.path_, error);
  if (!same) NMM_TRY(io::write_text_file(settings_path, settings));
  return work;
}

Result<StagedWork> StagedWork::subfolder(const std::string& name) const {
  StagedWork inner(path_ / name);
  std::error_code error;
  fs::create_directories(inner.path_, error);
  if (error) return cannot("created", inner.path_, error);
  return inner;
}

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

Status StagedWork::save(const MatrixPlan& plan, DType dtype, const Factors& factors) const {
  const std::vector<double>& values = factors.singular_values;
  NMM_ASSIGN(auto writer,
             io::SafetensorsWriter::create(factor_path(plan.layer, plan.matrix),
                                           {{"u_t", dtype, {plan.rank, plan.in_features}},
                                            {"v_t", dtype, {plan.out_features, plan.rank}},
                                            {kSingularValues, DType::kF64, {std::ssize(values)}}}));
  NMM_TRY(writer.append(to_checkpoint(factors.u_t, dtype)));
  NMM_TRY(writer.append(to_checkpoint(factors.v_t, dtype)));
  NMM_TRY(writer.append(std::as_bytes(std::span(values))));
  return writer.finish();
}

Result<io::SafetensorsFile> StagedWork::open_factors(int64_t layer, MlpMatrix matrix) const {
  return io::SafetensorsFile::open(factor_path(layer, matrix));
}

Status StagedWork::commit(io::FolderWriter& output) const {
  NMM_TRY(output.commit());
  std::error_code error;
  const fs::path work = output.out() / kName;
  fs::remove_all(work, error);
  return error ? Status(cannot("deleted", work, error)) : Status();
}

fs::path StagedWork::factor_path(int64_t layer, MlpMatrix matrix) const {
  return path_ / fmt::format("layer-{:05}.{}.safetensors", layer, matrix_name(matrix));
}

}  // namespace neuronmm::compress
