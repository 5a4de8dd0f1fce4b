#pragma once
// Carries out the steps of `compress` that differ for a mixture of experts: it completes the
// settings, makes the experts, and writes the folder. compress.cc calls these functions. They call
// sizes/expert_sizes.h, which chooses the sizes, and factors/narrow_experts.h, which makes the
// experts.

#include <filesystem>
#include <optional>

#include "base/progress.h"
#include "base/result.h"
#include "compress/compressed_folder.h"
#include "compress/output/model_card.h"
#include "compress/request.h"
#include "compress/sizes/expert_sizes.h"

namespace neuronmm::compress {

// Returns the request with the settings that a mixture has. Form auto becomes mixed, or neurons if
// sizes are uniform. Method two-sided becomes whitened, because no metric of mixtures can be made.
// Sizes are predicted if they would be measured. Fails if the request has a form or setting that
// mixtures do not have, or sizes that this model cannot have.
Result<CompressRequest> mixture_request(CompressRequest request, const io::ModelConfig& config);

// Chooses the sizes and narrows the experts if the form says so. `statistics` is the folder of the
// statistics, and `work` receives the experts.
Result<ExpertSizes> make_experts(const CompressionInputs& inputs, const CompressRequest& request,
                                 const std::filesystem::path& statistics,
                                 const std::filesystem::path& work);

// Writes the mixture before its layers learn (write_unreconstructed_model).
Status write_unreconstructed_mixture(const CompressedModel& model, const ExpertSizes& sizes,
                                     const std::filesystem::path& work, Progress& progress);
// Writes everything except the model card. Narrowed experts come from output.resume_folder().
Status write_compressed_mixture(const CompressedModel& model, const ExpertSizes& sizes,
                                const io::FolderWriter& output, Progress& progress);
// Writes the model card.
Status write_mixture_card(const CompressedModel& model, const ExpertSizes& sizes,
                          const std::optional<MeasuredLoss>& loss, const io::FolderWriter& output);

}  // namespace neuronmm::compress
