#pragma once
// A JSON Schema as a document. It knows the path of every part, for messages, and resolves
// references. All steps of the schema compiler use it. A document that is too large or too deep is
// an error.

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include <nlohmann/json.hpp>

#include "base/result.h"
#include "serve/grammar/budget.h"

namespace neuronmm::grammar {

using Json = nlohmann::ordered_json;  // keeps the order in which a schema lists its properties

// The schemas that allow every value and none: true and false. They live as long as the program.
extern const Json kAnyValue, kNoValue;
// Returns whether a schema allows every value because it has no keywords.
bool allows_all(const Json& schema);

class SchemaDocument {
 public:
  // The most JSON values of a document, at all depths, and how deep they may nest. Assumed: schemas
  // that people write have far fewer.
  static constexpr int64_t kMaxValues = 200'000;
  static constexpr int kMaxDepth = 100;

  // Parses the text of a schema. Returns an error if it is not JSON or too deep.
  static Result<Json> parse(std::string_view text, const std::string& source);

  // Reads a schema. `source` begins every message ("response_format.json_schema.schema"). `root`
  // must outlive the document and stay at its address. The compilation of the schema is charged to
  // `budget`, which must outlive the document, too. Returns an error if the schema is too large or
  // too deep, or if the budget is exceeded.
  static Result<SchemaDocument> read(const Json& root, std::string source, Budget& budget);

  // Returns the part that a reference of the schema `from` leads to. The reference must be local:
  // "#", "#/$defs/a", "#anchor", or one of these after the root's own $id.
  Result<const Json*> resolve(const std::string& reference, const Json& from) const;
  // Returns whether keywords next to $ref have no meaning, as in drafts up to 7.
  bool ignores_siblings_of_reference() const { return ignores_siblings_of_reference_; }

  // Returns whether an object whose `properties` is empty has none, as one whose `properties` names
  // some has no others.
  bool closes_empty() const { return closes_empty_; }
  void set_closes_empty(bool closes) { closes_empty_ = closes; }

  Budget& budget() const { return *budget_; }
  const std::string& source() const { return source_; }
  // Returns the source and the path of a part, and of a keyword if there is one, for messages.
  std::string place(const Json& part, std::string_view keyword = {}) const;
  std::string path(const Json& part) const;  // returns the JSON pointer of a part
  // Makes an error about a keyword of a schema: "source: /properties/a/pattern: ...".
  Error error_at(const Json& schema, std::string_view keyword, std::string_view what) const;

 private:
  struct Place {
    const Json* parent;
    std::string token;
  };
  SchemaDocument(const Json& root, std::string source, Budget& budget);
  Status index();
  void index_anchors(const Json& schema);
  // Returns whether the part is inside a schema with a $id of its own. References there do not
  // start at the root.
  bool has_own_base(const Json& part) const;

  const Json* root_;
  std::string source_, root_id_;
  Budget* budget_;
  std::unordered_map<const Json*, Place> places_;
  std::unordered_map<std::string, const Json*> anchors_;
  bool ignores_siblings_of_reference_ = false, closes_empty_ = false;
};

}  // namespace neuronmm::grammar
