// Checks the devices' parameters: their sources, their table and the peaks that follow from them.

#include "trainium/simulator/device_spec.h"

#include <set>

#include <gtest/gtest.h>

namespace neuronmm::simulator {
namespace {

TEST(DeviceSpec, EveryNumberHasASource) {
  for (const DeviceSpec& device : devices()) {
    std::set<std::string_view> names;
    for (const ParameterRow& row : parameter_rows()) {
      SCOPED_TRACE(std::string(device.name) + " " + std::string(row.name));
      EXPECT_FALSE((device.*row.member).source.empty());
      EXPECT_TRUE(names.insert(row.name).second);
    }
  }
}

// The table lists every parameter of the struct if their sizes agree.
TEST(DeviceSpec, TheTableListsEveryParameter) {
  EXPECT_EQ(sizeof(DeviceSpec),
            2 * sizeof(std::string_view) + parameter_rows().size() * sizeof(Parameter));
}

TEST(DeviceSpec, NothingIsMeasuredOnTrn3) {
  const DeviceSpec trn3 = *find_device("trn3");
  for (const ParameterRow& row : parameter_rows()) {
    const Grade grade = (trn3.*row.member).grade;
    EXPECT_TRUE(grade == Grade::kDocumented || grade == Grade::kAssumed) << row.name;
  }
}

// The peak is 2 · 128 · 128 · clock. The hardware pages print 92, 79 and 79 TFLOPS.
TEST(DeviceSpec, PeaksAreThoseOfTheHardwarePages) {
  EXPECT_NEAR(find_device("trn1")->peak_flops_per_ns(), 91.75e3, 10);
  EXPECT_NEAR(find_device("trn2")->peak_flops_per_ns(), 78.64e3, 10);
  EXPECT_NEAR(find_device("trn3")->peak_flops_per_ns(), 78.64e3, 10);
}

TEST(DeviceSpec, AnUnknownDeviceListsTheNames) {
  const auto device = find_device("trn9");
  ASSERT_FALSE(device.ok());
  EXPECT_NE(device.error().message.find("'trn9'"), std::string::npos);
  EXPECT_NE(device.error().message.find("trn1, trn2 or trn3"), std::string::npos);
}

TEST(DeviceSpec, TheTextHasNamesAndGrades) {
  const std::string text = to_string(*find_device("trn2"));
  EXPECT_NE(text.find("trn2 (NeuronCore-v3)"), std::string::npos);
  EXPECT_NE(text.find("documented"), std::string::npos);
  EXPECT_NE(text.find("fitted"), std::string::npos);
}

}  // namespace
}  // namespace neuronmm::simulator
