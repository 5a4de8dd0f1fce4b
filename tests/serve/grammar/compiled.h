#pragma once
// Helpers that compile the schemas of tests and tell which texts they accept.

#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "accepts.h"
#include "serve/grammar/automaton.h"
#include "serve/schema/schema_compiler.h"

namespace neuronmm::grammar {

inline ByteSet all_bytes() { return ByteSet().set(); }

// A compiled schema with its automaton. The test fails if the schema does not compile.
class Compiled {
 public:
  explicit Compiled(std::string_view schema, const SchemaOptions& options = {})
      : result_(compile(schema, options)) {
    EXPECT_TRUE(result_.ok()) << schema << "\n" << (result_.ok() ? "" : result_.error().message);
    if (result_.ok()) automaton_.emplace(result_->grammar, all_bytes());
  }
  explicit Compiled(CompiledGrammar grammar) : result_(std::move(grammar)) {
    automaton_.emplace(result_->grammar, all_bytes());
  }
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;

  bool accepts(std::string_view text) { return automaton_ && grammar::accepts(*automaton_, text); }
  const std::vector<std::string>& notes() const { return result_->notes; }
  Automaton& automaton() { return *automaton_; }

  static Result<CompiledGrammar> compile(std::string_view text, const SchemaOptions& options) {
    NMM_ASSIGN(const Json schema, SchemaDocument::parse(text, "schema"));
    return compile_schema(schema, "schema", options);
  }
  // Returns the message with which the schema is refused, or "no error".
  static std::string error(std::string_view text) {
    const auto result = compile(text, {});
    return result.ok() ? "no error" : result.error().message;
  }

 private:
  Result<CompiledGrammar> result_;
  std::optional<Automaton> automaton_;
};

}  // namespace neuronmm::grammar
