#pragma once
// The forms that an MLP may have, each with as many of the dense MLP's parameters as a kept share
// allows, in whole tiles of 128.

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "trainium/device/backend.h"
#include "trainium/device/mlp_shape.h"
#include "trainium/simulator/device_spec.h"

namespace neuronmm::apps {

struct MlpSizes {
  int64_t hidden = 0, intermediate = 0;
};

struct MlpForm {
  std::string name;        // "uv", "pivoted", "narrow", "neurons", "dense"
  std::string sizes;       // "r 1280"
  double kept = 1;         // share of the dense MLP's parameters
  device::MlpShape shape;  // what runs it: one kernel, and gathers around it
};
// Errors: a kept share that leaves a form nothing.
Result<std::vector<MlpForm>> forms_at(const MlpSizes& mlp, double keep);

// What an MLP of this form takes on so many rows, at the tilings tuned for whole row tiles. Kept
// for every number of tokens.
device::MlpSeconds seconds_of(const MlpForm& form, const simulator::DeviceSpec& device);

}  // namespace neuronmm::apps
