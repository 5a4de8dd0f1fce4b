#pragma once
// Protects unfinished work for the output folder of `fit`. A search may choose another model each
// time, because it measures times. `fit` then deletes what an interrupted `fit` with the same
// settings has left, but never the work of another command or of other settings.

#include "base/result.h"
#include "fit/fit.h"

namespace neuronmm::fit {

// Notes in the folder of the sensitivities that a run with these settings makes the output. Returns
// an error of kind kExists if there is unfinished work of anything else, unless `force` is set.
Status claim_output(const FitRequest& request);

// Removes the note, when the output is complete.
void release_output(const FitRequest& request);

}  // namespace neuronmm::fit
