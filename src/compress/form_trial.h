#pragma once
// What a form costs the model, measured for a tenth of what fitting it costs: the MLPs are narrowed
// by the statistics alone, and the calibration text does not run again. What the last fit of down
// gains is about the same for both candidates of form auto: on SmolLM2 (kept .9, C4) KL is .117
// before and .108 after for pivoted, .127 and .127 for mixed; on the bundled model (kept .8) .0049
// and .0038, .0042 and .0036. Narrowing SmolLM2 takes 5 s per form on two cores of a Zen 4, fitting
// it 130.

#include <filesystem>
#include <optional>

#include "compress/dense_reference.h"
#include "compress/shape_model.h"

namespace neuronmm::compress {

class FormTrials {
 public:
  // All must outlive it. Nothing is run until something is measured.
  FormTrials(const CompressionInputs& inputs, const ShapeRequest& request,
             const std::filesystem::path& work)
      : inputs_(inputs), request_(request), work_(work) {}

  // Of inputs' held-out text, tokens; 0 where there is none that nothing was fitted to.
  int64_t tokens() const;
  // KL(dense ‖ model) on them, nats per token. What was measured is kept in `work` in a checked
  // file, and until then the layers that are narrowed; afterwards these are deleted.
  Result<double> measure(const ShapedModel& model);

 private:
  const CompressionInputs& inputs_;
  const ShapeRequest& request_;
  const std::filesystem::path& work_;
  std::optional<DenseReference> reference_;
};

}  // namespace neuronmm::compress
