#pragma once
// What a form costs the model, measured without the pass over the text that fitting takes: the MLPs
// are narrowed by the statistics alone. What the last fit of down gains is small and much alike for
// the candidates of form auto. Measured on SmolLM2, kept .9, KL on WikiText-2 and C4: .115 and
// .116 before and .107 and .108 after for pivoted, .120 and .127 before and after for mixed; on the
// bundled model, kept .8, evaluation.txt: .0056 and .0036, .0047 and .0034. Narrowing SmolLM2 and
// writing it takes 8 to 10 s on two idle cores of a Zen 4, fitting it 130.

#include <filesystem>
#include <optional>
#include <string_view>

#include "compress/dense_reference.h"
#include "compress/shaped_model.h"

namespace neuronmm::compress {

class FormTrials {
 public:
  // All must outlive it. Nothing is run until something is measured.
  FormTrials(const CompressionInputs& inputs, const ShapeRequest& request,
             const std::filesystem::path& work)
      : inputs_(inputs), request_(request), work_(work) {}

  // Of inputs' held-out text, tokens; 0 where there is none that nothing was fitted to.
  int64_t tokens() const;
  // KL(dense ‖ model) on the held-out text, nats per token. What was measured is kept in `work` in
  // a checked file by this name, and until then the layers that are narrowed; afterwards these are
  // deleted.
  Result<double> measure(std::string_view name, const ShapedModel& model);

 private:
  const CompressionInputs& inputs_;
  const ShapeRequest& request_;
  const std::filesystem::path& work_;
  std::optional<DenseReference> reference_;
};

}  // namespace neuronmm::compress
