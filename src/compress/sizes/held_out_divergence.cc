#include "compress/sizes/held_out_divergence.h"

#include <cmath>
#include <system_error>

#include "compress/sizes/measured_file.h"
#include "io/atomic_file.h"

namespace neuronmm::compress {

namespace fs = std::filesystem;

int64_t HeldOutDivergence::tokens() const {
  if (inputs_.text == nullptr || !inputs_.text->has_held_out) return 0;
  int64_t tokens = 0;
  for (const auto& sequence : inputs_.text->held_out) tokens += std::ssize(sequence);
  return tokens;
}

Result<double> HeldOutDivergence::measure(std::string_view name, const ShapedModel& model) {
  const fs::path folder = work_ / fmt::format("trial-{}", name);
  const fs::path file = folder.string() + ".safetensors";
  if (const auto saved = read_measured(file)) return *saved;
  NMM_TRY(io::make_folder(folder));

  const NarrowRequest narrowing = narrow_request(request_, model, inputs_.config);
  NMM_ASSIGN(const auto narrowed, narrow_layers(inputs_, narrowing, folder));
  (void)narrowed;
  if (!reference_) {
    NMM_ASSIGN(reference_, DenseReference::run(inputs_, inputs_.text->held_out));
  }
  NMM_ASSIGN(const double measured,
             reference_->divergence_of(narrowed_mlps(inputs_, request_.weights, folder)));
  if (!std::isfinite(measured)) {
    return fail("{}: the model makes NaN or infinity of the calibration text",
                inputs_.checkpoint.folder().string());
  }
  NMM_TRY(save_measured(file, measured));
  std::error_code ignored;
  fs::remove_all(folder, ignored);  // what cannot be deleted goes with the rest of the work folder
  return measured;
}

}  // namespace neuronmm::compress
