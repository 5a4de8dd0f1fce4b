#pragma once
// Reads the layers of a model one by one for training, and keeps trained layers in files of the
// work folder until the model is written.

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "io/checkpoint.h"
#include "io/model_config.h"
#include "training/kept_grid.h"
#include "training/layer.h"

namespace neuronmm::compress {

using TrainingLayer = training::Layer<float>;

// Returns the floats of which a rounded weight was made. Weights that learn begin near them
// (KeptGrid::near_floats).
using Originals = std::function<training::Rows<float>(const std::string& tensor)>;

// A model of which one layer at a time is in memory. If its weights are rounded, layers compute
// with rounded weights while they learn, and the grids of the folder stay (training/kept_grid.h).
class LayerReader {
 public:
  // The model must outlive this object and the layers that it returns. `originals` is for rounded
  // models and may be empty.
  LayerReader(const io::Checkpoint& checkpoint, const io::ModelConfig& config,
              Originals originals = {});

  const io::Checkpoint& checkpoint() const { return checkpoint_; }
  const io::ModelConfig& config() const { return config_; }
  // Fails if tensors of the layer are missing or have other shapes.
  Result<std::unique_ptr<TrainingLayer>> read(int64_t layer);
  // Returns the format of a rounded tensor, or nothing if it has a float dtype.
  std::optional<LowBitFormat> rounding_of(const std::string& tensor) const;
  // Returns false for tensors that stay as they are: routers, and weights of 8 bits, whose grid is
  // fine already.
  bool learns(const std::string& tensor) const;

 private:
  // Lets products compute with rounded weights, as those of the folder will.
  Status round_products(TrainingLayer& layer) const;

  const io::Checkpoint& checkpoint_;
  const io::ModelConfig& config_;
  Originals originals_;
  std::string prefix_;
  training::Angles<float> angles_;
};

// How the reconstruction of one layer ended. Errors are means over the held-out tokens of
// |y − y*|² / |y*|², where y* is the output of the dense model's layer.
struct LayerOutcome {
  double before = 0.0, after = 0.0;
  int64_t passes = 0;   // over the text
  int64_t skipped = 0;  // steps whose gradient had NaN or infinity
  double seconds = 0.0;
};

// Rounds the tensors of a layer to the dtypes or the grids that they have in the model.
void round_as_stored(const LayerReader& reader, TrainingLayer& layer);

// Returns the file of a reconstructed layer. Its tensors have the names of the checkpoint, also
// those that hold the codes, scales and groups of a rounded weight. Weights of 8 bits are left out.
std::filesystem::path reconstructed_path(const std::filesystem::path& work, int64_t layer);
// Writes the tensors of a layer in the dtypes and formats that they have in the model, with a
// checksum.
Status write_reconstructed(const std::filesystem::path& path, const LayerReader& reader,
                           TrainingLayer& layer, const LayerOutcome& outcome);
// Replaces the layer's tensors by those of the file. Returns nothing and leaves the layer as it is
// if the file is missing, damaged, or not of this layer.
std::optional<LayerOutcome> read_reconstructed(const std::filesystem::path& path,
                                               const LayerReader& reader, TrainingLayer& layer);

}  // namespace neuronmm::compress
