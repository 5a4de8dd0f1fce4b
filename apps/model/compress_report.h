#pragma once
// Prints the settings and the results of the command compress, as text and as JSON.

#include <optional>

#include <nlohmann/json.hpp>

#include "compress/compress.h"
#include "report_writer.h"

namespace neuronmm::apps {

// Prints all settings with their values, one per line.
void print_settings(const ReportWriter& writer, const compress::CompressRequest& request);
// Prints the sizes of form uv with uniform ranks, which a dry run knows in advance.
void print_plan(const ReportWriter& writer, const compress::Plan& plan);
// Warns if sizes that are multiples of the block miss the requested share of parameters by more
// than 0.02.
void warn_of_share(const compress::CompressRequest& request, const compress::Plan& plan);
nlohmann::ordered_json request_json(const compress::CompressRequest& request);
nlohmann::ordered_json plan_json(const compress::CompressRequest& request,
                                 const compress::Plan& plan);

void print_summary(const ReportWriter& writer, const compress::CompressSummary& summary);
// Prints the measured loss, and warns if the compressed model is much worse than the dense one.
// `asked` is whether a measurement was wanted.
void print_loss(const ReportWriter& writer, bool asked,
                const std::optional<compress::MeasuredLoss>& loss);
nlohmann::ordered_json summary_json(const compress::CompressRequest& request,
                                    const compress::CompressSummary& summary);

}  // namespace neuronmm::apps
