#pragma once
// A model folder with weights of 8, 6 or 4 bits (docs/low_bit.md) from one with float weights,
// dense or compressed. Of a low-rank matrix the factor that is applied second is rounded first and
// the other fitted to it; everything else is rounded to nearest. With a calibration text all are
// rounded as that says (calibrated_rounding.h).

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "base/low_bit_format.h"
#include "base/progress.h"
#include "base/result.h"
#include "compress/calibration_text.h"
#include "compress/factorize_model.h"
#include "ops/backend.h"

namespace neuronmm::compress {

// Of all linear layers, and of the LM head (with the embedding table where the two are tied).
struct QuantizedFormats {
  LowBitFormat linear = {}, lm_head = {};
  // Of single matrices, by names as io::Quantization has them. Those of maps of pivots are not
  // asked for.
  std::map<std::string, LowBitFormat, std::less<>> exceptions = {};
};

// bits 8, 6 or 4. By default groups of 16, where there are 4 bits, and a head of as many bits as
// the rest, but 6 beside 4: it is a small part of the model, and its errors are those of the
// logits.
QuantizedFormats quantized_formats(int bits, std::optional<int> group = {},
                                   std::optional<int> lm_head_bits = {});

enum class Rounding { kNearest, kGptq };

struct QuantizeRequest {
  std::filesystem::path model, out;
  QuantizedFormats formats = {};
  Rounding rounding = Rounding::kNearest;
  bool smooth = false;  // fold factors per channel into the weights
  // What both need beyond nearest rounding: a text, or its saved statistics (saved_statistics.h).
  std::optional<CalibrationText> calibration = {};
  std::filesystem::path statistics = {};
  std::filesystem::path save_statistics = {};  // those of `calibration`; empty: they are not kept
  bool force = false;                          // replace an existing output folder
};

struct QuantizeSummary {
  int64_t parameters = 0;  // of the whole model
  int64_t bytes_before = 0, bytes_after = 0;
  int64_t calibration_tokens = 0;
};

// `backend` runs the text. on_matrix is called for every low-rank matrix as it is finished.
// Refused: a model that is quantized already, an output that io::FolderWriter refuses. An
// interrupted run keeps what it finished beside the output (out +
// ".partial") and the same request goes on from there.
Result<QuantizeSummary> quantize(const QuantizeRequest& request, const ops::Backend& backend,
                                 Progress& progress, const OnMatrix& on_matrix = {});

}  // namespace neuronmm::compress
