#include "gguf_out/type_mix.h"

#include <algorithm>
#include <array>

#include "io/checkpoint.h"

namespace neuronmm::gguf_out {
namespace {

// In the order of the help text. The numbers are llama.cpp's (documented in include/llama.h); the
// names of K types stand for their medium mixes (Q4_K_M, Q5_K_M).
constexpr std::array<TypeMix, 9> kMixes = {{{"Q4_0", 2, BlockType::kQ4_0},
                                            {"Q4_K", 15, BlockType::kQ4_K},
                                            {"Q5_K", 17, BlockType::kQ5_K},
                                            {"Q6_K", 18, BlockType::kQ6_K},
                                            {"Q8_0", 7, BlockType::kQ8_0},
                                            {"IQ4_NL", 25, BlockType::kIq4Nl},
                                            {"BF16", 32, BlockType::kBf16},
                                            {"F16", 1, BlockType::kF16},
                                            {"F32", 0, BlockType::kF32}}};

// Returns whether the layer is one of those that get more bits.
bool is_picked(int64_t layer, int64_t layers) {
  return layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2;
}

bool is_low(BlockType type) {
  return type == BlockType::kQ4_0 || type == BlockType::kQ4_K || type == BlockType::kQ5_K ||
         type == BlockType::kIq4Nl;
}

}  // namespace

const TypeMix* find_type_mix(std::string_view name) {
  const auto found = std::ranges::find(kMixes, name, &TypeMix::name);
  return found == kMixes.end() ? nullptr : &*found;
}

const std::vector<std::string>& type_mix_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const TypeMix& mix : kMixes) all.emplace_back(mix.name);
    return all;
  }();
  return names;
}

BlockType mixed_type(const TypeMix& mix, std::string_view tensor, const MixedModel& model) {
  if (!is_low(mix.most)) return mix.most;
  const bool head =
      tensor == "lm_head.weight" || (model.tied && tensor == "model.embed_tokens.weight");
  if (head) return BlockType::kQ6_K;
  const auto layer = io::layer_of(tensor);
  const bool value = tensor.ends_with("v_proj.weight");
  const bool down = tensor.ends_with("down_proj.weight");
  if (!layer || !(value || down)) return mix.most;
  const bool k_type = mix.most == BlockType::kQ4_K || mix.most == BlockType::kQ5_K;
  if (k_type) return is_picked(*layer, model.layers) ? BlockType::kQ6_K : mix.most;
  const bool early = *layer < model.layers / 8;
  if (mix.most != BlockType::kIq4Nl)
    return down && early && mix.calibrated ? BlockType::kQ4_1 : mix.most;
  const bool better = value ? model.queries_per_key >= 4 : early && !mix.calibrated;
  return better ? BlockType::kQ5_K : mix.most;
}

BlockType fitting_type(BlockType type, int64_t columns) {
  if (fits_row(type, columns)) return type;
  const BlockType smaller = type == BlockType::kQ4_K   ? BlockType::kQ5_0
                            : type == BlockType::kQ5_K ? BlockType::kQ5_1
                            : type == BlockType::kQ6_K ? BlockType::kQ8_0
                                                       : BlockType::kF16;
  return fits_row(smaller, columns) ? smaller : BlockType::kF16;
}

}  // namespace neuronmm::gguf_out
