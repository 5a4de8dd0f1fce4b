#include "serve/responses/event_stream.h"

namespace neuronmm::serve {

std::string data_event(const Json& data) { return "data: " + dump_json(data) + "\n\n"; }

std::string typed_event(std::string_view type, const Json& data) {
  Json event = {{"type", type}};
  event.update(data);
  return fmt::format("event: {}\n{}", type, data_event(event));
}

std::string typed_event(std::string_view type, const Json& data, int64_t number) {
  Json numbered = {{"sequence_number", number}};
  numbered.update(data);
  return typed_event(type, numbered);
}

std::string error_event(const ApiError& error) {
  return "data: " + openai_error_json(error) + "\n\n";
}

}  // namespace neuronmm::serve
