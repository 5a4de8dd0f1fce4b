#include "serve/requests/request_table.h"

#include <algorithm>
#include <utility>

#include "base/result.h"

namespace neuronmm::serve {
namespace {

using Type = RequestField::Type;

Json schema_of_harmless_values(const RequestField& field) {
  if (field.harmless_most)
    return {{"type", {"number", "null"}}, {"maximum", *field.harmless_most}, {"deprecated", true}};
  if (field.harmless.empty()) return component_schema("NotSupported");
  Json values = field.harmless;
  values.push_back(nullptr);
  return {{"enum", std::move(values)}, {"deprecated", true}};
}

// Returns the JSON Schema of the field's type and range, without its default and its description.
Json schema_of_type(const RequestField& field) {
  switch (field.type) {
    case Type::kBoolean:
      return {{"type", "boolean"}};
    case Type::kInteger:
      return {{"type", "integer"}, {"minimum", field.lowest}, {"maximum", field.highest}};
    case Type::kNumber:
      return {{"type", "number"}, {"minimum", field.least}, {"maximum", field.most}};
    case Type::kString:
      return {{"type", "string"}};
    case Type::kTokenIds:
      return component_schema("TokenIds");
    case Type::kObject:
      return field.inner.schema();
    case Type::kOther:
      return field.schema;
    case Type::kNotSupported:
      return schema_of_harmless_values(field);
    case Type::kIgnored:
      break;
  }
  return component_schema("WithoutEffect");
}

bool allows_null_itself(Type type) {
  return type == Type::kOther || type == Type::kNotSupported || type == Type::kIgnored;
}

}  // namespace

RequestTable::RequestTable(std::initializer_list<std::vector<RequestField>> lists) {
  for (const std::vector<RequestField>& list : lists)
    fields_.insert(fields_.end(), list.begin(), list.end());
  std::ranges::sort(fields_, {}, &RequestField::name);
  NMM_CHECK(std::ranges::adjacent_find(fields_, {}, &RequestField::name) == fields_.end());
}

RequestTable RequestTable::with_others(const std::vector<RequestField>& others) const {
  std::vector<RequestField> added;
  for (const RequestField& field : others) {
    if (find(field.name) == nullptr) added.push_back(field);
  }
  return RequestTable({fields_, std::move(added)});
}

const RequestField* RequestTable::find(std::string_view name) const {
  const auto found = std::ranges::lower_bound(fields_, name, {}, &RequestField::name);
  return found == fields_.end() || found->name != name ? nullptr : &*found;
}

Json RequestTable::schema() const {
  Json schema = {{"type", "object"}};
  for (const RequestField& field : fields_) {
    if (field.is_required) schema["required"].push_back(field.name);
  }
  Json& properties = schema["properties"] = Json::object();
  for (const RequestField& field : fields_) properties[field.name] = field.schema_of_value();
  return schema;
}

RequestField RequestField::boolean(std::string name, std::string meaning) {
  return {.name = std::move(name), .type = Type::kBoolean, .meaning = std::move(meaning)};
}

RequestField RequestField::integer(std::string name, int64_t lowest, int64_t highest,
                                   std::string meaning) {
  return {.name = std::move(name),
          .type = Type::kInteger,
          .meaning = std::move(meaning),
          .lowest = lowest,
          .highest = highest};
}

RequestField RequestField::number(std::string name, double least, double most,
                                  std::string meaning) {
  return {.name = std::move(name),
          .type = Type::kNumber,
          .meaning = std::move(meaning),
          .least = least,
          .most = most};
}

RequestField RequestField::string(std::string name, std::string meaning) {
  return {.name = std::move(name), .type = Type::kString, .meaning = std::move(meaning)};
}

RequestField RequestField::token_ids(std::string name, std::string meaning) {
  return {.name = std::move(name), .type = Type::kTokenIds, .meaning = std::move(meaning)};
}

RequestField RequestField::object(std::string name, std::vector<RequestField> inner,
                                  std::string meaning) {
  return {.name = std::move(name),
          .type = Type::kObject,
          .meaning = std::move(meaning),
          .inner = RequestTable({std::move(inner)})};
}

RequestField RequestField::other(std::string name, Json schema, std::string meaning) {
  return {.name = std::move(name), .meaning = std::move(meaning), .schema = std::move(schema)};
}

RequestField RequestField::not_supported(std::string name, std::string reason) {
  return {.name = std::move(name), .type = Type::kNotSupported, .meaning = std::move(reason)};
}

std::vector<RequestField> RequestField::ignored(std::initializer_list<const char*> names) {
  std::vector<RequestField> fields;
  for (const char* name : names) fields.push_back({.name = name, .type = Type::kIgnored});
  return fields;
}

RequestField RequestField::by_default(Json value) && {
  default_value = std::move(value);
  return std::move(*this);
}

RequestField RequestField::required() && {
  is_required = true;
  return std::move(*this);
}

RequestField RequestField::at_most_bytes(size_t bytes) && {
  most_bytes = bytes;
  return std::move(*this);
}

RequestField RequestField::unless(std::vector<Json> values) && {
  harmless = std::move(values);
  return std::move(*this);
}

RequestField RequestField::unless_at_most(double value) && {
  harmless_most = value;
  return std::move(*this);
}

bool RequestField::is_harmless(const Json& value) const {
  if (value.is_null()) return true;
  if (harmless_most) return value.is_number() && value.get<double>() <= *harmless_most;
  if (!harmless.empty()) return std::ranges::count(harmless, value) > 0;
  return value == false || value == "" || (value.is_structured() && value.empty());
}

Json RequestField::schema_of_value() const {
  Json schema_words = schema_of_type(*this);
  if (most_bytes) schema_words["maxLength"] = *most_bytes;
  if (!is_required && !allows_null_itself(type))
    schema_words = nullable_schema(std::move(schema_words));
  if (!default_value.is_null()) schema_words["default"] = default_value;
  if (!meaning.empty()) schema_words["description"] = meaning;
  return schema_words;
}

Json component_schema(std::string_view name) {
  return {{"$ref", fmt::format("#/components/schemas/{}", name)}};
}

Json nullable_schema(Json schema) {
  if (!schema.contains("type")) return {{"anyOf", {std::move(schema), {{"type", "null"}}}}};
  Json& type = schema["type"];
  if (!type.is_array()) type = Json::array({type});
  type.push_back("null");
  return schema;
}

Json array_schema(Json items, std::optional<size_t> fewest, std::optional<size_t> most) {
  Json schema = {{"type", "array"}};
  if (fewest) schema["minItems"] = *fewest;
  if (most) schema["maxItems"] = *most;
  schema["items"] = std::move(items);
  return schema;
}

}  // namespace neuronmm::serve
