#pragma once
// The answers of llama.cpp's endpoints that only tell about the server: GET /props, /slots and
// /lora-adapters. Clients read the length of the context, the chat template and the defaults there.

#include <string>
#include <string_view>

#include "serve/protocol/served_model.h"

namespace neuronmm::serve {

// Returns the body of GET /props.
std::string llama_cpp_props_json(const ServedModel& model, std::string_view version);
// Returns the body of GET /slots, of which `busy` compute an answer.
std::string llama_cpp_slots_json(const ServedModel& model, int64_t busy);
// Returns the body of GET /lora-adapters: there are none.
std::string llama_cpp_adapters_json();

}  // namespace neuronmm::serve
