#pragma once
// Measures what a form, or a choice of sizes, costs the model. The MLPs are narrowed by the
// statistics alone, without the pass over the text that fits down (down_fit.h). What the fit gains
// is small and similar for all candidates of form auto, so their order stays (measured,
// docs/measurements/quality.md). On SmolLM2 such a trial takes less than a tenth of the time of the
// fit (measured).
//
// choose_shapes() (shape_choice.h) uses this class twice: form auto compares forms, and measured
// sizes are compared with predicted ones.

#include <filesystem>
#include <optional>
#include <string_view>

#include "compress/sizes/dense_reference.h"
#include "compress/sizes/shaped_model.h"

namespace neuronmm::compress {

// Measures models on the held-out part of the calibration text.
class HeldOutDivergence {
 public:
  // Runs nothing before the first measurement. All arguments must outlive the object.
  HeldOutDivergence(const CompressionInputs& inputs, const ShapeRequest& request,
                    const std::filesystem::path& work)
      : inputs_(inputs), request_(request), work_(work) {}

  // Returns the number of tokens of the held-out text. Returns 0 if there is no text, or none that
  // nothing was fitted to.
  int64_t tokens() const;
  // Returns KL(dense ‖ model) on the held-out text, in nats per token. The result is kept in `work`
  // in a file with a checksum, named by `name`. A continued run reads it from there. The narrowed
  // layers are in `work` until the result is there, and are then deleted. Two different models
  // must not have the same name. The inputs must have a text.
  //
  // Fails if the model makes NaN or infinity of the text, if its MLPs cannot be narrowed
  // (narrow_layers.h), or if a file cannot be written. An interrupt is an error, too.
  Result<double> measure(std::string_view name, const ShapedModel& model);

 private:
  const CompressionInputs& inputs_;
  const ShapeRequest& request_;
  const std::filesystem::path& work_;
  std::optional<DenseReference> reference_;
};

}  // namespace neuronmm::compress
