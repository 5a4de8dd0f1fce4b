#pragma once
// Responses that are a list of choices, whole or in chunks: what chats and text completions have in
// common.

#include <vector>

#include "serve/protocol/response_writer.h"

namespace neuronmm::serve {

class ChoicesWriter : public ResponseWriter {
 public:
  using ResponseWriter::ResponseWriter;

 protected:
  virtual std::vector<Json> whole_choices() = 0;  // of a response that is no stream
  virtual const char* object_name() const = 0;
  virtual void add_head_fields(Json&) {}  // of a whole response
  void send_rest() override;
  // A chunk of the stream with this choice; `fields` are beside the choices.
  void send(Json choice, const Json& fields = Json::object());

 private:
  Json head() const;
  Json usage() const;
};

}  // namespace neuronmm::serve
