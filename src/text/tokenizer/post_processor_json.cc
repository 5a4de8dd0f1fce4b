#include "text/tokenizer/post_processor_json.h"

#include "text/tokenizer/component_json.h"

namespace neuronmm::text {
namespace {

using nlohmann::json;

// The largest number of tokens before and after a text. Published tokenizers add at most four.
// Without a limit, a list of ids that a template names many times would fill the memory.
constexpr size_t kMaxSpecialIds = 1000;

// Appends the ids of the special token `name` of a TemplateProcessing. The template names the
// token, and "special_tokens" has its ids.
Status append_special(const io::JsonFields& processor, const std::string& name,
                      const Vocabulary& vocabulary, std::vector<TokenId>& out) {
  const json* special_tokens = processor.find("special_tokens");
  const auto wrong = [&](std::string_view expected) {
    return fail("{}: \"special_tokens\": expected {} for {:?}", processor.source(), expected, name);
  };
  if (special_tokens == nullptr || !special_tokens->is_object() || !special_tokens->contains(name))
    return wrong("an entry");
  const json& entry = special_tokens->at(name);
  if (!entry.is_object() || !entry.contains("ids") || !entry["ids"].is_array())
    return wrong("an array \"ids\"");
  for (const json& id : entry["ids"]) {
    if (!id.is_number_integer() || !vocabulary.has(id.get<int64_t>()))
      return wrong("ids of the vocabulary");
    if (out.size() == kMaxSpecialIds)
      return fail("{}: \"single\": more than {} special tokens", processor.source(),
                  kMaxSpecialIds);
    out.push_back(id.get<TokenId>());
  }
  return {};
}

// Reads "single", a list of {"SpecialToken": {"id": name}} and one {"Sequence": {"id": "A"}}.
Status read_template(const io::JsonFields& fields, TokenizerDefinition& definition) {
  constexpr std::string_view kExpected =
      "a list of {\"SpecialToken\": {\"id\": ...}} and one {\"Sequence\": {\"id\": \"A\"}}";
  const json* single = fields.find("single");
  if (single == nullptr) return fields.missing("single");
  if (!single->is_array()) return fields.wrong("single", kExpected);
  std::vector<TokenId> prefix, suffix;
  int sequences = 0;
  for (const json& item : *single) {
    if (!item.is_object() || item.size() != 1) return fields.wrong("single", kExpected);
    const std::string& kind = item.begin().key();
    const json& value = item.begin().value();
    if (!value.is_object() || !value.contains("id") || !value["id"].is_string())
      return fields.wrong("single", kExpected);
    const auto& id = value["id"].get_ref<const std::string&>();
    if (kind == "SpecialToken") {
      NMM_TRY(append_special(fields, id, definition.vocabulary, sequences == 0 ? prefix : suffix));
    } else if (kind == "Sequence" && id == "A") {
      ++sequences;
    } else {
      return fields.wrong("single", kExpected);
    }
  }
  if (sequences != 1) return fields.wrong("single", kExpected);
  // A processor of a Sequence surrounds the result of the processor before it.
  definition.prefix.insert(definition.prefix.begin(), prefix.begin(), prefix.end());
  definition.suffix.insert(definition.suffix.end(), suffix.begin(), suffix.end());
  return {};
}

// Reads a pair of a text and an id, such as ["</s>", 2].
Status append_pair(const io::JsonFields& fields, const std::string& key,
                   const Vocabulary& vocabulary, std::vector<TokenId>& out) {
  const json* pair = fields.find(key);
  if (pair == nullptr) return fields.missing(key);
  if (!pair->is_array() || pair->size() != 2 || !(*pair)[1].is_number_integer() ||
      !vocabulary.has((*pair)[1].get<int64_t>()))
    return fields.wrong(key, "[text, id of the vocabulary]");
  out.push_back((*pair)[1].get<TokenId>());
  return {};
}

// Reads RobertaProcessing and BertProcessing.
Status read_cls_and_sep(const io::JsonFields& fields, TokenizerDefinition& definition) {
  std::vector<TokenId> prefix;
  NMM_TRY(append_pair(fields, "cls", definition.vocabulary, prefix));
  NMM_TRY(append_pair(fields, "sep", definition.vocabulary, definition.suffix));
  definition.prefix.insert(definition.prefix.begin(), prefix.begin(), prefix.end());
  return {};
}

}  // namespace

Status read_post_processor(const json& value, const std::string& source,
                           TokenizerDefinition& definition) {
  return for_each_component(value, source, "processors", [&](const Component& step) -> Status {
    if (definition.prefix.size() + definition.suffix.size() > kMaxSpecialIds)
      return fail("{}: more than {} special tokens", source, kMaxSpecialIds);
    if (step.type == "TemplateProcessing") return read_template(step.fields, definition);
    if (step.type == "RobertaProcessing" || step.type == "BertProcessing")
      return read_cls_and_sep(step.fields, definition);
    // ByteLevel moves offsets only, which we do not report.
    if (step.type == "ByteLevel") return {};
    return unsupported(
        step, "BertProcessing, ByteLevel, RobertaProcessing, Sequence or TemplateProcessing");
  });
}

}  // namespace neuronmm::text
