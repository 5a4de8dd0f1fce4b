#pragma once
// Whether layers that make up for those before them are better on text that nothing was fitted to:
// they follow the calibration text more closely than others (docs/quality.md).

#include "compress/dense_reference.h"
#include "compress/inputs.h"

namespace neuronmm::compress {

struct ErrorAwareChoice {
  int64_t tokens = 0;                // 0: there was no text to spare, and nothing was tried
  double without = 0.0, with = 0.0;  // KL(dense ‖ compressed), nats per token
  bool taken() const { return tokens > 0 && with < without; }
};

// Of the two compressions of inputs' model, on inputs' held-out text.
Result<ErrorAwareChoice> choose_error_aware(const CompressionInputs& inputs, const WithMlp& without,
                                            const WithMlp& with);

}  // namespace neuronmm::compress
