#pragma once
// Rounds the matrices of a model to block types of GGUF, by what a calibration text says of their
// inputs. The model's weights must be floats and dense. Each matrix is finished in a file of its
// own in a work folder, so that an interrupted run continues. `export --target gguf` is the caller.

#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>

#include "base/result.h"
#include "compress/rounding/row_rounding.h"
#include "compress/statistics/inputs.h"
#include "compress/statistics/saved_statistics.h"
#include "gguf_out/type_mix.h"
#include "io/safetensors.h"

namespace neuronmm::compress {

// The type of each tensor, by its name in the model folder.
using gguf_out::BlockTypes;

// Settings of a rounding to block types.
struct BlockRounding {
  // False: every value goes to the nearest one, and inputs.text is not used.
  bool by_text = true;
  // The folder of statistics and its opened contents, as in StatisticsRequest
  // (gathered_statistics.h).
  std::filesystem::path statistics = {};
  const SavedStatistics* saved = nullptr;
  RoundingSettings settings = {};
  bool force = false;  // delete unfinished statistics of another text or model
};

// The rounded matrices of a model.
class RoundedBlocks {
 public:
  // Returns the bytes of a tensor: its rows in the folder's order, each as gguf_out::info(type)
  // says. Empty if the tensor has none, because its type is F32, F16 or BF16. The bytes are in a
  // mapped file and stay valid as long as the object.
  std::span<const std::byte> bytes(const std::string& tensor) const;

 private:
  friend class BlockRoundingRun;
  std::map<std::string, io::SafetensorsFile, std::less<>> files_;
};

// Rounds the tensors in `types` whose types are not F32, F16 or BF16. `work` keeps what is finished
// and must belong to one model, text, and choice of types. Fails if a type does not fit a row, if a
// weight is NaN, infinite or beyond the range of its type, if statistics are those of another model
// or text, if a file cannot be written, or if the run is interrupted.
Result<RoundedBlocks> round_to_blocks(const CompressionInputs& inputs, const BlockTypes& types,
                                      const BlockRounding& rounding,
                                      const std::filesystem::path& work);

}  // namespace neuronmm::compress
