#include "compress/sizes/measured_ranks.h"

#include <optional>
#include <system_error>

#include <nlohmann/json.hpp>

#include "compress/sizes/sensitivity.h"
#include "io/checksum.h"
#include "io/json_file.h"
#include "io/text_file.h"

namespace neuronmm::compress {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

// Returns the contents of ranks.json. The checksum shows whether the file has been damaged.
ordered_json ranks_json(const nlohmann::json& ranks) {
  return {{"ranks", ranks}, {"checksum", io::checksum(ranks.dump())}};
}

// Returns the ranks that an interrupted run has left, or nothing if there are none for this plan.
std::optional<std::vector<int64_t>> read_ranks(const fs::path& path, const Plan& uniform) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return std::nullopt;
  const auto saved = io::read_json_object(path, io::kMaxConfigBytes);
  if (!saved.ok() || !saved->contains("ranks")) return std::nullopt;
  const nlohmann::json& list = saved->at("ranks");
  if (*saved != nlohmann::json(ranks_json(list))) return std::nullopt;  // damaged
  if (!list.is_array() || list.size() != uniform.matrices.size()) return std::nullopt;
  std::vector<int64_t> ranks;
  // Ranks are used only if each of them could have been allocated: below break-even, and 0 if the
  // matrix is not compressed.
  for (const MatrixPlan& matrix : uniform.matrices) {
    const nlohmann::json& rank = list[ranks.size()];
    if (!rank.is_number_unsigned()) return std::nullopt;
    ranks.push_back(rank.get<int64_t>());
    const bool fits = saves_parameters(matrix.in_features, matrix.out_features, ranks.back());
    if (!fits || (matrix.rank == 0 && ranks.back() != 0)) return std::nullopt;
  }
  return ranks;
}

}  // namespace

Result<Plan> plan_by_measurement(const CompressionInputs& inputs, const Plan& uniform,
                                 int64_t block, const WeightFormats& weights,
                                 const GramSource& grams, const fs::path& work) {
  const fs::path path = work / "ranks.json";
  auto ranks = read_ranks(path, uniform);
  if (!ranks) {
    NMM_ASSIGN(const auto sensitivities, measure_sensitivity(inputs, uniform, block, grams));
    Allocation found = allocate_ranks(uniform, block, sensitivities);
    inputs.progress.print(
        fmt::format("allocated by measurement: {} parameters in the matrices to compress; uniform "
                    "ranks would have {} ({:.2f} % more)",
                    found.parameters, found.uniform_parameters,
                    100.0 * static_cast<double>(found.uniform_parameters - found.parameters) /
                        static_cast<double>(found.parameters)));
    NMM_TRY(io::write_text_file(path, ranks_json(found.ranks).dump() + "\n"));
    ranks = std::move(found.ranks);
  }
  return plan_of_ranks(inputs.config, *ranks, weights);
}

}  // namespace neuronmm::compress
