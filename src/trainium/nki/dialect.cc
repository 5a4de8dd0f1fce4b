#include "trainium/nki/dialect.h"

namespace neuronmm::nki {

std::string_view dialect_name(Dialect dialect) {
  return dialect == Dialect::kNki ? "nki" : "neuronxcc";
}

std::optional<Dialect> find_dialect(std::string_view name) {
  for (const Dialect dialect : {Dialect::kNki, Dialect::kNeuronxcc}) {
    if (name == dialect_name(dialect)) return dialect;
  }
  return std::nullopt;
}

Dialect dialect_for(std::string_view device) {
  return device == "trn1" ? Dialect::kNeuronxcc : Dialect::kNki;
}

std::string why_unsuited(Dialect dialect, std::string_view device) {
  if (dialect == dialect_for(device)) return "";
  if (dialect == Dialect::kNki) {
    return "the dialect nki is supported on trn2 and trn3; trn1 has the Neuron SDK 2.28 and its "
           "dialect neuronxcc";
  }
  if (device == "trn3") {
    return "trn3 needs a Neuron SDK that no longer compiles the dialect neuronxcc (2.30 on)";
  }
  return "the Neuron SDK no longer compiles the dialect neuronxcc from 2.30 on; trn2 has nki";
}

}  // namespace neuronmm::nki
