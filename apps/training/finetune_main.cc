// The program neuronmm-finetune, which computes the output metric with libtorch for `neuronmm
// compress` and `fit`. No other program loads libtorch.

#include "commands.h"
#include "gguf/mounted_gguf.h"
#include "io/mounted_model.h"
#include "process.h"
#include "training/metric_command.h"

int main(int argc, char** argv) {
  return neuronmm::apps::run_guarded([&] {
    neuronmm::io::set_mount_opener(neuronmm::gguf::open_mounted);
    neuronmm::apps::Program program;
    neuronmm::apps::add_metric(program);
    return program.run(argc, argv);
  });
}
