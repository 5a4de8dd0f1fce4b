#pragma once
// The software that can run a model on a Trainium, and its versions. Nobody in this project has run
// any of it. Package versions are those of the SDK's documentation (aws-neuron-sdk, 2.32 and 2.33)
// and of the sources named in target.cc. The `export` command chooses a release here and fails for
// devices and releases that are not listed.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace neuronmm::exports {

// The software that an export is written for.
enum class Target {
  // The vLLM Neuron plugin, which has its models in PyTorch (trn2, trn3).
  kVllmNeuron,
  // NxD Inference (trn1, trn2). In maintenance since SDK 2.30, not part of 2.32. Its support on
  // trn2 ends with 2.34.
  kNxdi,
};
std::string_view target_name(Target target);  // "vllm-neuron", "nxdi"
// Returns the target with this name, or nothing.
std::optional<Target> find_target(std::string_view name);
const std::vector<std::string>& target_names();

// A Python package and its version.
struct Package {
  std::string name;     // the name of its distribution
  std::string version;  // a prefix: "0.7" means 0.7 and 0.7.1
};
// A release of the Neuron SDK.
struct Release {
  std::string sdk;  // "2.33"
  std::vector<Package> packages;
  std::vector<std::string> devices;
};
// Returns the releases whose interfaces an export for `target` was written for, the oldest first.
const std::vector<Release>& releases(Target target);

// A release and one of its devices.
struct Choice {
  std::string device;
  Release release;
};
// Chooses the release for `device` and `sdk`. An empty `device` means the target's first device,
// and an empty `sdk` the newest release for the device. Errors list what is available.
Result<Choice> choose_release(Target target, std::string_view device, std::string_view sdk);

}  // namespace neuronmm::exports
