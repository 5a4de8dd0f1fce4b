#include "fit/losses_json.h"

#include <cmath>
#include <system_error>

#include <nlohmann/json.hpp>

#include "io/json_file.h"
#include "io/text_file.h"

namespace neuronmm::fit {

Result<LossesByName> read_losses(const std::filesystem::path& path) {
  std::error_code ignored;
  LossesByName losses;
  if (!std::filesystem::exists(path, ignored)) return losses;
  NMM_ASSIGN(const auto object, io::read_json_object(path, io::kMaxConfigBytes));
  for (const auto& [name, list] : object.items()) {
    FormatLosses values = {};
    bool good = list.is_array() && list.size() == kFormats;
    for (size_t i = 0; good && i < kFormats; ++i) {
      good = list[i].is_number() && list[i].get<double>() >= 0.0 &&
             std::isfinite(list[i].get<double>());
      if (good) values[i] = list[i].get<double>();
    }
    if (!good) {
      return fail(
          "{}: \"{}\": expected {} losses from 0, found {}; delete the file to measure again",
          path.string(), name, kFormats, io::describe_json(list));
    }
    losses[name] = values;
  }
  return losses;
}

Status write_losses(const std::filesystem::path& path, const LossesByName& losses) {
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  for (const auto& [name, values] : losses) object[name] = values;
  return io::write_text_file(path, object.dump(1) + "\n");
}

}  // namespace neuronmm::fit
