#pragma once
// Prints the model that `neuronmm fit` has chosen, as text, as JSON and as a page.

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "fit/fit.h"
#include "report_writer.h"

namespace neuronmm::apps {

void print_fit(const ReportWriter& writer, const fit::FitRequest& request,
               const fit::FitResult& result);
nlohmann::ordered_json fit_json(const fit::FitRequest& request, const fit::FitResult& result);
// Returns a page of HTML that needs no other file. It plots the best losses over size and over
// prefill time, together with models of one form or one width, and lists what every layer gets.
std::string fit_page(const fit::FitRequest& request, const fit::FitResult& result);

}  // namespace neuronmm::apps
