#pragma once
// This file removes loops that run once, so that the emitted source has no loops of one iteration.
// The emitter calls it first.

#include "trainium/tile/program.h"

namespace neuronmm::nki {

// Returns the program without loops that run once. Their bodies move up, and their variables, which
// are always 0, disappear. Sizes that become constant lose their limits.
tile::Program fold_single_trips(tile::Program program);

}  // namespace neuronmm::nki
