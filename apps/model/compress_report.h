#pragma once
// What compress prints, and the same as JSON.

#include <optional>

#include <nlohmann/json.hpp>

#include "compress/compress.h"
#include "report_writer.h"

namespace neuronmm::apps {

// All settings with their values, a line each.
void print_settings(const ReportWriter& writer, const compress::CompressRequest& request);
// Of form uv, before anything is done.
void print_plan(const ReportWriter& writer, const compress::Plan& plan);
// A warning where sizes in whole blocks miss the share that was asked for by more than 0.02.
void warn_of_share(const compress::CompressRequest& request, const compress::Plan& plan);
nlohmann::ordered_json request_json(const compress::CompressRequest& request);
nlohmann::ordered_json plan_json(const compress::CompressRequest& request,
                                 const compress::Plan& plan);

void print_summary(const ReportWriter& writer, const compress::CompressSummary& summary);
// `asked`: whether it was to be measured. Warns of a model that is much worse.
void print_loss(const ReportWriter& writer, bool asked,
                const std::optional<compress::MeasuredLoss>& loss);
nlohmann::ordered_json summary_json(const compress::CompressRequest& request,
                                    const compress::CompressSummary& summary);

}  // namespace neuronmm::apps
