#pragma once
// The forms that a compressed MLP can have, and what they cost. H hidden_size, I intermediate_size.
//
//   uv        each matrix as U·V (the paper's)                              r(K + N) parameters
//   pivoted   each matrix with pivots of its own on the side of H: of the input for gate and up, of
//             the output for down                                           r(K + N - r)
//   narrow    gate and up share input pivots, down has output pivots
//   neurons   a narrower dense MLP
//   mixed     fewer neurons, a narrow input and a narrow output at once, each as far as it pays
//   auto      mixed or pivoted, whichever is predicted, or measured, to lose less (form_choice.h)

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "compress/rank.h"
#include "io/model_config.h"

namespace neuronmm::compress {

enum class Form { kUv, kPivoted, kNarrow, kNeurons, kMixed, kAuto };
std::string_view form_name(Form form);  // "uv", "pivoted", ...
Result<Form> parse_form(std::string_view name);

// What the sizes of an MLP amount to.
struct MlpSizes {
  int64_t hidden = 0, inner = 0;
  bool factors = false;  // ranks are of U·V, not of pivots

  int64_t dense_parameters() const { return 3 * hidden * inner; }
  // The numbers of pivots themselves are not counted, as they are not among a model's parameters.
  int64_t parameters(const io::MlpShape& shape) const;
};

// One block of all that the form can make smaller.
io::MlpShape smallest_shape(Form form, const MlpSizes& sizes, int64_t block);

// The sizes of every layer at `rule`: equation (5) with the parameters of the form in place of
// r(K + N), rounded to whole blocks the same way. Of uv, pivoted, narrow and neurons.
//   uv       r = H·I·kept / (H + I),  kept = 1 - ratio
//   pivoted  r = ((H + I) - sqrt((H + I)² - 4·H·I·kept)) / 2
//   narrow   r = ((3I + 2H) - sqrt((3I + 2H)² - 24·H·I·kept)) / 4, of input and output
//   neurons  I·kept
// Refused: sizes of 0, and sizes that save nothing.
Result<io::MlpShape> uniform_shape(Form form, const MlpSizes& sizes, const RankRule& rule);

}  // namespace neuronmm::compress
