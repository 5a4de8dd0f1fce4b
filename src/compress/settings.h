#pragma once
// From what a caller gave to the complete settings of a compression. The command line, the Python
// package and the check whether unfinished work belongs to a run all come here, so that every
// default has one home.

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

// What was left out has no value.
struct CompressGiven {
  std::filesystem::path model, out;
  std::optional<double> ratio;
  std::optional<Form> form;
  std::optional<Method> method;
  std::optional<Allocate> allocate;
  std::optional<int64_t> block;
  bool paper = false;  // the paper's setting: uv, whitened, uniform, blocks of 128
  bool pad = false;
  std::optional<int> bits, group, lm_head_bits;
  std::vector<std::string> calibration;  // the names of the texts
  std::optional<int64_t> calibration_tokens, self_generated;
  std::optional<uint64_t> seed;
  std::filesystem::path statistics;  // empty: none
  bool force = false;
  // Whether the program that makes the output metric can be run (mlp_metric.h).
  bool can_make_metric = true;
  // A dry run: a text may be given when it becomes real.
  bool text_comes_later = false;
};

struct CompressSettings {
  CompressRequest request;         // its texts have names and no contents yet
  std::vector<std::string> notes;  // what was not done as it was asked, a sentence each
};

// Returns complete settings, or an error that names what is missing or contradicts itself.
//
//   form                auto; uv with `paper` or method svd
//   method              two-sided, whitened for form uv; also where nobody can make the metric
//   allocate            measured, without a text predicted, for form uv uniform
//   block               32, the panel of the CPU's kernels; 128, a NeuronCore's tile, with `paper`
//   bits                none: weights keep their dtype
//   calibration_tokens  those of the statistics that are there; else 131072 for form uv where each
//                       matrix is factorized for itself and no statistics are kept, else 32768
//   seed                0
Result<CompressSettings> compress_settings(const CompressGiven& given, OptionNames names);

// All settings with their values. Paths are left out, of texts all but the last part.
nlohmann::ordered_json settings_json(const CompressRequest& request);
// What settings_json() has written, as something given. `statistics` is the folder that it was, if
// it was one. Values of another kind than expected are an error.
Result<CompressGiven> given_of(const nlohmann::json& settings,
                               const std::filesystem::path& statistics);
// Whether these settings, once they are completed, are those of the request.
bool same_settings(const nlohmann::json& settings, const CompressRequest& request);

}  // namespace neuronmm::compress
