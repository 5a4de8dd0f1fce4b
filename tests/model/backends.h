#pragma once
// The backends that every test of the transformer runs on, as a parameter of its test suite.

#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "cpu/backend.h"
#include "ops/reference.h"

namespace neuronmm::model {

enum class Device { kReference, kCpu };

inline std::unique_ptr<ops::Backend> make_backend(Device device) {
  return device == Device::kReference ? ops::make_reference_backend() : cpu::make_backend();
}

inline std::string device_name(const testing::TestParamInfo<Device>& info) {
  return info.param == Device::kReference ? "reference" : "cpu";
}

class OnBackend : public testing::TestWithParam<Device> {
 protected:
  std::unique_ptr<ops::Backend> backend = make_backend(GetParam());
};

#define NMM_ON_ALL_BACKENDS(suite)                                                         \
  INSTANTIATE_TEST_SUITE_P(                                                                \
      Devices, suite,                                                                      \
      testing::Values(neuronmm::model::Device::kReference, neuronmm::model::Device::kCpu), \
      neuronmm::model::device_name)

}  // namespace neuronmm::model
