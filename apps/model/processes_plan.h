#pragma once
// `inspect --processes P`: how several processes would share a model.

#include "base/result.h"
#include "io/checkpoint.h"
#include "io/model_config.h"
#include "report_writer.h"

namespace neuronmm::apps {

// Prints heads, layouts with what decides between them, bytes on the wire per token, and memory per
// process. Errors: of the weights; more processes than there are heads for.
Status print_processes(const ReportWriter& writer, const io::Checkpoint& checkpoint,
                       const io::ModelConfig& config, int processes);

}  // namespace neuronmm::apps
