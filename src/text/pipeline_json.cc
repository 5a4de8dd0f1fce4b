#include "text/pipeline_json.h"

#include <utility>

#include <nlohmann/json.hpp>

namespace neuronmm::text {
namespace {

using nlohmann::json;

// GPT-2's pattern, which ByteLevel stands for when use_regex is true.
constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
// Published tokenizers have at most four; each is a recursion of the pre-tokenizer.
constexpr int64_t kMaxPreTokenizers = 16;

// One step: its object and its "type".
struct Component {
  io::JsonFields fields;
  std::string type;
};

// Every object of the pipeline has a "type", and its other fields depend on it.
Result<Component> component(const json& value, const std::string& source) {
  if (!value.is_object())
    return fail("{}: expected an object, found {}", source, io::describe_json(value));
  io::JsonFields fields(value, source);
  NMM_ASSIGN(auto type, fields.string("type"));
  if (!type) return fields.missing("type");
  return Component{std::move(fields), *std::move(type)};
}

Error unsupported(const Component& component, std::string_view supported) {
  return component.fields.wrong("type", supported);
}

// visit(component) for `value`, or, when it is a Sequence, for each member in `members_key`.
template <typename Visit>
Status for_each_component(const json& value, const std::string& source,
                          const std::string& members_key, const Visit& visit) {
  NMM_ASSIGN(const Component step, component(value, source));
  if (step.type != "Sequence") return visit(step);
  const json* members = step.fields.find(members_key);
  if (members == nullptr) return step.fields.missing(members_key);
  if (!members->is_array()) return step.fields.wrong(members_key, "an array");
  for (size_t i = 0; i < members->size(); ++i) {
    NMM_TRY(for_each_component((*members)[i], fmt::format("{}.{}[{}]", source, members_key, i),
                               members_key, visit));
  }
  return {};
}

Status read_normalizer(const json& value, const std::string& source,
                       TokenizerDefinition& definition) {
  return for_each_component(value, source, "normalizers", [&](const Component& step) -> Status {
    if (step.type != "NFC") return unsupported(step, "NFC or a Sequence of it");
    definition.nfc = true;
    return {};
  });
}

// A split hands on its matches, the text between them (gaps), or both, each as a piece of its own.
Status add_split(const std::string& source, std::string_view pattern, PreTokenizer& out,
                 SplitRegex::Kind kind = SplitRegex::Kind::kRegex, bool keep_matches = true,
                 bool keep_gaps = true) {
  auto regex = SplitRegex::compile(pattern, kind);
  if (!regex.ok()) return fail("{}: {}: {:?}", source, regex.error().message, pattern);
  out.add_split({std::move(regex).value(), keep_matches, keep_gaps});
  return {};
}

Status read_split(const io::JsonFields& fields, PreTokenizer& out) {
  const json* pattern = fields.find("pattern");
  if (pattern == nullptr) return fields.missing("pattern");
  const bool is_regex = pattern->is_object() && pattern->contains("Regex");
  const bool is_literal = pattern->is_object() && pattern->contains("String");
  if (is_regex == is_literal)
    return fields.wrong("pattern", "{\"Regex\": ...} or {\"String\": ...}");
  const io::JsonFields pattern_fields(*pattern, fields.source() + ".pattern");
  NMM_ASSIGN(const auto text, pattern_fields.string(is_regex ? "Regex" : "String"));
  NMM_ASSIGN(const auto behavior, fields.string("behavior"));
  NMM_ASSIGN(const auto invert, fields.boolean("invert"));
  // "Isolated" keeps everything; "Removed" drops the matches, or everything else when inverted.
  const bool removed = behavior == "Removed";
  if (!removed && behavior != "Isolated")
    return fields.wrong("behavior", "\"Isolated\" or \"Removed\"");
  return add_split(fields.source(), text.value_or(""), out,
                   is_regex ? SplitRegex::Kind::kRegex : SplitRegex::Kind::kLiteral,
                   !removed || invert.value_or(false), !removed || !invert.value_or(false));
}

Status read_byte_level(const io::JsonFields& fields, PreTokenizer& out) {
  NMM_ASSIGN(const auto add_prefix_space, fields.boolean("add_prefix_space"));
  NMM_ASSIGN(const auto use_regex, fields.boolean("use_regex"));
  // The tokenizers library's defaults: both true.
  if (add_prefix_space.value_or(true)) out.add_prefix_space();
  if (use_regex.value_or(true)) return add_split(fields.source(), kGpt2Pattern, out);
  return {};
}

Status read_pre_tokenizer(const json& value, const std::string& source, PreTokenizer& out) {
  int64_t steps = 0;
  bool byte_level = false;
  NMM_TRY(for_each_component(value, source, "pretokenizers", [&](const Component& step) -> Status {
    if (++steps > kMaxPreTokenizers)
      return fail("{}: more than {} steps", source, kMaxPreTokenizers);
    // Later steps would see the spelling of bytes instead of the text.
    if (byte_level) return unsupported(step, "nothing after ByteLevel");
    if (step.type == "Split") return read_split(step.fields, out);
    // Digits one by one, or runs of them.
    if (step.type == "Digits") {
      NMM_ASSIGN(const auto individual, step.fields.boolean("individual_digits"));
      return add_split(step.fields.source(), individual.value_or(false) ? "\\p{N}" : "\\p{N}+",
                       out);
    }
    if (step.type != "ByteLevel") return unsupported(step, "Split, Digits, ByteLevel or Sequence");
    byte_level = true;
    return read_byte_level(step.fields, out);
  }));
  if (!byte_level) return fail("{}: expected a ByteLevel step, found none", source);
  return {};
}

// The ids that stand for the special token `name` of a TemplateProcessing: the template names it,
// and "special_tokens" has its ids.
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
    out.push_back(id.get<TokenId>());
  }
  return {};
}

// "single": a list of {"SpecialToken": {"id": name}} and one {"Sequence": {"id": "A"}}.
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
  // Each processor of a sequence works on what the one before it made.
  definition.prefix.insert(definition.prefix.begin(), prefix.begin(), prefix.end());
  definition.suffix.insert(definition.suffix.end(), suffix.begin(), suffix.end());
  return {};
}

// What is added around every text: a begin-of-text token, mostly.
Status read_post_processor(const json& value, const std::string& source,
                           TokenizerDefinition& definition) {
  return for_each_component(value, source, "processors", [&](const Component& step) -> Status {
    if (step.type == "TemplateProcessing") return read_template(step.fields, definition);
    if (step.type == "ByteLevel") return {};  // moves offsets only, which we do not report
    return unsupported(step, "TemplateProcessing, ByteLevel or Sequence");
  });
}

Status read_decoder(const json& value, const std::string& source) {
  return for_each_component(value, source, "decoders", [&](const Component& step) -> Status {
    if (step.type != "ByteLevel") return unsupported(step, "ByteLevel");
    return {};
  });
}

}  // namespace

// The four stages of the tokenizers library's pipeline. What is not known is refused by name.
Status read_pipeline(const io::JsonFields& root, TokenizerDefinition& definition) {
  const auto source_of = [&](const char* key) { return root.source() + ": " + key; };
  if (const json* normalizer = root.find("normalizer"))
    NMM_TRY(read_normalizer(*normalizer, source_of("normalizer"), definition));
  const json* pre_tokenizer = root.find("pre_tokenizer");
  if (pre_tokenizer == nullptr) return root.wrong("pre_tokenizer", "a ByteLevel pre-tokenizer");
  NMM_TRY(read_pre_tokenizer(*pre_tokenizer, source_of("pre_tokenizer"), definition.pre_tokenizer));
  if (const json* post_processor = root.find("post_processor"))
    NMM_TRY(read_post_processor(*post_processor, source_of("post_processor"), definition));
  const json* decoder = root.find("decoder");
  if (decoder == nullptr) return root.wrong("decoder", "a ByteLevel decoder");
  return read_decoder(*decoder, source_of("decoder"));
}

}  // namespace neuronmm::text
