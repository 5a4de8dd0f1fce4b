#pragma once
// `neuronmm-finetune metric`: what metric_program.h starts. Not for people: nothing shows it in a
// help, and its errors go to standard output, where the program that started it reads them.

#include "commands.h"

namespace neuronmm::apps {

void add_metric(Program& program);

}  // namespace neuronmm::apps
