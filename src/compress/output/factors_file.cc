#include "compress/output/factors_file.h"

#include <system_error>

#include "compress/rounding/stored_format.h"
#include "io/safetensors_writer.h"

namespace neuronmm::compress {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSingularValues = "singular_values";

// Returns the singular values that the file holds.
std::vector<double> singular_values(const io::SafetensorsFile& factors) {
  const TensorView& tensor = factors.tensors().at(kSingularValues);
  std::vector<double> values(static_cast<size_t>(tensor.size()));
  to_doubles(tensor, 0, tensor.size(), values.data());
  return values;
}

fs::path factors_path(const fs::path& work, int64_t layer, MlpMatrix matrix) {
  return work / fmt::format("layer-{:05}.{}.safetensors", layer, matrix_name(matrix));
}

// Writes the file of one matrix. The singular values are included so that a continued run reports
// the same energies.
Status write_factors(const fs::path& work, const MatrixPlan& plan, DType dtype,
                     const Factors& factors) {
  const std::vector<double>& values = factors.singular_values;
  NMM_ASSIGN(auto writer, io::SafetensorsWriter::create_checked(
                              factors_path(work, plan.layer, plan.matrix),
                              {{"u_t", dtype, {plan.rank, plan.in_features}},
                               {"v_t", dtype, {plan.out_features, plan.rank}},
                               {kSingularValues, DType::kF64, {std::ssize(values)}}}));
  NMM_TRY(writer.append(to_checkpoint(factors.u_t, dtype)));
  NMM_TRY(writer.append(to_checkpoint(factors.v_t, dtype)));
  NMM_TRY(writer.append(std::as_bytes(std::span(values))));
  return writer.finish();
}

MatrixReport report_of(const MatrixPlan& plan, const std::vector<double>& singular_values) {
  return {plan.layer, plan.matrix, plan.rank, plan.kept_share,
          energy_lost(singular_values, plan.rank)};
}

}  // namespace

// The file counts only if it has the rank, the shapes and the dtype that this run would write.
std::optional<MatrixReport> finished_factors(const fs::path& work, const MatrixPlan& plan,
                                             DType dtype) {
  std::error_code ignored;
  if (!fs::exists(factors_path(work, plan.layer, plan.matrix), ignored)) return std::nullopt;
  const auto file = open_factors(work, plan.layer, plan.matrix);
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
  return report_of(plan, singular_values(*file));
}

Result<MatrixReport> save_factors(const fs::path& work, const MatrixPlan& plan,
                                  const Factors& factors, const StoredFormat& stored) {
  const DType dtype = staged_dtype(stored);
  for (const DoubleMatrix* const factor : {&factors.u_t, &factors.v_t}) {
    NMM_TRY(check_range(fmt::format("layer {} {}", plan.layer, matrix_name(plan.matrix)), *factor,
                        dtype));
  }
  NMM_TRY(write_factors(work, plan, dtype, factors));
  return report_of(plan, factors.singular_values);
}

Result<io::SafetensorsFile> open_factors(const fs::path& work, int64_t layer, MlpMatrix matrix) {
  return io::SafetensorsFile::open_checked(factors_path(work, layer, matrix));
}

}  // namespace neuronmm::compress
