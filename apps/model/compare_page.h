#pragma once
// What `neuronmm compare` found, as one page of HTML that needs nothing beside it: plots as inline
// SVG, no script, no font, no link; light or dark as the reader's browser asks for.

#include <string>
#include <vector>

#include "model/compare_table.h"

namespace neuronmm::apps {

// `notes` stand above the plots, a paragraph each.
std::string compare_page(const std::vector<ComparedModel>& models, const ComparisonTable& table,
                         const std::string& speedup_name, const std::vector<std::string>& notes);

}  // namespace neuronmm::apps
