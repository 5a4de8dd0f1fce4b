// Mistral: Llama with a window in all layers. A null means no window. A missing key means the
// default of the class, which shorter contexts do not reach.

#include "io/families/family_reader.h"

namespace neuronmm::io {
namespace {

Status read_mistral(FamilyReader& reader) {
  NMM_ASSIGN(const int64_t window, reader.window());
  const bool given = reader.was_given("sliding_window");
  if (given || window < reader.config.max_position_embeddings)
    reader.set_windows(std::vector<bool>(reader.config.layers.size(), true), window);
  return reader.one_rope();
}

}  // namespace

namespace family {

const Family& mistral() {
  static const Family family = {.class_name = "MistralForCausalLM",
                                .model_type = "mistral",
                                .defaults = R"({"num_key_value_heads":8,"sliding_window":4096})",
                                .read = read_mistral,
                                .written_as = "llama"};
  return family;
}

}  // namespace family
}  // namespace neuronmm::io
