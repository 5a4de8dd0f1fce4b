// Prints how each step of a forward pass is divided among 8, 32 and 96 threads, as CSV. The page
// docs/measurements/many_cores.md explains the columns.
//
// Usage: task_table [16]     (with weights of 16 bits instead of 4)

#include <cstdio>
#include <cstring>

#include <fmt/format.h>

#include "many_cores/recorded_pass.h"

int main(int argc, char** argv) {
  using namespace neuronmm::many_cores;
  const bool wide = argc > 1 && std::strcmp(argv[1], "16") == 0;
  if (argc > 2 || (argc == 2 && !wide)) {
    fmt::print(stderr, "usage: task_table [16]\n");
    return 2;
  }
  fmt::print(
      "model,bits,pass,sequences,threads,step,weights,tasks,allowed_tasks,most_tasks_per_thread,"
      "weight_kb_per_thread,kv_kb_per_thread,largest_of_mean\n");
  for (const ModelShape& shape : model_shapes()) {
    const RecordedModel model(shape, wide ? WeightBits::kSixteen : WeightBits::kFour);
    for (const Pass& pass : passes()) {
      for (const int threads : {8, 32, 96}) {
        for (const Step& step : model.record(pass, threads)) {
          const ThreadLoad most = step.largest();
          fmt::print("{},{},{},{},{},{},{},{},{},{},{:.1f},{:.1f},{:.2f}\n", shape.name,
                     wide ? 16 : 4, pass.name, pass.sequences, threads, step.function, step.weights,
                     step.tasks, step.allowed_tasks(), most.tasks,
                     static_cast<double>(most.weight_bytes) / 1e3,
                     static_cast<double>(most.kv_bytes) / 1e3, step.imbalance());
        }
      }
    }
  }
}
