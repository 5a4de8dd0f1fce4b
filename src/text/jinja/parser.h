#pragma once
// Parses the tokens of a template into a syntax tree, by Jinja's grammar.

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/budget.h"
#include "text/jinja/lexer.h"

namespace neuronmm::text::jinja {

// Parses a whole template. Errors begin with "LINE:COLUMN: ".
Result<Statements> parse_template(std::string_view source);

// The state of a parse. expression_parser.cc holds the grammar of expressions, and
// statement_parser.cc that of statements.
class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)), budget_(limits()) {}

  // Parses up to one of these tags, which is then the next token. Without tags, parses to the end.
  Result<Statements> statements(std::initializer_list<std::string_view> end_tags);

 private:
  using Kind = Token::Kind;
  static Limits limits();

  const Token& current() const { return tokens_[at_]; }
  const Token& following() const { return tokens_[at_ + (at_ + 1 < tokens_.size())]; }
  bool at_operator(std::string_view text) const { return is(current(), Kind::kOperator, text); }
  bool at_name(std::string_view text) const { return is(current(), Kind::kName, text); }
  static bool is(const Token& token, Kind kind, std::string_view text) {
    return token.kind == kind && token.text == text;
  }
  const Token& take() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  bool skip_operator(std::string_view text);
  bool skip_name(std::string_view text);
  Status expect_operator(std::string_view text);
  Status expect_name(std::string_view text);
  Status expect(Kind kind, std::string_view what);
  Result<std::string> name();
  Error error(const SourcePosition& position, std::string_view message) const;
  Error unexpected(std::string_view expected) const;
  static std::string describe(const Token& token);

  // Makes an expression of this node. Fails if expressions are nested too deep.
  template <typename Node>
  Result<ExpressionPtr> make(Node node, const SourcePosition& position,
                             std::initializer_list<int> depths);
  static int depth_of(const ExpressionPtr& expression) {
    return expression == nullptr ? 0 : expression->depth;
  }
  static int depth_of(const CallArguments& arguments);
  static int depth_of(const Expressions& expressions);

  // Expressions, in expression_parser.cc.
  Result<ExpressionPtr> expression(bool conditional = true);
  Result<ExpressionPtr> conditional();
  Result<ExpressionPtr> disjunction();
  Result<ExpressionPtr> conjunction();
  Result<ExpressionPtr> negation();
  Result<ExpressionPtr> comparison();
  Result<ExpressionPtr> sum();
  Result<ExpressionPtr> concatenation();
  Result<ExpressionPtr> product();
  Result<ExpressionPtr> power();
  Result<ExpressionPtr> unary(bool with_filters = true);
  Result<ExpressionPtr> primary();
  Result<ExpressionPtr> literal();
  Result<ExpressionPtr> list();
  Result<ExpressionPtr> dict();
  Result<ExpressionPtr> postfix(ExpressionPtr inner);
  Result<ExpressionPtr> filters_and_tests(ExpressionPtr inner);
  Result<ExpressionPtr> subscript(ExpressionPtr object);
  Result<ExpressionPtr> slice(ExpressionPtr object, ExpressionPtr start,
                              const SourcePosition& position);
  Result<ExpressionPtr> call(ExpressionPtr function);
  Result<ExpressionPtr> filters(ExpressionPtr input, bool first_without_bar = false);
  Result<ExpressionPtr> test(ExpressionPtr input);
  Result<std::string> dotted_name();
  Result<CallArguments> arguments();
  Status argument(CallArguments& arguments);
  // Parses an expression, which is a tuple if it has commas. The ends of tags and closing
  // parentheses end it, and so does the name `end`.
  Result<ExpressionPtr> tuple(bool conditional = true, bool in_parentheses = false,
                              std::string_view end = {});
  std::optional<Comparison> comparison_sign();

  // Statements, in statement_parser.cc.
  Result<std::unique_ptr<Statement>> statement();
  Result<Statements> body(std::initializer_list<std::string_view> end_tags);
  Result<Statements> whole_body(std::string_view end_tag);
  Result<Target> target(bool allow_attribute, std::string_view end = {});
  Result<Target> single_target(bool allow_attribute);
  Result<Name> name_target();
  Status signature(MacroBody& macro);
  Result<std::unique_ptr<Statement>> set();
  Result<std::unique_ptr<Statement>> for_loop();
  Result<std::unique_ptr<Statement>> if_chain();
  Result<std::unique_ptr<Statement>> macro();
  Result<std::unique_ptr<Statement>> call_block();
  Result<std::unique_ptr<Statement>> generation();
  Result<std::unique_ptr<Statement>> filter_block();
  Result<std::unique_ptr<Statement>> with();
  Result<std::unique_ptr<Statement>> print();
  template <typename Node>
  std::unique_ptr<Statement> finish(Node node, const SourcePosition& position);

  std::vector<Token> tokens_;
  size_t at_ = 0;
  // Its levels limit the recursion of the parser.
  Budget budget_;
};

template <typename Node>
Result<ExpressionPtr> Parser::make(Node node, const SourcePosition& position,
                                   std::initializer_list<int> depths) {
  int depth = 1;
  for (const int inner : depths) depth = std::max(depth, inner + 1);
  if (depth > budget_.limits().depth)
    return error(position,
                 fmt::format("expressions nested deeper than {}", budget_.limits().depth));
  auto expression = std::make_unique<Expression>();
  expression->node = std::move(node);
  expression->position = position;
  expression->depth = depth;
  return expression;
}

}  // namespace neuronmm::text::jinja
