#include <algorithm>
#include <charconv>
#include <set>
#include <tuple>

#include "gguf/dequantize.h"
#include "gguf/tensor_places.h"
#include "gguf/weights.h"
#include "model/tensor_specs.h"

namespace neuronmm::gguf {
namespace {

int64_t rows_of(std::string_view module, const io::ModelConfig& config) {
  if (module == "self_attn.q_proj") return config.num_attention_heads * config.head_dim;
  if (module.starts_with("mlp.")) return config.intermediate_size;
  return config.num_key_value_heads * config.head_dim;
}

// Returns the first row of the module in the matrix that holds it, and the rows of that matrix.
std::pair<int64_t, int64_t> rows_within(const TensorPlace& place, const io::ModelConfig& config) {
  int64_t first = 0, all = 0;
  for (const std::string_view part : place.sliced->parts) {
    if (part == place.module) first = all;
    if (!part.empty()) all += rows_of(part, config);
  }
  return {first, all};
}

// Removes leading dimensions of 1, which some writers add.
Shape without_leading_ones(const Shape& shape, size_t dimensions) {
  auto first = shape.begin();
  while (std::distance(first, shape.end()) > static_cast<ptrdiff_t>(dimensions) && *first == 1)
    ++first;
  return {first, shape.end()};
}

// A router with more rows than there are experts would choose some that do not exist.
Status check_router(const io::GgufShards& model, const io::GgufTensor& tensor,
                    const Shape& expected) {
  const Shape found = without_leading_ones(tensor.shape, 2);
  if (found.size() != 2 || found[1] != expected[1] || found[0] <= expected[0]) return {};
  return fail(
      "{}: tensor {:?}: expected a row for each of the {} experts of the file's keys, found {} "
      "rows: it names expert {}, which does not exist",
      model.metadata().source(), tensor.name, expected[0], found[0], expected[0]);
}

// Returns whether the file has a tensor for some expert that differs from `alone` in the number:
// "blk.0.ffn_up.3.weight".
bool has_experts_alone(const io::GgufShards& model, const std::string& alone) {
  const size_t dot = alone.rfind('.', alone.rfind('.') - 1);
  const std::string start = alone.substr(0, dot + 1);
  const auto& tensors = model.tensors();
  // Digits sort before letters, so the tensor of a layer without experts comes later.
  const auto found = tensors.lower_bound(start + "0");
  return found != tensors.end() && found->first.starts_with(start) &&
         found->first[start.size()] <= '9';
}

// Turns to the tensor of one expert if the file has one for each.
Status find_alone(const io::GgufShards& model, TensorPlace& place) {
  if (!has_experts_alone(model, place.alone)) return {};
  if (model.tensors().contains(place.name) && model.tensors().contains(place.alone))
    return fail(
        "{}: expected the experts of a layer either in one tensor or one by one, found both {:?} "
        "and {:?}",
        model.metadata().source(), place.name, place.alone);
  if (model.tensors().contains(place.name)) return {};  // found at the expert that has both
  place.name = place.alone;
  place.expert = -1;
  return {};
}

Result<WeightSource> find_source(const io::GgufShards& model, const io::TensorSpec& spec,
                                 const io::ModelConfig& config, const io::GgufFamily& gguf,
                                 const TablesOfFile& tables) {
  TensorPlace place = place_of(spec.name, gguf.names);
  if (spec.name == "model.embed_tokens.weight") place.name = tables.table;
  if (place.expert >= 0) NMM_TRY(find_alone(model, place));
  const std::string& name = place.name;
  const std::string& source = model.metadata().source();
  const auto found = model.tensors().find(name);
  if (found == model.tensors().end()) return fail("{}: tensor {:?} is missing", source, name);
  const io::GgufTensor& tensor = found->second;
  WeightSource weight{spec, &tensor};
  Shape expected = spec.shape;
  if (place.sliced != nullptr)
    std::tie(weight.first_row, expected.front()) = rows_within(place, config);
  if (place.expert >= 0) {
    weight.first_row = place.expert * spec.shape.front();
    expected.insert(expected.begin(), config.experts->count);
  }
  if (place.module == "mlp.router" && expected.size() == 2)
    NMM_TRY(check_router(model, tensor, expected));
  if (without_leading_ones(tensor.shape, expected.size()) != expected)
    return fail("{}: tensor {:?}: expected the shape {}, found {}", source, name,
                shape_string(expected), shape_string(tensor.shape));
  if (!can_dequantize(*tensor.type))
    return fail("{}: tensor {:?}: its type {} is not supported, expected one of {}", source, name,
                tensor.type->name, dequantized_types());
  if (gguf.gains_with_offset && model::is_norm(spec.name))
    weight.offset = static_cast<float>(config.gain_offset);
  return weight;
}

// Returns true for frequencies that old converters store in addition to the config, and for
// rope_freqs and rope_factors, which hyperparameters.cc and the families read.
bool holds_rope_frequencies(std::string_view name) {
  return name == "rope_freqs.weight" || name.ends_with(".rope_freqs.weight") ||
         name == "rope_factors_long.weight" || name == "rope_factors_short.weight" ||
         name.ends_with(".attn_rot_embd.weight") || name.ends_with("rotary_emb.inv_freq");
}

bool affects_computation(std::string_view name) {
  constexpr std::string_view kBeginnings[] = {"blk.",          "output",      "token_embd", "rope_",
                                              "position_embd", "token_types", "enc.",       "dec."};
  return std::ranges::any_of(kBeginnings, [&](auto begin) { return name.starts_with(begin); });
}

// Returns the number of the highest layer that the file has tensors of, plus 1.
int64_t layers_of(const io::GgufShards& model) {
  constexpr std::string_view kLayer = "blk.";
  int64_t layers = 0;
  for (const auto& [name, tensor] : model.tensors()) {
    if (!name.starts_with(kLayer) || holds_rope_frequencies(name)) continue;
    const std::string_view rest = name.substr(kLayer.size());
    int64_t layer = -1;
    std::from_chars(rest.data(), rest.data() + rest.size(), layer);
    layers = std::max(layers, layer + 1);
  }
  return layers;
}

Status check_layers(const io::GgufShards& model, const io::ModelConfig& config,
                    std::string_view architecture) {
  const int64_t layers = layers_of(model);
  if (layers == config.num_hidden_layers) return {};
  return fail("{}: \"{}.block_count\" is {}, but the file has tensors of {} layers",
              model.metadata().source(), architecture, config.num_hidden_layers, layers);
}

}  // namespace

Result<WeightMap> map_weights(const io::GgufShards& model, const io::ModelConfig& config,
                              const GgufArchitecture& architecture, const TablesOfFile& tables) {
  NMM_TRY(check_layers(model, config, architecture.name));
  WeightMap map;
  map.architecture = config.architecture;
  std::set<const io::GgufTensor*> used;
  for (const io::TensorSpec& spec : model::tensor_specs(config)) {
    NMM_ASSIGN(WeightSource source, find_source(model, spec, config, *architecture.gguf, tables));
    if (architecture.interleaved_rotary)
      source.interleaved_heads = interleaved_heads(spec.name, config);
    used.insert(source.tensor);
    map.sources.push_back(std::move(source));
  }
  for (const auto& [name, tensor] : model.tensors()) {
    const bool known = used.contains(&tensor) || name == tables.left_out;
    if (known || holds_rope_frequencies(name)) continue;
    if (affects_computation(name))
      return fail("{}: tensor {:?} is none of a {} of {} layers as it is known here",
                  model.metadata().source(), name, architecture.name, config.num_hidden_layers);
    map.unused_tensors.emplace_back(name);
  }
  return map;
}

}  // namespace neuronmm::gguf
