#pragma once
// The forms that an MLP may have, each with as many of the dense MLP's parameters as a kept share
// allows: sizes in whole tiles of 128, and the kernels that run it.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "trainium/device/backend.h"
#include "trainium/kernels/registry.h"
#include "trainium/simulator/device_spec.h"

namespace neuronmm::apps {

struct MlpSizes {
  int64_t hidden = 0, intermediate = 0;
};

struct MlpForm {
  std::string name;   // "uv", "pivoted", "narrow", "neurons", "dense"
  std::string sizes;  // "r 1280"
  double kept = 1;    // share of the dense MLP's parameters
  // One token block's kernels, one after the other, and how often X or Y is gathered.
  std::function<std::vector<std::pair<std::string_view, kernels::KernelShape>>(int64_t tokens)>
      kernels;
  bool gated_apart = false;  // silu(gate) * up is an operation of its own
  int gathers = 0;
};
// Errors: a kept share that leaves a form nothing.
Result<std::vector<MlpForm>> forms_at(const MlpSizes& mlp, double keep);

// What an MLP of this form takes on `tokens` rows: its kernels at the tilings chosen for whole row
// tiles, a gather or a gating by itself as a roofline. Kept for every number of tokens.
device::MlpSeconds seconds_of(const MlpForm& form, const MlpSizes& mlp,
                              const simulator::DeviceSpec& device);

}  // namespace neuronmm::apps
