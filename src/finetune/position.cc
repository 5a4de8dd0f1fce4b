#include "finetune/position.h"

#include <nlohmann/json.hpp>

namespace neuronmm::finetune {
namespace {

using nlohmann::json;

Position position_of(const json& value) {
  Position position;
  position.phase = value.at("phase").get<int64_t>();
  position.step = value.at("step").get<int64_t>();
  position.steps = value.at("steps").get<std::vector<int64_t>>();
  for (const json& epoch : value.at("epochs")) {
    position.epochs.push_back(
        {epoch.at(0).get<int64_t>(), epoch.at(1).get<double>(), epoch.at(2).get<int64_t>()});
  }
  for (const json& validation : value.at("validations")) {
    position.validations.push_back({validation.at(0).get<int64_t>(),
                                    validation.at(1).get<int64_t>(),
                                    validation.at(2).get<double>()});
  }
  for (const json& block : value.at("blocks")) {
    position.blocks.push_back({block.at(0).get<double>(), block.at(1).get<double>()});
  }
  return position;
}

}  // namespace

std::optional<Validation> best_of(const std::vector<Validation>& validations, int64_t phase) {
  std::optional<Validation> best;
  for (const Validation& validation : validations) {
    if (validation.phase != phase) continue;
    if (!best || validation.loss < best->loss) best = validation;
  }
  return best;
}

std::string to_text(const Position& position) {
  json epochs = json::array(), validations = json::array(), blocks = json::array();
  for (const EpochLoss& epoch : position.epochs) {
    epochs.push_back({epoch.phase, epoch.sum, epoch.tokens});
  }
  for (const Validation& validation : position.validations) {
    validations.push_back({validation.phase, validation.step, validation.loss});
  }
  for (const BlockError& block : position.blocks) blocks.push_back({block.before, block.after});
  return json{{"phase", position.phase}, {"step", position.step},      {"steps", position.steps},
              {"epochs", epochs},        {"validations", validations}, {"blocks", blocks}}
      .dump();
}

Result<Position> parse_position(const std::string& text, const std::string& source) {
  try {
    return position_of(json::parse(text));
  } catch (const json::exception&) {
    return fail("{}: expected the position of a training run, found none", source);
  }
}

}  // namespace neuronmm::finetune
