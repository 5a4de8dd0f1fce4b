#pragma once
// Writes what `compress` and `quantize` report of layer reconstruction, as text and as JSON.

#include <optional>

#include <nlohmann/json.hpp>

#include "compress/reconstruction/reconstruction.h"
#include "report_writer.h"

namespace neuronmm::apps {

// Prints the error of every layer before and after, the tokens and the time. Prints nothing if no
// layer has learnt.
void print_reconstruction(const ReportWriter& writer,
                          const std::optional<compress::ReconstructionSummary>& summary);
// Returns the same as an object, or null.
nlohmann::ordered_json reconstruction_json(
    const std::optional<compress::ReconstructionSummary>& summary);

}  // namespace neuronmm::apps
