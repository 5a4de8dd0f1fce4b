#pragma once
// Layer reconstruction: after a model is compressed, its layers learn one after the other, from the
// first to the last. A layer gets the hidden states of the compressed model and learns the output
// of the dense model's layer, which gets those of the dense model. So a later layer also corrects
// what is left of the errors of earlier ones. All weights and norms of the layer learn, by AdamW,
// except the router of a mixture (docs/design/reconstruction.md). The error of a token is relative
// to its target, because massive activations would outweigh all others.
//
// The compressed model may be rounded. Its weights of 6 and 4 bits then learn their codes, through
// the rounding, and keep scales and groups. Those of 8 bits stay as they are.
//
// The error on held-out sequences decides which state is kept and when a layer stops. A layer never
// gets worse than it was. Every finished layer is kept in a file of the work folder, and a run that
// continues gets the same bits. Memory holds one layer of each model and what its training needs;
// the hidden states of both models take 8·hidden_size bytes per token, in memory or in files.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "compress/calibration/calibration_text.h"
#include "compress/reconstruction/settings.h"
#include "compress/reconstruction/training_layers.h"
#include "compress/statistics/inputs.h"

namespace neuronmm::compress {

struct ReconstructionSummary {
  int64_t tokens = 0, held_out_tokens = 0;
  int64_t passes = 0;  // at most
  std::vector<LayerOutcome> layers;

  int64_t skipped() const;
  double seconds() const;  // of training, without the passes of the hidden states
  // The mean errors of the layers that had any.
  double mean_before() const, mean_after() const;
};
// Returns "on 131072 tokens: mean error of a layer 0.0123, was 0.0169".
std::string reconstruction_text(const ReconstructionSummary& summary);

// Returns what is done, or nothing if the layers stay as they are. Says why if that is not `asked`.
// Fails if a number of tokens is asked for and memory does not suffice for a layer. The earlier
// steps of a command may still hold memory, so that a layer that would have fitted does not.
Result<std::optional<ReconstructionPlan>> planned_reconstruction(const Reconstruct& asked,
                                                                 const CompressionInputs& inputs);

// Reconstructs the layers of the folder `compressed`, which stays as it is: a model with the layers
// and the width of the dense model `inputs`. inputs.text must be set. If `compressed` is rounded,
// `originals` may name its floats (training_layers.h). The results are in `work`
// (write_reconstructed_model). Fails if a layer cannot be read, files cannot be written, the memory
// of the machine does not suffice for one layer, or after an interrupt.
Result<ReconstructionSummary> reconstruct(const CompressionInputs& inputs,
                                          const std::filesystem::path& compressed,
                                          const ReconstructionPlan& plan,
                                          const std::filesystem::path& work,
                                          const Originals& originals = {});

// Writes the weights of `compressed` with the reconstructed layers of `work` to `folder`.
Status write_reconstructed_model(const std::filesystem::path& compressed,
                                 const std::filesystem::path& work,
                                 const std::filesystem::path& folder, Progress& progress);

}  // namespace neuronmm::compress
