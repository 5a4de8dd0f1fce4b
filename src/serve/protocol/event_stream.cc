#include "serve/protocol/event_stream.h"

namespace neuronmm::serve {

std::string data_event(const Json& data) { return "data: " + dump_json(data) + "\n\n"; }

std::string error_event(const ApiError& error) { return "data: " + error_json(error) + "\n\n"; }

}  // namespace neuronmm::serve
