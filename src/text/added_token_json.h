#pragma once
// An added token as tokenizer.json and tokenizer_config.json write it.

#include "base/result.h"
#include "io/json_file.h"
#include "text/added_tokens.h"

namespace neuronmm::text {

// "content" and the flags, which are false where they are absent; not "id".
Result<AddedToken> read_added_token(const io::JsonFields& fields);

}  // namespace neuronmm::text
