#pragma once
// Loops that run once are no loops in source.

#include "trainium/tile/program.h"

namespace neuronmm::nki {

// The same program without them: their bodies move up, their variables, which are 0, disappear.
// Sizes that are then constant lose their limits.
tile::Program fold_single_trips(tile::Program program);

}  // namespace neuronmm::nki
