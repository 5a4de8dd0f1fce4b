#include "text/tokenizer/added_token_json.h"

#include <utility>

namespace neuronmm::text {

Result<AddedToken> read_added_token(const io::JsonFields& fields) {
  NMM_ASSIGN(auto content, fields.string("content"));
  if (!content) return fields.missing("content");
  AddedToken token;
  token.content = *std::move(content);
  const std::pair<const char*, bool*> flags[] = {{"special", &token.special},
                                                 {"normalized", &token.normalized},
                                                 {"single_word", &token.single_word},
                                                 {"lstrip", &token.lstrip},
                                                 {"rstrip", &token.rstrip}};
  for (const auto& [key, flag] : flags) {
    NMM_ASSIGN(const auto value, fields.boolean(key));
    *flag = value.value_or(false);
  }
  return token;
}

}  // namespace neuronmm::text
