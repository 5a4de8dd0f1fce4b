#pragma once
// This file defines the forms that an MLP may have, for the figure `neuronmm paper forms`. Every
// form has as many of the dense MLP's parameters as a kept share allows, in whole tiles of 128.

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "trainium/device/backend.h"
#include "trainium/device/mlp_shape.h"
#include "trainium/simulator/device_spec.h"

namespace neuronmm::apps {

// The sizes of a dense MLP.
struct MlpSizes {
  int64_t hidden = 0, intermediate = 0;
};

// A form with its sizes and the shape that runs it.
struct MlpForm {
  std::string name;   // The name: "uv", "pivoted", "narrow", "neurons" or "dense".
  std::string sizes;  // The sizes as text: "r 1280".
  double kept = 1;    // The share of the dense MLP's parameters.
  // The shape for the device: one kernel, with gathers before and after it.
  device::MlpShape shape;
};
// Returns the forms, dense first. Fails if the kept share is too small for one of the forms.
Result<std::vector<MlpForm>> forms_at(const MlpSizes& mlp, double kept_share);

// Returns a function that gives the time of an MLP of this form for a number of tokens. The tilings
// are tuned for whole row tiles. The function keeps the time for every number of tokens.
device::MlpSeconds seconds_of(const MlpForm& form, const simulator::DeviceSpec& device);

}  // namespace neuronmm::apps
