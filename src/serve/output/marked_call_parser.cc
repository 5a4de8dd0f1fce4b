#include "serve/output/marked_call_parser.h"

namespace neuronmm::serve {

void MarkedCallParser::finish(OutputDeltas& out) {
  if (!in_text_)
    out.content(unfinished());
  else if (calls_ == 0 || !text_.only_space())
    out.content(text_.held());
}

void MarkedCallParser::push_byte(char c, OutputDeltas& out) {
  if (!in_text_) return in_call(c, out);
  std::string certain;
  const bool marked = text_.push(c, certain);
  out.content(certain);
  if (!marked) return;
  raw_ = text_.held();
  const std::string mark(text_.mark());
  text_.clear();
  in_text_ = false;
  begin_call(mark);
}

void MarkedCallParser::back_to_text(std::string_view bytes, OutputDeltas& out) {
  const std::string text(bytes);
  raw_.clear();
  in_text_ = true;
  for (const char byte : text) push_byte(byte, out);
}

void MarkedCallParser::reject(char c, OutputDeltas& out) {
  out.content(raw_);
  back_to_text(std::string_view(&c, 1), out);
}

JsonScanner::Step MarkedCallParser::push_arguments(char c, OutputDeltas& out) {
  const bool raw_control = scanner_.in_string() && static_cast<unsigned char>(c) < 0x20;
  const JsonScanner::Step step = scanner_.push(c);
  if (step != JsonScanner::Step::kInvalid)
    out.arguments(raw_control ? escaped_control(c) : std::string(1, c), calls_ - 1);
  return step;
}

}  // namespace neuronmm::serve
