#include "serve/schema/schema_document.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace neuronmm::grammar {

const Json kAnyValue = true;
const Json kNoValue = false;

namespace {

// The memory of a value's place with its share of the hash table. Assumed.
constexpr int64_t kIndexedBytes = 160;

const std::string* string_field(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  if (found == object.end() || !found->is_string()) return nullptr;
  return &found->get_ref<const std::string&>();
}

int hexadecimal_digit(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  const char lower = static_cast<char>(digit | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

std::string without_percents(std::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    const int high = i + 2 < text.size() ? hexadecimal_digit(text[i + 1]) : -1;
    const int low = i + 2 < text.size() ? hexadecimal_digit(text[i + 2]) : -1;
    if (text[i] == '%' && high >= 0 && low >= 0) {
      result += static_cast<char>(high * 16 + low);
      i += 2;
    } else {
      result += text[i];
    }
  }
  return result;
}

// Replaces the escapes in a token of a JSON pointer: "~1" stands for "/", and "~0" for "~".
std::string unescaped(std::string_view token) {
  std::string result;
  for (size_t i = 0; i < token.size(); ++i) {
    const bool escaped = token[i] == '~' && i + 1 < token.size();
    if (escaped && (token[i + 1] == '0' || token[i + 1] == '1')) {
      result += token[++i] == '0' ? '~' : '/';
    } else {
      result += token[i];
    }
  }
  return result;
}

std::string escaped(std::string_view token) {
  std::string result;
  for (const char c : token) {
    if (c == '~') {
      result += "~0";
    } else if (c == '/') {
      result += "~1";
    } else {
      result += c;
    }
  }
  return result;
}

const Json* child(const Json& parent, const std::string& token) {
  if (parent.is_object()) {
    const auto found = parent.find(token);
    return found == parent.end() ? nullptr : &*found;
  }
  const bool is_index = !token.empty() && token.size() < 9 &&
                        token.find_first_not_of("0123456789") == std::string::npos;
  if (!parent.is_array() || !is_index) return nullptr;
  const size_t index = std::stoul(token);
  return index < parent.size() ? &parent[index] : nullptr;
}

}  // namespace

bool allows_all(const Json& schema) {
  return schema == kAnyValue || (schema.is_object() && schema.empty());
}

SchemaDocument::SchemaDocument(const Json& root, std::string source, Budget& budget)
    : root_(&root), source_(std::move(source)), budget_(&budget) {}

Result<Json> SchemaDocument::parse(std::string_view text, const std::string& source) {
  bool too_deep = false;
  const auto on_event = [&](int depth, Json::parse_event_t, Json&) {
    too_deep = too_deep || depth > kMaxDepth;
    return !too_deep;
  };
  Json schema = Json::parse(text, on_event, false);
  if (too_deep) return fail("{}: nests deeper than {} levels", source, kMaxDepth);
  if (schema.is_discarded()) return fail("{}: expected a JSON document", source);
  return schema;
}

Result<SchemaDocument> SchemaDocument::read(const Json& root, std::string source, Budget& budget) {
  SchemaDocument document(root, std::move(source), budget);
  NMM_TRY(document.index());
  if (const std::string* id = string_field(root, "$id")) document.root_id_ = *id;
  if (document.root_id_.ends_with('#')) document.root_id_.pop_back();
  if (const std::string* draft = string_field(root, "$schema")) {
    for (const char* old : {"draft-03", "draft-04", "draft-06", "draft-07"})
      document.ignores_siblings_of_reference_ |= draft->find(old) != std::string::npos;
  }
  return document;
}

Status SchemaDocument::index() {
  struct Visit {
    const Json* value;
    int depth;
    bool is_schema;  // false within enum and const, where "$anchor" has no meaning
  };
  std::vector<Visit> queue = {{root_, 0, true}};
  places_[root_] = {nullptr, ""};
  while (!queue.empty()) {
    const auto [value, depth, is_schema] = queue.back();
    queue.pop_back();
    if (std::ssize(places_) > kMaxValues)
      return fail("{}: expected a schema of at most {} values, found more", source_, kMaxValues);
    if (depth > kMaxDepth) return fail("{}: nests deeper than {} levels", source_, kMaxDepth);
    if (!budget_->allocate(kIndexedBytes + std::ssize(places_[value].token)))
      return budget_->error();
    if (is_schema) index_anchors(*value);
    if (!value->is_structured()) continue;
    for (const auto& item : value->items()) {
      places_[&item.value()] = {value, item.key()};
      const bool is_literal = item.key() == "enum" || item.key() == "const";
      queue.push_back({&item.value(), depth + 1, is_schema && !is_literal});
    }
  }
  return {};
}

void SchemaDocument::index_anchors(const Json& schema) {
  for (const char* key : {"$anchor", "$dynamicAnchor"}) {
    if (const std::string* name = string_field(schema, key)) anchors_.emplace(*name, &schema);
  }
  const std::string* id = string_field(schema, "$id");
  if (id != nullptr && id->starts_with('#')) anchors_.emplace(id->substr(1), &schema);
}

bool SchemaDocument::has_own_base(const Json& part) const {
  for (const Json* at = &part; at != root_;) {
    const std::string* id = string_field(*at, "$id");
    if (id != nullptr && !id->starts_with('#')) return true;
    const auto place = places_.find(at);
    if (place == places_.end()) return false;
    at = place->second.parent;
  }
  return false;
}

Result<const Json*> SchemaDocument::resolve(const std::string& reference, const Json& from) const {
  std::string_view local = reference;
  if (!root_id_.empty() && local.starts_with(root_id_)) local.remove_prefix(root_id_.size());
  const bool is_local = local.empty() || local.starts_with('#');
  if (!is_local || has_own_base(from))
    return error_at(from, "$ref",
                    fmt::format("expected a reference into the same schema (\"#/...\"), "
                                "found {:?}",
                                reference));
  const std::string fragment = without_percents(local.empty() ? local : local.substr(1));
  const Json* target = root_;
  if (!fragment.empty() && fragment[0] != '/') {
    const auto found = anchors_.find(fragment);
    target = found == anchors_.end() ? nullptr : found->second;
  } else {
    for (size_t at = 0; at < fragment.size() && target != nullptr;) {
      const size_t end = std::min(fragment.find('/', at + 1), fragment.size());
      // Objects keep the order of their keys, so the keys are compared one after the other.
      if (!budget_->spend(1 + std::ssize(*target))) return budget_->error();
      target = child(*target, unescaped(std::string_view(fragment).substr(at + 1, end - at - 1)));
      at = end;
    }
  }
  if (target == nullptr)
    return error_at(from, "$ref", fmt::format("{:?} leads nowhere", reference));
  if (has_own_base(*target))
    return error_at(from, "$ref",
                    fmt::format("{:?} leads into a part with a $id of its own", reference));
  return target;
}

std::string SchemaDocument::path(const Json& part) const {
  std::string path;
  for (auto place = places_.find(&part); place != places_.end() && place->second.parent != nullptr;
       place = places_.find(place->second.parent)) {
    path = fmt::format("/{}{}", escaped(place->second.token), path);
  }
  return path;
}

std::string SchemaDocument::place(const Json& part, std::string_view keyword) const {
  const std::string at = path(part) + (keyword.empty() ? "" : "/") + std::string(keyword);
  return fmt::format("{}: {}", source_, at.empty() ? "the schema" : at);
}

Error SchemaDocument::error_at(const Json& schema, std::string_view keyword,
                               std::string_view what) const {
  return fail("{}: {}", place(schema, keyword), what);
}

}  // namespace neuronmm::grammar
