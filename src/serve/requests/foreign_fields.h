#pragma once
// Fields of other servers' requests that this server does not implement: those of OpenAI,
// llama.cpp, Ollama, vLLM, SGLang, text-generation-inference, LM Studio, KoboldCpp and
// text-generation-webui. A field that could change the answer is refused unless its value switches
// it off. A field that cannot change the answer is ignored. The tables of requests add these fields
// to their own, which go first. A field that is in no table is unknown, and the response names it
// in a header.

#include <vector>

#include "serve/requests/request_table.h"

namespace neuronmm::serve {

// Returns the fields.
const std::vector<RequestField>& fields_of_other_servers();

}  // namespace neuronmm::serve
