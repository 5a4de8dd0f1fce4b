#pragma once
// A JSON Schema as a document: where its parts lie, and what references mean.

#include <cstdint>
#include <string>
#include <unordered_map>

#include <nlohmann/json.hpp>

#include "base/result.h"

namespace neuronmm::grammar {

using Json = nlohmann::ordered_json;  // properties are generated in the order they are written in

class SchemaDocument {
 public:
  static constexpr int64_t kMaxValues = 200'000;  // of the document, with all that they contain
  static constexpr int kMaxDepth = 100;

  // The schema's text, with a limit on its depth.
  static Result<Json> parse(std::string_view text, const std::string& source);

  // `source` begins every message ("response_format.json_schema.schema"). `root` must outlive this
  // and stay where it is.
  static Result<SchemaDocument> read(const Json& root, std::string source);

  // A local reference: "#", "#/$defs/a", "#anchor", or these behind the root's own $id.
  Result<const Json*> resolve(const std::string& reference, const Json& from) const;
  // Up to draft 7, what stands beside $ref has no meaning.
  bool ignores_beside_reference() const { return ignores_beside_reference_; }

  std::string path(const Json& part) const;  // its JSON pointer
  // "source: /properties/a/pattern: ..."
  Error wrong(const Json& schema, std::string_view keyword, std::string_view what) const;

 private:
  struct Place {
    const Json* parent;
    std::string token;
  };
  explicit SchemaDocument(const Json& root, std::string source);
  Status index();
  void index_anchors(const Json& schema);
  // Inside a part with a $id of its own, references count from there.
  bool has_own_base(const Json& part) const;

  const Json* root_;
  std::string source_, root_id_;
  std::unordered_map<const Json*, Place> places_;
  std::unordered_map<std::string, const Json*> anchors_;
  bool ignores_beside_reference_ = false;
};

}  // namespace neuronmm::grammar
