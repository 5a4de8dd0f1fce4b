#pragma once
// The devices that the tests simulate.

#include "trainium/simulator/device_spec.h"

namespace neuronmm::simulator {

inline const DeviceSpec kTrn1 = find_device("trn1").value();
inline const DeviceSpec kTrn2 = find_device("trn2").value();

}  // namespace neuronmm::simulator
