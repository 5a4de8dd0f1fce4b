#pragma once
// The command `neuronmm-finetune metric`, which only run_metric_program() (metric_program.h)
// starts. The help does not show it. Its errors go to standard output, where the program reads them
// that started it.

#include "commands.h"

namespace neuronmm::apps {

void add_metric(Program& program);

}  // namespace neuronmm::apps
