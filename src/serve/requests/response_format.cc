#include "serve/requests/response_format.h"

#include <algorithm>
#include <utility>

namespace neuronmm::serve {
namespace {

using Kind = ResponseFormat::Kind;

// The names of llama.cpp, older versions of vLLM, and SGLang.
constexpr const char* kGrammarFields[] = {"grammar", "guided_grammar", "ebnf"};
constexpr const char* kGrammarMeaning =
    "Grammar in GBNF, the language of llama.cpp. The answer is a text of its rule root. An empty "
    "text has no effect";

// Reads a JSON schema, or a text that contains one.
ResponseFormat read_schema(FieldReader& fields, const char* key) {
  const Json* value = fields.find(key);
  if (value == nullptr) return {};
  ResponseFormat format{.kind = Kind::kJsonSchema, .schema = *value, .param = fields.path(key)};
  if (value->is_string()) {
    auto parsed =
        parse_json_text(value->get_ref<const std::string&>(), format.param, JsonOf::kSchema);
    if (!parsed.ok()) {
      fields.problem().add(parsed.error());
      return {};
    }
    format.schema = *std::move(parsed);
  }
  if (!format.schema.is_object()) fields.add_mismatch(key, "a JSON schema");
  return format;
}

ResponseFormat read_pattern(FieldReader& fields, const char* key) {
  auto pattern = fields.string(key);
  if (!pattern) return {};
  return {.kind = Kind::kPattern, .pattern = *std::move(pattern), .param = fields.path(key)};
}

// Reads a grammar. llama.cpp's clients send an empty text if they want none.
ResponseFormat read_grammar(FieldReader& fields, const char* key) {
  auto grammar = fields.string(key);
  if (!grammar || grammar->empty()) return {};
  return {.kind = Kind::kGrammar, .pattern = *std::move(grammar), .param = fields.path(key)};
}

std::string pattern_of(std::string_view text) {
  std::string pattern;
  for (const char c : text) {
    if (std::string_view("^$\\.*+?()[]{}|/").find(c) != std::string_view::npos) pattern += '\\';
    pattern += c;
  }
  return pattern;
}

// Reads a list of texts, of which the answer must be one.
ResponseFormat read_choice(FieldReader& fields, const char* key) {
  const Json* choices = fields.array(key);
  if (choices == nullptr) return {};
  ResponseFormat format{.kind = Kind::kPattern, .param = fields.path(key)};
  for (const Json& choice : *choices) {
    if (!choice.is_string()) break;
    if (&choice != &choices->front()) format.pattern += '|';
    format.pattern += pattern_of(choice.get_ref<const std::string&>());
  }
  const auto is_text = [](const Json& choice) { return choice.is_string(); };
  if (choices->empty() || !std::ranges::all_of(*choices, is_text))
    fields.add_mismatch(key, "an array of at least one string");
  return format;
}

// Reads {"type": "json_schema", "json_schema": {"name": ..., "schema": ...}}.
ResponseFormat read_json_schema(FieldReader& format, const std::string& param) {
  const Json* described = format.object("json_schema");
  if (described == nullptr) {
    format.add_mismatch("json_schema", "an object with \"schema\"");
    return {};
  }
  FieldReader reader(*described, format.path("json_schema."), format.problem());
  (void)reader.string("name");
  (void)reader.string("description");
  (void)reader.boolean("strict");
  const Json* schema = reader.object("schema");
  // If there is no schema, any object is valid, as in OpenAI's API.
  if (schema == nullptr) return {.kind = Kind::kJsonObject, .param = param};
  return {.kind = Kind::kJsonSchema, .schema = *schema, .param = param};
}

// Reads vLLM's field structured_outputs, which replaced guided_* in 2025.
ResponseFormat read_structured_outputs(FieldReader& fields) {
  auto inner = fields.inner("structured_outputs");
  if (!inner) return {};
  FieldReader& reader = *inner;
  ResponseFormat all;
  const auto add = [&](ResponseFormat format) {
    add_format(std::move(format), all, reader.problem());
  };
  add(read_schema(reader, "json"));
  add(read_pattern(reader, "regex"));
  add(read_choice(reader, "choice"));
  add(read_grammar(reader, "grammar"));
  if (reader.boolean_or_default("json_object"))
    add({.kind = Kind::kJsonObject, .param = reader.path("json_object")});
  return all;
}

}  // namespace

std::vector<RequestField> response_format_fields() {
  using Field = RequestField;
  const Json format = component_schema("ResponseFormat"), schema = component_schema("SchemaOrText"),
             choice = component_schema("Choice");
  std::vector<Field> fields = {
      Field::other("response_format", format,
                   "Format that the answer must have. By default any text"),
      Field::object(
          "structured_outputs",
          {Field::other("json", schema, "JSON Schema, or its text, that the answer must satisfy"),
           Field::string("regex", "Regular expression that must match the whole answer"),
           Field::other("choice", choice, "Texts, of which the answer must be one"),
           Field::boolean("json_object", "Whether the answer must be a JSON object")
               .by_default(false),
           Field::string("grammar", kGrammarMeaning),
           Field::not_supported("structural_tag", "expected json, regex or choice instead")},
          "Format that the answer must have, as newer versions of vLLM write it. At most one of "
          "its fields may be used"),
      Field::other("guided_json", schema,
                   "JSON Schema, or its text, that the answer must satisfy, as older versions of "
                   "vLLM write it"),
      Field::string("guided_regex", "Regular expression that must match the whole answer"),
      Field::string("regex", "Another name of guided_regex"),
      Field::other("guided_choice", choice, "Texts, of which the answer must be one"),
      Field::other("json_schema", schema, "Another name of guided_json, as llama.cpp writes it"),
  };
  for (const char* name : kGrammarFields) fields.push_back(Field::string(name, kGrammarMeaning));
  return fields;
}

void add_format(ResponseFormat format, ResponseFormat& all, RequestProblem& problem) {
  if (format.kind == Kind::kText) return;
  if (all.kind != Kind::kText)
    problem.add(invalid_request(
        format.param, fmt::format("{}: expected one shape of the answer, found one in {} too",
                                  format.param, all.param)));
  all = std::move(format);
}

ResponseFormat read_openai_format(FieldReader& fields, const char* key) {
  const Json* object = fields.object(key);
  if (object == nullptr) return {};
  const std::string param = fields.path(key);
  FieldReader reader(*object, param + ".", fields.problem());
  const std::string type = reader.required_string("type");
  // llama.cpp and others accept a schema next to the type json_object.
  const Json* schema = reader.object("schema");
  if (type == "json_schema" && schema == nullptr) return read_json_schema(reader, param);
  if (type != "text" && type != "json_object" && type != "json_schema")
    reader.add_mismatch("type", "\"text\", \"json_object\" or \"json_schema\"");
  if (type == "text") return {};
  if (schema == nullptr) return {.kind = Kind::kJsonObject, .param = param};
  return {.kind = Kind::kJsonSchema, .schema = *schema, .param = param};
}

ResponseFormat read_response_format(FieldReader& fields) {
  ResponseFormat all;
  const auto add = [&](ResponseFormat format) {
    add_format(std::move(format), all, fields.problem());
  };
  add(read_openai_format(fields, "response_format"));
  add(read_structured_outputs(fields));
  add(read_schema(fields, "guided_json"));
  for (const char* key : {"guided_regex", "regex"}) add(read_pattern(fields, key));
  add(read_choice(fields, "guided_choice"));
  add(read_schema(fields, "json_schema"));
  for (const char* key : kGrammarFields) add(read_grammar(fields, key));
  return all;
}

}  // namespace neuronmm::serve
