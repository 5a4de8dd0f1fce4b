#pragma once
// `compress` does this differently for a mixture of experts: the settings that it takes, and the
// folder that results. compress.cc calls these functions; sizes/expert_sizes.h chooses the sizes
// and factors/narrow_experts.h makes the experts.

#include <filesystem>
#include <optional>

#include "base/progress.h"
#include "base/result.h"
#include "compress/compressed_folder.h"
#include "compress/output/model_card.h"
#include "compress/request.h"
#include "compress/sizes/expert_sizes.h"

namespace neuronmm::compress {

// Returns the request with the settings that a mixture has: form auto is mixed, or neurons if sizes
// are uniform, method two-sided is whitened because no metric of mixtures can be made, and sizes
// are predicted where they would be measured. Fails if the request has a form, method or setting
// that mixtures do not have, or sizes that this model cannot have.
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
