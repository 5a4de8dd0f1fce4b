#include "gguf/mlp_sizes.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "io/json_file.h"

namespace neuronmm::gguf {

bool has_mlp_sizes(std::string_view architecture) {
  return architecture == "deci" || architecture == "openelm";
}

Result<MlpSizes> read_mlp_sizes(const io::GgufFacts& facts, int64_t layers) {
  constexpr std::string_view kKey = "feed_forward_length";
  MlpSizes sizes;
  NMM_ASSIGN(sizes.layers, facts.integers(kKey));
  const bool one = sizes.layers.size() == 1;
  const bool all = std::ssize(sizes.layers) == layers;
  if (!(one || all) || std::ranges::min(sizes.layers) < 1)
    return facts.wrong(kKey, fmt::format("integers from 1 for {} layers", layers));
  sizes.largest = std::ranges::max(sizes.layers);
  if (std::ranges::min(sizes.layers) == sizes.largest) sizes.layers.clear();
  return sizes;
}

Result<nlohmann::ordered_json> compression_record(const io::GgufMetadata& metadata,
                                                  const MlpSizes& sizes) {
  constexpr std::string_view kKey = "neuronmm.compression";
  double kept = 0.0;
  nlohmann::json ranks = nlohmann::json::array();
  for (const int64_t neurons : sizes.layers) {
    kept += static_cast<double>(neurons);
    ranks.push_back({{"gate", 0}, {"up", 0}, {"down", 0}, {"neurons", neurons}});
  }
  const double all = static_cast<double>(sizes.largest) * static_cast<double>(sizes.layers.size());
  nlohmann::json record = {{"method", "unknown"}, {"ratio", 1.0 - kept / all}, {"block", 1}};
  NMM_ASSIGN(const auto text, metadata.string(kKey));
  if (text) {
    const std::string source = fmt::format("{}: {:?}", metadata.source(), kKey);
    NMM_ASSIGN(const nlohmann::json given, io::parse_json_object(*text, source));
    record.update(given);
  }
  record["form"] = "neurons";
  record["ranks"] = std::move(ranks);
  return nlohmann::ordered_json(record);
}

}  // namespace neuronmm::gguf
