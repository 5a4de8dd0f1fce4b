#pragma once
// States what made a report: the program and its version, the command line, the date, the machine
// and the models that were read. Every JSON report and every HTML page holds it. ReportWriter and
// finished_page() (plot/page.h) add it, so that commands need not think of it.

#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"

namespace CLI {
class App;
}

namespace neuronmm::apps {

// Records the command line of this process and finds the models in it, before the command runs.
// Every argument of an option but --output that names a model folder or a GGUF file counts, and so
// does one whose file cannot be examined: provenance_json() then fails.
void record_command(const std::vector<std::string>& arguments, const CLI::App& command);

// Returns the facts as JSON. A model has its name without its folder and the checksum of its
// weights (io/weights_checksum.h), for which they are read once. A GGUF file has the XXH3 of its
// bytes, and the model of `tokenize`, which needs no weights, that of its tokenizer.json. The date
// is that of the first call, in UTC.
// Fails if a model cannot be read.
Result<nlohmann::ordered_json> provenance_json();

// Returns the facts as lines of text, for pages.
Result<std::vector<std::string>> provenance_lines();

}  // namespace neuronmm::apps
