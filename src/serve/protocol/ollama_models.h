#pragma once
// The answers of Ollama's protocol about the model: GET /api/tags, /api/ps and /api/version, and
// POST /api/show. The server has one model, which is always loaded.

#include <string>
#include <string_view>
#include <vector>

#include "serve/protocol/served_model.h"
#include "serve/requests/request_table.h"

namespace neuronmm::serve {

// The version of Ollama whose protocol this server speaks. Clients compare it with the version that
// has the features they need. Documented: github.com/ollama/ollama at this version.
inline constexpr const char* kSpokenOllamaVersion = "0.32.0";

// The facts about the model that clients of Ollama show.
struct OllamaModel {
  std::string digest;  // of the model, 64 hexadecimal digits
  std::string family, parameter_size, quantization;
  int64_t bytes = 0;
  std::string parameters;  // the recommended options, one per line
  std::string chat_template;
  Json info = {};  // the numbers of the model under the names that GGUF files have for them
  std::vector<std::string> capabilities;
};

// Returns the facts about a model. `description_json` is the body of GET /v1/model; facts that it
// lacks stay empty.
OllamaModel ollama_model(const ServedModel& model, std::string_view description_json,
                         std::string digest);

// Return the bodies of the answers. `version` is the program's.
std::string ollama_tags_json(const ServedModel& model, const OllamaModel& facts);
std::string ollama_ps_json(const ServedModel& model, const OllamaModel& facts);
std::string ollama_version_json(std::string_view version);
// Reads {"model": NAME}, or {"name": NAME} as older clients write it. The names of unknown fields
// are written to `unknown`, if it is not nullptr.
ApiResult<std::string> ollama_show_json(const ServedModel& model, const OllamaModel& facts,
                                        std::string_view body,
                                        std::vector<std::string>* unknown = nullptr);
const RequestTable& ollama_show_table();

}  // namespace neuronmm::serve
