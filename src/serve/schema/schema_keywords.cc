#include "serve/schema/schema_keywords.h"

#include <algorithm>
#include <utility>

#include "serve/grammar/pattern.h"
#include "serve/schema/formats.h"
#include "text/unicode/utf8.h"

namespace neuronmm::grammar {
namespace {

using ShapeKind = Shape::Kind;

constexpr const char* kUnsupported[] = {"$dynamicRef", "$recursiveRef"};

// The memory of a property in PropertySchemas, without its name, which is there twice. Assumed.
constexpr int64_t kPropertyBytes = 180;
// The steps that looking for all keywords takes, for each key of the schema. Assumed.
constexpr int64_t kStepsPerKey = 16;

const Json* keyword(const Json& schema, const char* name) {
  const auto found = schema.find(name);
  return found == schema.end() ? nullptr : &*found;
}

std::string found_text(const Json& value) {
  constexpr size_t kMaxText = 60;
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() <= kMaxText) return text;
  text.resize(kMaxText);
  text.resize(static_cast<size_t>(text::valid_utf8_length(text)));
  return text + "...";
}

class KeywordReader {
 public:
  KeywordReader(const SchemaDocument& document, const Json& schema, const NameLanguage& names)
      : document_(document), schema_(schema), name_language_(names) {}

  Result<Shapes> run() {
    if (!document_.budget().spend(kStepsPerKey * (1 + std::ssize(schema_))))
      return document_.budget().error();
    NMM_TRY(refuse_unsupported());
    NMM_ASSIGN(Shapes shapes, types());
    for (Shape& shape : shapes) {
      switch (shape.kind) {
        case ShapeKind::kNumber:
          NMM_TRY(read_number(shape.number));
          break;
        case ShapeKind::kString:
          NMM_TRY(read_string(shape.string));
          break;
        case ShapeKind::kArray:
          NMM_TRY(read_array(shape.array));
          break;
        case ShapeKind::kObject:
          NMM_TRY(read_object(shape.object));
          break;
        default:
          break;
      }
    }
    return shapes;
  }

 private:
  Error error_at(const char* name, std::string_view what) const {
    return document_.error_at(schema_, name, what);
  }
  Error expected(const char* name, std::string_view what) const {
    return error_at(
        name, fmt::format("expected {}, found {}", what, found_text(*keyword(schema_, name))));
  }

  Status refuse_unsupported() const {
    for (const char* name : kUnsupported) {
      if (schema_.contains(name)) return error_at(name, "this keyword is not supported");
    }
    return {};
  }

  Result<Shapes> types() const {
    std::vector<std::string> names;
    const Json* type = keyword(schema_, "type");
    if (type == nullptr) {
      names = {"null", "boolean", "number", "string", "array", "object"};
    } else if (type->is_string()) {
      names = {type->get<std::string>()};
    } else if (type->is_array() && std::all_of(type->begin(), type->end(),
                                               [](const Json& t) { return t.is_string(); })) {
      names = type->get<std::vector<std::string>>();
    } else {
      return expected("type", "a type or a list of types");
    }
    const Json* nullable = keyword(schema_, "nullable");
    if (type != nullptr && nullable != nullptr && nullable->is_boolean() && nullable->get<bool>())
      names.push_back("null");
    return shapes_of_types(names);
  }

  Result<Shapes> shapes_of_types(const std::vector<std::string>& names) const {
    static constexpr std::pair<std::string_view, ShapeKind> kKinds[] = {
        {"null", ShapeKind::kNull},      {"boolean", ShapeKind::kBoolean},
        {"integer", ShapeKind::kNumber}, {"number", ShapeKind::kNumber},
        {"string", ShapeKind::kString},  {"array", ShapeKind::kArray},
        {"object", ShapeKind::kObject}};
    const auto has = [&](std::string_view name) {
      return std::find(names.begin(), names.end(), name) != names.end();
    };
    for (const std::string& name : names) {
      const bool known = std::any_of(std::begin(kKinds), std::end(kKinds),
                                     [&](const auto& kind) { return kind.first == name; });
      if (!known)
        return expected("type", "null, boolean, integer, number, string, array or object");
    }
    Shapes shapes;
    for (const auto& [name, kind] : kKinds) {
      if (!has(name) || (name == "integer" && has("number"))) continue;
      Shape shape{};
      shape.kind = kind;
      shape.number.integer = name == "integer";
      shapes.push_back(std::move(shape));
    }
    return shapes;
  }

  Result<std::optional<int64_t>> count(const char* name) const {
    const Json* value = keyword(schema_, name);
    if (value == nullptr) return std::optional<int64_t>();
    constexpr double kMax = 1e15;
    const bool is_count =
        value->is_number() && value->get<double>() >= 0.0 && Decimal::of(*value).fraction.empty();
    if (!is_count) return expected(name, "a whole number from 0");
    return std::optional(static_cast<int64_t>(std::min(value->get<double>(), kMax)));
  }

  Status counts(const char* minimum_name, const char* maximum_name, int64_t& minimum,
                std::optional<int64_t>& maximum) const {
    NMM_ASSIGN(const auto least, count(minimum_name));
    NMM_ASSIGN(maximum, count(maximum_name));
    minimum = least.value_or(0);
    return {};
  }

  Result<std::optional<Decimal>> number(const char* name) const {
    const Json* value = keyword(schema_, name);
    if (value == nullptr) return std::optional<Decimal>();
    if (!value->is_number()) return expected(name, "a number");
    return std::optional(Decimal::of(*value));
  }

  Status read_number(NumberLimits& limits) const {
    NMM_TRY(read_bound("minimum", "exclusiveMinimum", true, limits.minimum));
    NMM_TRY(read_bound("maximum", "exclusiveMaximum", false, limits.maximum));
    NMM_ASSIGN(const auto multiple, number("multipleOf"));
    if (!multiple) return {};
    if (multiple->negative || multiple->is_zero())
      return expected("multipleOf", "a number above 0");
    limits.multiples.push_back(*multiple);
    return {};
  }

  // Reads a bound from two keywords. `exclusive` is a bound of its own, except in draft 4, where it
  // is a boolean that says whether the other bound is exclusive.
  Status read_bound(const char* inclusive, const char* exclusive, bool is_minimum,
                    std::optional<NumberBound>& bound) const {
    NMM_ASSIGN(const auto value, number(inclusive));
    if (value) bound = NumberBound{*value, false};
    const Json* own = keyword(schema_, exclusive);
    if (own != nullptr && own->is_boolean()) {
      if (bound) bound->exclusive = own->get<bool>();
      return {};
    }
    NMM_ASSIGN(const auto edge, number(exclusive));
    if (!edge) return {};
    const bool is_tighter = !bound || bound->value == *edge || (bound->value < *edge) == is_minimum;
    if (is_tighter) bound = NumberBound{*edge, true};
    return {};
  }

  Status read_string(StringLimits& limits) const {
    NMM_TRY(counts("minLength", "maxLength", limits.minimum, limits.maximum));
    if (const Json* pattern = keyword(schema_, "pattern")) {
      if (!pattern->is_string()) return expected("pattern", "a regular expression");
      NMM_ASSIGN(Language language,
                 pattern_language(schema_, "pattern", pattern->get<std::string>()));
      limits.languages.push_back(std::move(language));
    }
    const Json* format = keyword(schema_, "format");
    if (format == nullptr) return {};
    if (!format->is_string()) return expected("format", "a string");
    const auto name = format->get<std::string>();
    limits.partial = is_partial_format(name);
    if (const auto pattern = format_pattern(name)) {
      NMM_ASSIGN(Language language, pattern_language(schema_, "format", *pattern));
      limits.languages.push_back(std::move(language));
    }
    return {};
  }

  // Compiles a pattern. `schema` and `name` are its place for messages.
  Result<Language> pattern_language(const Json& schema, const char* name,
                                    const std::string& pattern) const {
    const Budget::Part part(document_.budget(), [&] {
      return fmt::format("{}: {}", document_.place(schema, name), found_text(pattern));
    });
    auto language = compile_pattern(pattern, document_.budget());
    if (!language.ok()) return document_.error_at(schema, name, language.error().message);
    return std::make_shared<const StringLanguage>(std::move(language).value());
  }

  Status read_array(ArrayLimits& limits) const {
    NMM_TRY(counts("minItems", "maxItems", limits.minimum, limits.maximum));
    const Json* unique = keyword(schema_, "uniqueItems");
    if (unique != nullptr && !unique->is_boolean()) return expected("uniqueItems", "true or false");
    limits.unique = unique != nullptr && unique->get<bool>();
    ItemSchemas items;
    const Json* prefix = keyword(schema_, "prefixItems");
    const Json* rest = keyword(schema_, "items");
    const char* rest_name = "items";
    if (rest != nullptr && rest->is_array()) {  // the form of drafts up to 2019-09
      prefix = rest;
      rest_name = "additionalItems";
      rest = keyword(schema_, rest_name);
    }
    if (prefix != nullptr && !prefix->is_array())
      return expected("prefixItems", "a list of schemas");
    if (prefix != nullptr) {
      for (const Json& item : *prefix) items.prefix.push_back(&item);
      if (!document_.budget().allocate(2 * std::ssize(*prefix) *
                                       static_cast<int64_t>(sizeof(void*))))
        return document_.budget().error();
    }
    items.rest = rest;
    if (prefix != nullptr || rest != nullptr) limits.items.push_back(std::move(items));
    return read_contains(limits);
  }

  Status read_contains(ArrayLimits& limits) const {
    ContainsLimits contains{keyword(schema_, "contains"), 1, {}};
    if (contains.schema == nullptr) return {};
    NMM_TRY(counts("minContains", "maxContains", contains.minimum, contains.maximum));
    if (keyword(schema_, "minContains") == nullptr) contains.minimum = 1;
    if (contains.minimum > 0 || contains.maximum) limits.contains.push_back(contains);
    return {};
  }

  Status read_object(ObjectLimits& limits) const {
    NMM_TRY(counts("minProperties", "maxProperties", limits.minimum, limits.maximum));
    if (const Json* required = keyword(schema_, "required")) {
      const bool are_names =
          required->is_array() && std::all_of(required->begin(), required->end(),
                                              [](const Json& name) { return name.is_string(); });
      if (!are_names) return expected("required", "a list of names");
      limits.required = required->get<std::vector<std::string>>();
      int64_t bytes = 0;
      for (const std::string& name : limits.required)
        bytes += static_cast<int64_t>(sizeof(name)) + std::ssize(name);
      if (!document_.budget().allocate(bytes)) return document_.budget().error();
    }
    NMM_TRY(read_properties(limits));
    const Json* names = keyword(schema_, "propertyNames");
    if (names == nullptr) return {};
    NMM_ASSIGN(Language language, name_language_(*names));
    if (language != nullptr) limits.names.push_back(std::move(language));
    return {};
  }

  Status read_properties(ObjectLimits& limits) const {
    PropertySchemas properties;
    if (const Json* named = keyword(schema_, "properties")) {
      if (!named->is_object()) return expected("properties", "an object of schemas");
      for (const auto& item : named->items()) {
        if (!document_.budget().allocate(kPropertyBytes + 2 * std::ssize(item.key())))
          return document_.budget().error();
        properties.add(item.key(), &item.value());
      }
    }
    if (const Json* patterns = keyword(schema_, "patternProperties")) {
      if (!patterns->is_object()) return expected("patternProperties", "an object of schemas");
      for (const auto& item : patterns->items()) {
        NMM_ASSIGN(Language language, pattern_language(item.value(), "", item.key()));
        properties.patterns.emplace_back(std::move(language), &item.value());
      }
      properties.mentions_others = true;
    }
    properties.additional = keyword(schema_, "additionalProperties");
    properties.mentions_others |= properties.additional != nullptr;
    const bool names_all = !properties.named.empty() ||
                           (keyword(schema_, "properties") != nullptr && document_.closes_empty());
    properties.closes = names_all && !properties.mentions_others;
    if (names_all || properties.mentions_others)
      limits.properties.push_back(std::make_shared<const PropertySchemas>(std::move(properties)));
    return {};
  }

  const SchemaDocument& document_;
  const Json& schema_;
  const NameLanguage& name_language_;
};

}  // namespace

Result<Shapes> read_types(const SchemaDocument& document, const Json& schema,
                          const NameLanguage& name_language) {
  return KeywordReader(document, schema, name_language).run();
}

}  // namespace neuronmm::grammar
