#pragma once
// Reads one added token, an object in which tokenizer.json and tokenizer_config.json describe a
// token that is searched in the text before BPE runs.

#include "base/result.h"
#include "io/json_file.h"
#include "text/tokenizer/added_tokens.h"

namespace neuronmm::text {

// Reads "content" and the flags of AddedToken; a flag that is absent is false. The caller reads
// "id", whose place differs between the two files. Fails if "content" is missing or a field has a
// wrong type.
Result<AddedToken> read_added_token(const io::JsonFields& fields);

}  // namespace neuronmm::text
