#pragma once
// Writes the results of `neuronmm compare` as one page of HTML (--html). The page needs no other
// file: its plots are inline SVG, and it has no script, font or link. Its colours are light or dark
// as the reader's browser prefers.

#include <string>
#include <vector>

#include "model/compare_table.h"

namespace neuronmm::apps {

// Returns the page without its end (plot/page.h). The first of `models` is the dense one. `table`
// is their comparison_table(), and `speedup_name` the name of its row with the speed-ups. Each of
// `notes` becomes a paragraph above the plots.
std::string compare_page(const std::vector<ComparedModel>& models, const ComparisonTable& table,
                         const std::string& speedup_name, const std::vector<std::string>& notes);

}  // namespace neuronmm::apps
