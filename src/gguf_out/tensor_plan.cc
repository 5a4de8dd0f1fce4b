#include "gguf_out/tensor_plan.h"

#include <algorithm>
#include <map>
#include <utility>

#include "gguf/tensor_places.h"
#include "model/layer_weights.h"

namespace neuronmm::gguf_out {
namespace {

// Returns the name without the number of its layer: "blk.*.attn_q.weight".
std::string kind_of(std::string_view name) {
  constexpr std::string_view kLayer = "blk.";
  if (!name.starts_with(kLayer)) return std::string(name);
  return fmt::format("blk.*{}", name.substr(name.find('.', kLayer.size())));
}

std::vector<float> floats_of(const TensorView& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.size()));
  to_floats(tensor, 0, tensor.size(), values.data());
  return values;
}

class Planner {
 public:
  Planner(const SourceModel& source, const ArchitectureOut& architecture, const TypeMix& mix,
          const BlockTypes& types)
      : source_(source),
        config_(source.config),
        architecture_(architecture),
        mix_(mix),
        types_(types),
        mixed_{config_.num_hidden_layers, config_.tie_word_embeddings,
               config_.num_attention_heads / config_.num_key_value_heads} {}

  TensorPlan plan(const std::vector<NumbersOut>& numbers) {
    matrix("model.embed_tokens.weight", {.w_t = source_.table});
    for (const NumbersOut& list : numbers) add_numbers(list.name, list.values);
    for (int64_t i = 0; i < config_.num_hidden_layers; ++i) layer(i);
    norm("model.norm.weight", source_.norm);
    const bool own_copy = architecture_.gguf->head == io::GgufFamily::Head::kOwn;
    if (!source_.head.empty() || own_copy)
      matrix("lm_head.weight", {.w_t = source_.head.empty() ? source_.table : source_.head});
    return std::move(plan_);
  }

 private:
  void layer(int64_t index) {
    const model::LayerWeights& layer = source_.layers[static_cast<size_t>(index)];
    const std::string prefix = fmt::format("model.layers.{}.", index);
    const std::string attention = prefix + "self_attn.", mlp = prefix + "mlp.";
    neurons_ = layer.mixture ? architecture_.expert_neurons
                             : architecture_.neurons[static_cast<size_t>(index)];
    norm(prefix + "input_layernorm.weight", layer.input_norm);
    linear(attention + "q_proj", layer.q);
    linear(attention + "k_proj", layer.k);
    linear(attention + "v_proj", layer.v);
    norm(attention + "q_norm.weight", layer.q_norm);
    norm(attention + "k_norm.weight", layer.k_norm);
    linear(attention + "o_proj", layer.o);
    if (!layer.sinks.empty())
      add_numbers(place_of(attention + "sinks").name, floats_of(layer.sinks));
    norm(prefix + "post_attention_layernorm.weight", layer.post_attention_norm);
    norm(attention + "output_norm.weight", layer.attention_output_norm);
    norm(mlp + "output_norm.weight", layer.mlp_output_norm);
    if (layer.mixture) return mixture(mlp, *layer.mixture);
    mlp_matrices(mlp, layer.mlp);
  }

  void mlp_matrices(const std::string& prefix, const ops::MlpWeight& mlp) {
    linear(prefix + "gate_proj", mlp.gate, &mlp.in);
    linear(prefix + "up_proj", mlp.up, &mlp.in);
    linear(prefix + "down_proj", mlp.down);
  }

  // The matrices of all experts become three tensors.
  void mixture(const std::string& prefix, const ops::MixtureWeight& mixture) {
    router(prefix + "router", mixture.router);
    for (size_t i = 0; i < mixture.experts.size(); ++i)
      mlp_matrices(fmt::format("{}experts.{}.", prefix, i), mixture.experts[i]);
  }

  // llama.cpp has routers in fp32, whatever the type of the file.
  void router(const std::string& module, const ops::LinearWeight& weight) {
    const int64_t rows = weight.out_features();
    MatrixPart part{.name = module + ".weight",
                    .open = [weight] { return dense_rows(weight); },
                    .stored_rows = rows,
                    .rows = rows};
    add({.info = {place_of(part.name).name, BlockType::kF32, {rows, weight.in_features()}},
         .parts = {std::move(part)}});
    bias(module + ".bias", weight.bias);
  }

  void linear(const std::string& module, const ops::LinearWeight& weight,
              const ops::Pivots* input = nullptr) {
    matrix(module + ".weight", weight, input);
    bias(module + ".bias", weight.bias);
  }

  void matrix(const std::string& name, const ops::LinearWeight& weight,
              const ops::Pivots* input = nullptr) {
    const gguf::TensorPlace place = place_of(name);
    const bool down = name.ends_with(".down_proj.weight");
    const bool of_neurons = !down && name.find(".mlp.") != std::string::npos;
    const bool shared = input != nullptr && !input->empty();
    const int64_t columns = down ? neurons_ : shared ? input->features() : weight.in_features();
    MatrixPart part{
        .name = name,
        .open = [weight, shared,
                 input] { return shared ? dense_rows(weight, *input) : dense_rows(weight); },
        .stored_rows = weight.out_features(),
        .rows = of_neurons ? neurons_ : weight.out_features(),
        .heads = heads_of(name)};
    if (place.sliced != nullptr && place.module != place.sliced->parts.front()) {
      PlannedTensor& tensor = plan_.tensors[by_name_.at(place.name)];
      tensor.info.shape.front() += part.rows;
      tensor.parts.push_back(std::move(part));
      return;
    }
    if (place.expert > 0) {
      plan_.tensors[by_name_.at(place.name)].parts.push_back(std::move(part));
      return;
    }
    // A fused matrix has the type of v, which matters most.
    const bool fused_attention = place.sliced != nullptr && name.ends_with("q_proj.weight");
    const std::string typed =
        fused_attention ? name.substr(0, name.size() - 13) + "v_proj.weight" : name;
    const BlockType type =
        keeps_floats(weight) ? float_type(weight.w_t.dtype) : type_of(typed, place.name, columns);
    add({.info = {place.name, type, shape_in_file(place, {part.rows, columns})},
         .parts = {std::move(part)}});
  }

  // Returns the shape of a tensor whose first part has the shape `part`.
  Shape shape_in_file(const gguf::TensorPlace& place, Shape part) const {
    if (place.expert == 0) part.insert(part.begin(), config_.experts->count);
    return part;
  }

  void bias(const std::string& name, const TensorView& bias) {
    if (bias.empty()) return;
    const std::vector<float> stored = floats_of(bias);
    const bool of_neurons = name.ends_with("gate_proj.bias") || name.ends_with("up_proj.bias");
    const int64_t size = of_neurons ? neurons_ : bias.size();
    const MatrixPart order{.name = name,
                           .open = {},
                           .stored_rows = bias.size(),
                           .rows = size,
                           .heads = heads_of(name)};
    std::vector<float> values(static_cast<size_t>(size));
    for (int64_t i = 0; i < bias.size(); ++i)
      values[static_cast<size_t>(i)] = stored[static_cast<size_t>(order.stored_row(i))];
    const gguf::TensorPlace place = place_of(name);
    if (const auto found = by_name_.find(place.name); found != by_name_.end()) {
      PlannedTensor& tensor = plan_.tensors[found->second];
      tensor.values.insert(tensor.values.end(), values.begin(), values.end());
      if (place.expert < 0) tensor.info.shape.front() += size;
      return;
    }
    add_numbers(place.name, std::move(values));
    plan_.tensors.back().info.shape = shape_in_file(place, {size});
  }

  void norm(const std::string& name, const TensorView& norm) {
    if (!norm.empty()) add_numbers(place_of(name).name, model::norm_gains(norm, config_));
  }

  void add_numbers(const std::string& name, std::vector<float> values) {
    const auto size = std::ssize(values);
    add({.info = {name, BlockType::kF32, {size}}, .values = std::move(values)});
  }

  void add(PlannedTensor tensor) {
    by_name_[tensor.info.name] = plan_.tensors.size();
    plan_.tensors.push_back(std::move(tensor));
  }

  gguf::TensorPlace place_of(const std::string& name) const {
    return gguf::place_of(name, architecture_.gguf->names);
  }
  int64_t heads_of(const std::string& name) const {
    return architecture_.gguf->names.neighbouring_pairs ? gguf::interleaved_heads(name, config_)
                                                        : 0;
  }

  // In Q8_0 a rounded model is exact. Its matrices of floats, such as the embedding table of an
  // untied model, stay floats there.
  bool keeps_floats(const ops::LinearWeight& weight) const {
    return mix_.most == BlockType::kQ8_0 && source_.bits() > 0 && !weight.low_rank() &&
           !weight.pivoted() && !weight.w_t.quantized();
  }
  static BlockType float_type(DType dtype) {
    if (dtype == DType::kBF16) return BlockType::kBf16;
    return dtype == DType::kF16 ? BlockType::kF16 : BlockType::kF32;
  }

  BlockType type_of(const std::string& canonical, const std::string& name, int64_t columns) {
    if (const auto given = types_.find(canonical); given != types_.end()) return given->second;
    const BlockType wanted = mixed_type(mix_, canonical, mixed_);
    const BlockType type = fitting_type(wanted, columns);
    const std::string kind = kind_of(name);
    if (type != wanted && !replaced_.contains(kind)) {
      replaced_[kind] = true;
      plan_.replaced.push_back(fmt::format("{}: rows of {} weights are no blocks of {}: {}", kind,
                                           columns, info(wanted).name, info(type).name));
    }
    return type;
  }

  const SourceModel& source_;
  const io::ModelConfig& config_;
  const ArchitectureOut& architecture_;
  const TypeMix& mix_;
  const BlockTypes& types_;
  const MixedModel mixed_;
  int64_t neurons_ = 0;  // of the present layer
  TensorPlan plan_;
  std::map<std::string, size_t> by_name_;
  std::map<std::string, bool> replaced_;
};

}  // namespace

int64_t MatrixPart::stored_row(int64_t row) const {
  if (heads == 0) return row;
  const int64_t head_rows = stored_rows / heads, half = head_rows / 2;
  const int64_t head = row / head_rows, in_head = row % head_rows;
  return head * head_rows + in_head % 2 * half + in_head / 2;
}

TensorPlan plan_tensors(const SourceModel& source, const ArchitectureOut& architecture,
                        const TypeMix& mix, const BlockTypes& types,
                        const std::vector<NumbersOut>& numbers) {
  return Planner(source, architecture, mix, types).plan(numbers);
}

}  // namespace neuronmm::gguf_out
