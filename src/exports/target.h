#pragma once
// What runs models on a Trainium, and in which versions. Nobody of this project has run any of it:
// package versions are those of the SDK's documentation (aws-neuron-sdk, 2.32) and of the sources
// named at each.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace neuronmm::exports {

enum class Target {
  kVllmNeuron,  // the vLLM Neuron plugin, which has its models in PyTorch (trn2, trn3)
  kNxdi,        // NxD Inference (trn1, trn2): in maintenance since SDK 2.30, gone from 2.32
};
std::string_view target_name(Target target);  // "vllm-neuron", "nxdi"
std::optional<Target> find_target(std::string_view name);
const std::vector<std::string>& target_names();

struct Package {
  std::string name;     // of its distribution
  std::string version;  // the beginning: "0.6" is 0.6 and 0.6.1
};
struct Release {
  std::string sdk;  // "2.32"
  std::vector<Package> packages;
  std::vector<std::string> devices;
};
// The releases whose interfaces this export was written for, the oldest first.
const std::vector<Release>& releases(Target target);

// `device` empty: the target's first; `sdk` empty: the newest release for the device. Errors name
// what there is.
struct Choice {
  std::string device;
  Release release;
};
Result<Choice> choose_release(Target target, std::string_view device, std::string_view sdk);

}  // namespace neuronmm::exports
