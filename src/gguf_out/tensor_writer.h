#pragma once
// Writes the tensors of a plan into a file, some rows at a time on all threads.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "gguf_out/container_writer.h"
#include "gguf_out/tensor_plan.h"

namespace neuronmm::gguf_out {

// Returns the bytes of a matrix that was rounded before, by its canonical name, or nothing. They
// are the rows in the order of the folder, as info(type) of the tensor's type says, each filled to
// whole blocks.
using RoundedRows = std::function<std::optional<std::span<const std::byte>>(const std::string&)>;

// What was found while writing.
struct WrittenTensors {
  // Blocks of 8 bits whose scale F16 cannot hold, so that they were rounded anew.
  int64_t inexact_blocks = 0;
};

// Writes all tensors in order. Weights of 8, 6 and 4 bits are exact in Q8_0 unless F16 cannot hold
// a scale. Fails if a value is infinite, NaN or too large for F16; the message names the tensor and
// begins with `source`. A full disk and an interrupt are errors, too.
Result<WrittenTensors> write_tensors(const TensorPlan& plan, const SourceModel& model,
                                     const std::string& source, const RoundedRows& rounded,
                                     ContainerWriter& writer, Progress& progress);

}  // namespace neuronmm::gguf_out
