#include "exports/target.h"

#include <algorithm>

#include <fmt/ranges.h>

namespace neuronmm::exports {
namespace {

// Documented: the notes of SDK 2.32 name plugin 0.24.0.1.1.0, and those of 2.33 name 0.29.0.1.2.0.
// The plugin of 2.31, whose setup guide names vLLM 0.21, has not been read and is therefore not
// listed. The upstream files of 0.29 could not be read.
const std::vector<Release> kVllmReleases = {
    {"2.32", {{"nki", "0.6"}, {"vllm", "0.24"}, {"vllm-neuron", "0.24"}}, {"trn2", "trn3"}},
    {"2.33", {{"nki", "0.7"}, {"vllm", "0.29"}, {"vllm-neuron", "0.29"}}, {"trn2", "trn3"}}};

// The sources of neuronx-distributed-inference 0.7 to 0.9 were read. Documented: the notes of SDK
// 2.29 say that kernels of NKI 0.3, which its own modules use, do not run on trn1.
const std::vector<Release> kNxdiReleases = {
    {"2.27", {{"neuronx-distributed-inference", "0.7"}}, {"trn1", "trn2"}},
    {"2.28", {{"neuronx-distributed-inference", "0.8"}}, {"trn1", "trn2"}},
    {"2.29", {{"neuronx-distributed-inference", "0.9"}}, {"trn2"}}};

std::vector<std::string> devices_of(Target target) {
  std::vector<std::string> devices;
  for (const Release& release : releases(target)) {
    for (const std::string& device : release.devices) {
      if (std::ranges::find(devices, device) == devices.end()) devices.push_back(device);
    }
  }
  return devices;
}

}  // namespace

std::string_view target_name(Target target) {
  return target == Target::kVllmNeuron ? "vllm-neuron" : "nxdi";
}

const std::vector<std::string>& target_names() {
  static const std::vector<std::string> names = {"vllm-neuron", "nxdi"};
  return names;
}

std::optional<Target> find_target(std::string_view name) {
  for (const Target target : {Target::kVllmNeuron, Target::kNxdi}) {
    if (name == target_name(target)) return target;
  }
  return std::nullopt;
}

const std::vector<Release>& releases(Target target) {
  return target == Target::kVllmNeuron ? kVllmReleases : kNxdiReleases;
}

Result<Choice> choose_release(Target target, std::string_view device, std::string_view sdk) {
  const std::vector<std::string> devices = devices_of(target);
  Choice choice{.device = device.empty() ? devices.front() : std::string(device), .release = {}};
  std::vector<std::string> releases_of_device;
  for (const Release& release : releases(target)) {
    if (std::ranges::find(release.devices, choice.device) == release.devices.end()) continue;
    releases_of_device.push_back(release.sdk);
    if (sdk.empty() || sdk == release.sdk) choice.release = release;
  }
  if (releases_of_device.empty()) {
    return fail("{}: runs on {}, found {}", target_name(target), fmt::join(devices, " and "),
                choice.device);
  }
  if (choice.release.sdk.empty()) {
    return fail("{} on {}: written for the Neuron SDK {}, found {}", target_name(target),
                choice.device, fmt::join(releases_of_device, ", "), sdk);
  }
  return choice;
}

}  // namespace neuronmm::exports
