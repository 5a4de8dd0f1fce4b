// Tests how a release of the Neuron SDK is chosen for a target and a device.

#include "exports/target.h"

#include <gtest/gtest.h>

namespace neuronmm::exports {
namespace {

std::string error_of(Target target, const char* device, const char* sdk) {
  const auto choice = choose_release(target, device, sdk);
  return choice.ok() ? "" : choice.error().message;
}

TEST(Target, NamesCanBeFound) {
  for (const std::string& name : target_names()) {
    ASSERT_TRUE(find_target(name)) << name;
    EXPECT_EQ(target_name(*find_target(name)), name);
  }
  EXPECT_FALSE(find_target("vllm"));
}

TEST(Target, TheNewestReleaseForTheDeviceUnlessOneIsNamed) {
  EXPECT_EQ(choose_release(Target::kVllmNeuron, "", "")->device, "trn2");
  EXPECT_EQ(choose_release(Target::kVllmNeuron, "trn3", "")->release.sdk, "2.33");
  // The own modules of SDK 2.29 use kernels that do not run on trn1.
  EXPECT_EQ(choose_release(Target::kNxdi, "", "")->device, "trn1");
  EXPECT_EQ(choose_release(Target::kNxdi, "", "")->release.sdk, "2.28");
  EXPECT_EQ(choose_release(Target::kNxdi, "trn2", "")->release.sdk, "2.29");
  EXPECT_EQ(choose_release(Target::kVllmNeuron, "", "")->release.packages[1].version, "0.29");
  EXPECT_EQ(choose_release(Target::kVllmNeuron, "", "2.32")->release.packages[1].version, "0.24");
  const auto older = choose_release(Target::kNxdi, "trn2", "2.27");
  ASSERT_TRUE(older.ok());
  EXPECT_EQ(older->release.packages.front().version, "0.7");
}

TEST(Target, ErrorsListTheSupportedReleasesAndDevices) {
  EXPECT_EQ(error_of(Target::kNxdi, "trn1", "2.29"),
            "nxdi on trn1: written for the Neuron SDK 2.27, 2.28, found 2.29");
  EXPECT_EQ(error_of(Target::kVllmNeuron, "", "2.30"),
            "vllm-neuron on trn2: written for the Neuron SDK 2.32, 2.33, found 2.30");
  EXPECT_EQ(error_of(Target::kVllmNeuron, "trn1", ""),
            "vllm-neuron: runs on trn2 and trn3, found trn1");
  EXPECT_EQ(error_of(Target::kNxdi, "trn3", ""), "nxdi: runs on trn1 and trn2, found trn3");
}

}  // namespace
}  // namespace neuronmm::exports
