#pragma once
// The report of `inspect --processes P`, which says how P processes under mpirun would share a
// model.

#include "base/result.h"
#include "io/checkpoint.h"
#include "io/model_config.h"
#include "report_writer.h"

namespace neuronmm::apps {

// Prints the heads of each process, the layouts of each layer's MLP and their predicted times, the
// bytes sent per token, and the memory of process 0. Errors: weights that cannot be loaded, and
// more processes than there are heads for.
Status print_processes(const ReportWriter& writer, const io::Checkpoint& checkpoint,
                       const io::ModelConfig& config, int processes);

}  // namespace neuronmm::apps
