#include "compress/error_aware_choice.h"

namespace neuronmm::compress {

Result<ErrorAwareChoice> choose_error_aware(const CompressionInputs& inputs, const WithMlp& without,
                                            const WithMlp& with) {
  ErrorAwareChoice choice;
  for (const auto& sequence : inputs.text->held_out) choice.tokens += std::ssize(sequence);
  NMM_ASSIGN(const auto reference, DenseReference::run(inputs, inputs.text->held_out));
  NMM_ASSIGN(choice.without, reference.divergence_of(without));
  NMM_ASSIGN(choice.with, reference.divergence_of(with));
  return choice;
}

}  // namespace neuronmm::compress
