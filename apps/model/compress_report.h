#pragma once
// Writes what `neuronmm compress` reports: its settings, the planned sizes and the result, as text
// and as JSON. compress.cc is the only caller. Nothing here can fail; warnings go to standard
// error.

#include <optional>

#include <nlohmann/json.hpp>

#include "compress/compress.h"
#include "report_writer.h"

namespace neuronmm::apps {

// Prints all settings with their values, one per line, for --dry-run.
void print_settings(const ReportWriter& writer, const compress::CompressRequest& request);
// Prints the sizes that are known before the compression, for --dry-run: the matrices of the first
// layer and the totals of the model. All layers of the plan must have the same sizes.
void print_plan(const ReportWriter& writer, const compress::Plan& plan);
// Warns if the plan keeps a share of the MLPs' parameters that differs from 1 - ratio by more than
// 0.02. This happens because sizes are multiples of --block.
void warn_of_share(const compress::CompressRequest& request, const compress::Plan& plan);
// Returns the paths and all settings of a request.
nlohmann::ordered_json request_json(const compress::CompressRequest& request);
// Returns request_json() with the sizes of the plan.
nlohmann::ordered_json plan_json(const compress::CompressRequest& request,
                                 const compress::Plan& plan);

// Prints the sizes that the compression has chosen and the totals of the model. There is a row per
// layer if whole MLPs were narrowed (summary.layers), and otherwise a row per matrix.
void print_summary(const ReportWriter& writer, const compress::CompressSummary& summary);
// Prints how much worse the compressed model predicts than the dense one. `loss` is empty if it was
// not measured. `asked` is false if the user did not want it measured (--no-measure). Warns if the
// KL divergence is above 0.5 or the perplexity above 1.5 times that of the dense model.
void print_loss(const ReportWriter& writer, bool asked,
                const std::optional<compress::MeasuredLoss>& loss);
// Returns plan_json() with the results of the compression and the measured loss. Form and
// allocation are those that were taken, not those that were asked for.
nlohmann::ordered_json summary_json(const compress::CompressRequest& request,
                                    const compress::CompressSummary& summary);

}  // namespace neuronmm::apps
