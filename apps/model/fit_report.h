#pragma once
// Writes what `neuronmm fit` reports about the model that it has chosen, as text, JSON and a page.
// fit.cc is the only caller. Nothing here can fail.

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "fit/fit.h"
#include "report_writer.h"

namespace neuronmm::apps {

// Prints the chosen model, its predicted and measured quality, size and speed, and the files
// written.
void print_fit(const ReportWriter& writer, const fit::FitRequest& request,
               const fit::FitResult& result);
// Returns the same facts as JSON, with the sizes and formats of every layer.
nlohmann::ordered_json fit_json(const fit::FitRequest& request, const fit::FitResult& result);
// Returns a page (plot/page.h). Two charts show the least predicted loss at each size and at each
// prefill time, compared with models that have one form or one number of bits throughout. A table
// shows the sizes and formats of every layer.
std::string fit_page(const fit::FitRequest& request, const fit::FitResult& result);

}  // namespace neuronmm::apps
