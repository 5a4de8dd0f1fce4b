#pragma once
// Completes what a caller gave to the full settings of a compression. The command line, the Python
// package and the check whether unfinished work belongs to a run use these functions, so that every
// default is defined once.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/option_names.h"
#include "base/result.h"
#include "compress/request.h"

namespace neuronmm::compress {

// The settings that a caller gives. A setting that was left out has no value.
struct CompressGiven {
  std::filesystem::path model, out;
  std::optional<double> ratio;
  std::optional<Form> form;
  std::optional<Method> method;
  std::optional<Allocate> allocate;
  std::optional<int64_t> block;
  // The paper's setting: form uv, method whitened, uniform sizes, blocks of 128.
  bool paper = false;
  bool pad = false;
  std::optional<int> bits, group, lm_head_bits, embedding_bits;
  std::vector<std::string> calibration;  // the names of the texts
  std::optional<int64_t> calibration_tokens, self_generated;
  std::optional<uint64_t> seed;
  std::filesystem::path statistics;  // empty if there is none
  std::optional<Reconstruct> reconstruct;
  bool force = false;
  // A dry run needs no text, since the real run may be given one.
  bool text_comes_later = false;
};

// Returns a complete request, whose texts have names but no contents yet, or an error that names
// what is missing or contradictory. The defaults are:
//
//   form                auto; uv with `paper` or method svd
//   method              two-sided; whitened for form uv
//   allocate            measured; predicted without a text; uniform for form uv
//   block               32, the panel of the CPU's kernels; 128, a NeuronCore's tile, with `paper`
//   bits                none: weights keep their dtype
//   calibration_tokens  those of existing statistics; else 131072 for form uv where each matrix is
//                       factorized by itself and no statistics are kept; else 32768; at least
//                       those that layers learn from
//   seed                0
//   reconstruct         auto; off with `paper` or method svd
Result<CompressRequest> compress_settings(const CompressGiven& given, OptionNames names);

// Returns all settings with their values. Paths are left out, and texts are named without their
// folder.
nlohmann::ordered_json settings_json(const CompressRequest& request);
// Reverses settings_json(). `statistics` is the folder to use if the settings have one. Returns an
// error if a value has the wrong type.
Result<CompressGiven> given_of(const nlohmann::json& settings,
                               const std::filesystem::path& statistics);
// Returns whether these settings, once completed, are those of the request.
bool same_settings(const nlohmann::json& settings, const CompressRequest& request);

}  // namespace neuronmm::compress
