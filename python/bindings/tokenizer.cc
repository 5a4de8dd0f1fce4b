// Binds the tokenizer: text and conversations to tokens, and tokens to text.

#include "text/tokenizer/tokenizer.h"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "io/model_name.h"
#include "job.h"
#include "language_model.h"
#include "text/chat_template.h"
#include "text/conversation.h"

namespace neuronmm::python {
namespace {

using namespace nb::literals;
using text::TokenId;
using text::Tokenizer;

std::shared_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& name) {
  const nb::gil_scoped_release released;
  const std::filesystem::path folder = io::find_model(name.string());
  return std::make_shared<Tokenizer>(value_or_throw(Tokenizer::load(folder)));
}

std::vector<TokenId> encode(const Tokenizer& tokenizer, const nb::bytes& text,
                            bool add_special_tokens, bool parse_special) {
  const std::string_view view(text.c_str(), text.size());
  const nb::gil_scoped_release released;
  return value_or_throw(tokenizer.encode(
      view, {.add_special_tokens = add_special_tokens, .parse_added_tokens = parse_special}));
}

nb::bytes decode(const Tokenizer& tokenizer, const std::vector<TokenId>& ids,
                 bool skip_special_tokens) {
  const std::string text = tokenizer.decode(ids, skip_special_tokens);
  return nb::bytes(text.data(), text.size());
}

// Returns the text of a conversation, which is given as JSON, and its tokens.
std::pair<nb::bytes, std::vector<TokenId>> apply_chat_template(const Tokenizer& tokenizer,
                                                               const std::string& conversation) {
  text::ChatPrompt prompt;
  std::vector<TokenId> ids;
  {
    const nb::gil_scoped_release released;
    const auto parsed = value_or_throw(text::parse_conversation(conversation, "conversation"));
    prompt = value_or_throw(text::apply_chat_template(tokenizer, parsed));
    ids = value_or_throw(tokenizer.encode(
        prompt.text, {.add_special_tokens = false, .literal = prompt.from_messages}));
  }
  return {nb::bytes(prompt.text.data(), prompt.text.size()), std::move(ids)};
}

}  // namespace

void bind_tokenizer(nb::module_& m) {
  nb::class_<Tokenizer>(m, "Tokenizer")
      .def(nb::new_(&load_tokenizer), "folder"_a)
      .def("encode", &encode, "text"_a, "add_special_tokens"_a, "parse_special"_a)
      .def("decode", &decode, "ids"_a, "skip_special_tokens"_a)
      .def("apply_chat_template", &apply_chat_template, "conversation"_a)
      .def_prop_ro("vocab_size", &Tokenizer::vocab_size)
      .def_prop_ro("bos_id", &Tokenizer::bos_id)
      .def_prop_ro("eos_id", &Tokenizer::eos_id);
}

}  // namespace neuronmm::python
