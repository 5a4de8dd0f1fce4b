#pragma once
// Reads what neuron-explorer measured on a Trainium, as JSON. `neuronmm nki --measured` shows it
// next to the simulated times. The fields are those of the published schema (Profile Parquet Schema
// Reference, version 7.4.0 of SDK 2.31). No profile of a real device was at hand, so tests make the
// files from the schema.
//
// Three forms are read: an array of rows of the table Instruction, an object of tables by their
// names ("Instruction", "DmaPacketAggregated", "Metadata"), and the older output of
// `--output-format json` ("instruction" with "timestamp", "duration" and "label").

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"

namespace neuronmm::apps {

// The largest file that is read. Assumed: the instructions of a kernel of two minutes fit into it,
// if the file has only the columns that are read.
inline constexpr int64_t kMostProfileBytes = int64_t{64} << 20;

// The measured work of one opcode on one engine. Overlapping work is added.
struct MeasuredOpcode {
  std::string engine;  // "tensor", "vector", "scalar", "gpsimd", "sync" or "dma".
  std::string opcode;  // For example "MATMUL"; "transfers" for the transfers of all queues.
  int64_t instructions = 0;
  double busy_ns = 0;
};

struct MeasuredProfile {
  std::string schema;     // For example "7.4.0"; empty if the file has no table Metadata.
  double latency_ns = 0;  // From the first begin to the last end of any instruction or transfer.
  std::vector<MeasuredOpcode> opcodes;  // Sorted by time, longest first.
  std::vector<std::string> notes;       // Say what the reader left out or assumed.
};

// Reads a profile. Only the first core of a pair counts, because a trace is that of the first core.
//
// Errors: the file is Parquet (the message says how to convert it), too large, no JSON, of a schema
// whose first number is unknown, or has a row without a field that is needed.
Result<MeasuredProfile> read_measured_profile(const std::filesystem::path& path);

}  // namespace neuronmm::apps
