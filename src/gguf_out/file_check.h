#pragma once
// Reads a planned file again before it is written, as the importer does, and compares the model
// that it describes with the one that is exported. What an architecture of llama.cpp cannot express
// is found here: reading follows llama.cpp, whose defaults and rules a family writes down only once
// (src/io/families).

#include <span>
#include <string>

#include "base/result.h"
#include "gguf_out/architecture.h"
#include "gguf_out/container_writer.h"
#include "gguf_out/source_model.h"
#include "gguf_out/tensor_plan.h"

namespace neuronmm::gguf_out {

// Fails if the file's metadata and shapes describe another model. The message names what differs
// and begins with `name`. Needs memory for the metadata, but none for weights.
Status check_file(const SourceModel& source, const ArchitectureOut& architecture,
                  const Pairs& pairs, const TensorPlan& plan, const std::string& name);

}  // namespace neuronmm::gguf_out
