#pragma once
// What `neuronmm fit` says of a model that it has chosen: as text, JSON and a page.

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "fit/fit.h"
#include "report_writer.h"

namespace neuronmm::apps {

void print_fit(const ReportWriter& writer, const fit::FitRequest& request,
               const fit::FitResult& result);
nlohmann::ordered_json fit_json(const fit::FitRequest& request, const fit::FitResult& result);
// One page of HTML that needs nothing beside it: the fronts of loss over size and over prefill time
// with single forms and widths beside them, and what every layer gets.
std::string fit_page(const fit::FitRequest& request, const fit::FitResult& result);

}  // namespace neuronmm::apps
