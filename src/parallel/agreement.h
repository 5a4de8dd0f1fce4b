#pragma once
// What all processes must have in common before they work together.

#include <span>
#include <string>

#include "base/result.h"
#include "parallel/communicator.h"

namespace neuronmm::parallel {

struct Fact {
  std::string name;   // "the version", as in a message
  std::string value;  // any text; compared byte by byte
};

// Of every process the same facts in the same order; the same result everywhere. Error: the first
// fact in which a process differs from process 0, with both values.
Status agree(Communicator& communicator, std::span<const Fact> facts);

// ok if all are; else the error of the lowest process that has one, which it names unless it is
// process 0.
Status agree(Communicator& communicator, const Status& status);

}  // namespace neuronmm::parallel
