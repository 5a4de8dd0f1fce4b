// Ministral 8B: Mistral with a window in some layers.

#include "io/families/family_reader.h"

namespace neuronmm::io {
namespace {

Status read_ministral(FamilyReader& reader) {
  NMM_ASSIGN(const int64_t window, reader.window());
  NMM_ASSIGN(const auto sliding, reader.sliding_layers([&](int64_t) { return window > 0; }));
  reader.set_windows(sliding, window);
  return reader.one_rope();
}

}  // namespace

namespace family {

const Family& ministral() {
  static const Family family = {.class_name = "MinistralForCausalLM",
                                .model_type = "ministral",
                                .defaults = R"({"num_key_value_heads":8,"sliding_window":4096})",
                                .keys = {"layer_types"},
                                .read = read_ministral,
                                .written_as = "llama"};
  return family;
}

}  // namespace family
}  // namespace neuronmm::io
