#include "trainium/nki/release.h"

#include <fmt/format.h>

namespace neuronmm::nki {
namespace {

// Documented: the migration guides of NKI, which map its versions to releases. SDK 2.29 compiles
// both dialects, and 2.30 answers to the legacy one with an error.
constexpr Release kReleases[] = {
    {"2.27", "0.1", Dialect::kNeuronxcc},
    {"2.28", "0.2", Dialect::kNeuronxcc},
    {"2.29", "0.3", Dialect::kNki},
    {"2.30", "0.4", Dialect::kNki},
    {"2.31", "0.5", Dialect::kNki},
    {"2.32", "0.6", Dialect::kNki},
    kNewestRelease,
};
constexpr Release kNewestOfTrn1 = kReleases[1];

}  // namespace

std::string_view dialect_name(Dialect dialect) {
  return dialect == Dialect::kNki ? "nki" : "neuronxcc";
}

const std::vector<std::string>& release_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Release& release : kReleases) all.emplace_back(release.sdk);
    return all;
  }();
  return names;
}

std::optional<Release> find_release(std::string_view sdk) {
  for (const Release& release : kReleases) {
    if (release.sdk == sdk) return release;
  }
  return std::nullopt;
}

Release newest_release(std::string_view device) {
  return device == "trn1" ? kNewestOfTrn1 : kNewestRelease;
}

std::string why_unsuited(const Release& release, std::string_view device) {
  const Release newest = newest_release(device);
  if (release.dialect == newest.dialect) return "";
  if (release.dialect == Dialect::kNki) {
    return fmt::format("trn1 has the Neuron SDK {} and its dialect neuronxcc, not the NKI {} of {}",
                       newest.sdk, release.nki, release.sdk);
  }
  return fmt::format(
      "the Neuron SDK 2.30 and later ones refuse the dialect neuronxcc of {}; {} has {}",
      release.sdk, device, newest.sdk);
}

}  // namespace neuronmm::nki
