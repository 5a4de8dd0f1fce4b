#include "fit/correction_json.h"

#include <cmath>
#include <system_error>

#include <nlohmann/json.hpp>

#include "io/json_file.h"
#include "io/text_file.h"

namespace neuronmm::fit {
namespace {

// Ratios above this bound or below its inverse mean that a measurement or its file is wrong.
// Assumed.
constexpr double kMaxRatio = 1e6;

Status read_list(const io::JsonFields& fields, const char* key, std::vector<double>& ratios) {
  const nlohmann::json* const list = fields.find(key);
  if (list == nullptr) return fields.missing(key);
  if (!list->is_array()) return fields.wrong(key, "an array of ratios");
  for (const nlohmann::json& value : *list) {
    const double ratio = value.is_number() ? value.get<double>() : 0.0;
    if (!(ratio > 1.0 / kMaxRatio && ratio < kMaxRatio)) {
      return fields.wrong(key, "ratios between 1e-6 and 1e6");
    }
    ratios.push_back(ratio);
  }
  return {};
}

}  // namespace

Result<Ratios> read_ratios(const std::filesystem::path& path) {
  std::error_code ignored;
  Ratios ratios;
  if (!std::filesystem::exists(path, ignored)) return ratios;
  NMM_ASSIGN(const auto object, io::read_json_object(path, io::kMaxConfigBytes));
  const io::JsonFields fields(object, path.string());
  NMM_TRY(read_list(fields, "shapes", ratios.shapes));
  NMM_TRY(read_list(fields, "rounding", ratios.rounding));
  return ratios;
}

Status write_ratios(const std::filesystem::path& path, const Ratios& ratios) {
  const nlohmann::ordered_json json = {{"shapes", ratios.shapes}, {"rounding", ratios.rounding}};
  return io::write_text_file(path, json.dump() + "\n");
}

double geometric_mean(const std::vector<double>& ratios) {
  if (ratios.empty()) return 1.0;
  double sum = 0.0;
  for (const double ratio : ratios) sum += std::log(ratio);
  return std::exp(sum / static_cast<double>(ratios.size()));
}

}  // namespace neuronmm::fit
