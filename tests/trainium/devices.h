#pragma once
// The devices that the tests simulate, for all tests of the Trainium libraries.

#include "trainium/simulator/device_spec.h"

namespace neuronmm::simulator {

inline const DeviceSpec kTrn1 = find_device("trn1").value();
inline const DeviceSpec kTrn2 = find_device("trn2").value();

}  // namespace neuronmm::simulator
