#include "serve/responses/choices_writer.h"

namespace neuronmm::serve {

Json ChoicesWriter::head() const {
  const std::string& fingerprint = settings().fingerprint;
  return {{"id", settings().id},
          {"object", object_name()},
          {"created", settings().created},
          {"model", settings().model},
          {"system_fingerprint", fingerprint.empty() ? Json() : Json(fingerprint)}};
}

Json ChoicesWriter::usage() const {
  return {{"prompt_tokens", counts().prompt},
          {"completion_tokens", counts().completion},
          {"total_tokens", counts().prompt + counts().completion},
          {"prompt_tokens_details", {{"cached_tokens", counts().cached}}}};
}

void ChoicesWriter::send(Json choice, const Json& fields) {
  Json chunk = head();
  chunk["choices"] = Json::array({std::move(choice)});
  if (settings().continuous_usage)
    chunk["usage"] = usage();
  else if (settings().include_usage)
    chunk["usage"] = nullptr;
  chunk.update(fields);
  sink().event(data_event(chunk));
}

void ChoicesWriter::send_rest() {
  Json body = head();
  body["choices"] = Json::array();
  if (settings().stream) {
    body["usage"] = usage();
    if (settings().include_usage) sink().event(data_event(body));
    sink().event(kDoneEvent);
    return;
  }
  for (Json& choice : whole_choices()) body["choices"].push_back(std::move(choice));
  body["usage"] = usage();
  add_head_fields(body);
  sink().response(200, dump_json(body));
}

}  // namespace neuronmm::serve
