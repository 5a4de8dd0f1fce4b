#pragma once
// The common part of the writers of chat completions and text completions: both APIs answer with a
// list of choices, as one body or in chunks.

#include <vector>

#include "serve/responses/response_writer.h"

namespace neuronmm::serve {

// A writer whose subclasses provide the choices.
class ChoicesWriter : public ResponseWriter {
 public:
  using ResponseWriter::ResponseWriter;

 protected:
  virtual std::vector<Json> whole_choices() = 0;  // the choices of a response without a stream
  virtual const char* object_name() const = 0;
  virtual void add_head_fields(Json&) {}  // adds fields to a response without a stream
  void send_rest() override;
  // Sends a chunk of the stream that has this choice. `fields` are added to the chunk itself, next
  // to "choices".
  void send(Json choice, const Json& fields = Json::object());

 private:
  Json head() const;
  Json usage() const;
};

}  // namespace neuronmm::serve
