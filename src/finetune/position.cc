#include "finetune/position.h"

#include <algorithm>
#include <limits>

#include <nlohmann/json.hpp>

namespace neuronmm::finetune {
namespace {

using nlohmann::json;

// JSON has no infinity; a trial that diverged is null.
json number(double loss) {
  return loss < std::numeric_limits<double>::infinity() ? json(loss) : json();
}

Position position_of(const json& value) {
  Position position;
  position.step = value.at("step").get<int64_t>();
  position.updates = value.at("updates").get<int64_t>();
  position.skipped = value.at("skipped").get<int64_t>();
  position.skipped_in_row = value.at("skipped_in_row").get<int64_t>();
  position.learning_rate = value.at("learning_rate").get<double>();
  position.loss_sum = value.at("loss_sum").get<double>();
  position.loss_tokens = value.at("loss_tokens").get<int64_t>();
  for (const json& trial : value.at("trials")) {
    const double loss =
        trial.at(1).is_null() ? std::numeric_limits<double>::infinity() : trial.at(1).get<double>();
    position.trials.push_back({trial.at(0).get<double>(), loss});
  }
  for (const json& one : value.at("measurements")) {
    position.measurements.push_back(
        {one.at(0).get<int64_t>(), one.at(1).get<double>(), one.at(2).get<double>()});
  }
  return position;
}

}  // namespace

const Measurement& best_of(const std::vector<Measurement>& measurements) {
  return *std::ranges::min_element(measurements, {}, &Measurement::held_out);
}

std::string to_text(const Position& position) {
  json trials = json::array(), measurements = json::array();
  for (const RateTrial& trial : position.trials) {
    trials.push_back({trial.learning_rate, number(trial.loss)});
  }
  for (const Measurement& one : position.measurements) {
    measurements.push_back({one.step, one.held_out, one.training});
  }
  return json{{"step", position.step},
              {"updates", position.updates},
              {"skipped", position.skipped},
              {"skipped_in_row", position.skipped_in_row},
              {"learning_rate", position.learning_rate},
              {"loss_sum", position.loss_sum},
              {"loss_tokens", position.loss_tokens},
              {"trials", trials},
              {"measurements", measurements}}
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
