#pragma once
// Lists the forms that a compressed MLP can have and computes their parameters. The choice of sizes
// (shape_choice.h, plan.h) and the model card use it. H is hidden_size and I intermediate_size; K
// and N are the sides of a matrix and r is its rank.
//
//   uv        Each matrix is stored as U·V, as in the paper. r(K + N) parameters.
//   pivoted   Each matrix has pivots of its own on the side of H: pivots of the input for gate and
//             up, of the output for down. r(K + N - r) parameters.
//   narrow    Gate and up share input pivots; down has output pivots.
//   neurons   A dense MLP with fewer neurons.
//   mixed     Fewer neurons, input pivots and output pivots together, each as far as it pays.
//   experts   Mixtures of experts only: fewer experts.
//   basis     Mixtures of experts only: all experts of a layer read and write through shared bases.
//   auto      Mixed, pivoted or neurons, whichever is predicted or measured to lose least
//             (form_choice.h). For mixtures, see compressed_mixture.h.

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "compress/sizes/rank.h"
#include "io/model_config.h"

namespace neuronmm::compress {

enum class Form { kUv, kPivoted, kNarrow, kNeurons, kMixed, kExperts, kBasis, kAuto };
std::string_view form_name(Form form);  // "uv", "pivoted", ...
Result<Form> parse_form(std::string_view name);

// The sizes of a dense MLP, from which the parameters of compressed ones follow.
struct MlpSizes {
  int64_t hidden = 0, inner = 0;
  bool factors = false;  // ranks are those of U·V, not numbers of pivots

  int64_t dense_parameters() const { return 3 * hidden * inner; }
  // Returns the parameters of an MLP of this shape. The indices of the pivots are not counted,
  // because they do not count as parameters of a model either.
  int64_t parameters(const io::MlpShape& shape) const;
};

// Returns the smallest shape of a form: one block of everything that the form can make smaller.
io::MlpShape smallest_shape(Form form, const MlpSizes& sizes, int64_t block);

// Returns the shape of every layer at `rule`, for the forms uv, pivoted, narrow and neurons. The
// sizes follow from equation (5) (rank.h) with the parameters of the form in place of r(K + N), and
// are rounded to whole blocks in the same way. kept = 1 - ratio.
//
//   uv       r = H·I·kept / (H + I)
//   pivoted  r = ((H + I) - sqrt((H + I)² - 4·H·I·kept)) / 2
//   narrow   r = ((3I + 2H) - sqrt((3I + 2H)² - 24·H·I·kept)) / 4, of input and output
//   neurons  I·kept
//
// Fails if a size is 0 or saves nothing.
Result<io::MlpShape> uniform_shape(Form form, const MlpSizes& sizes, const RankRule& rule);

}  // namespace neuronmm::compress
