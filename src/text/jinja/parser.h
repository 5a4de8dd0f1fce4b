#pragma once
// Parses the source of a template into a syntax tree (ast.h), by Jinja's grammar. Template::parse
// (template.h) calls parse_template(), and nothing else uses the class Parser. The parser fails on
// malformed syntax, on tags that chat templates do not use, and on templates that are nested too
// deep or much too long. Unknown filters and tests are found later, by analyze() (analysis.h).

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

// Parses a whole template. Errors begin with "LINE:COLUMN: ". The tree does not refer to `source`.
Result<Statements> parse_template(std::string_view source);

// The state of a parse. expression_parser.cc holds the grammar of expressions, and
// statement_parser.cc that of statements. Each grammar rule has a function, which begins at the
// current token and takes the tokens of the rule.
class Parser {
 public:
  // `tokens` must end with kEnd, as those of tokenize() do.
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)), budget_(limits()) {}

  // Parses statements up to a tag with one of the names `end_tags`, such as "endif". The "{%" of
  // that tag is taken, and its name is the current token. The end of the template is an error then.
  // If `end_tags` is empty, the statements go on to the end of the template.
  Result<Statements> statements(std::initializer_list<std::string_view> end_tags);

 private:
  using Kind = Token::Kind;
  // Returns the limits of a parse, which allow 200 levels of nesting.
  static Limits limits();

  const Token& current() const { return tokens_[at_]; }
  const Token& following() const { return tokens_[at_ + (at_ + 1 < tokens_.size())]; }
  bool at_operator(std::string_view text) const { return is(current(), Kind::kOperator, text); }
  bool at_name(std::string_view text) const { return is(current(), Kind::kName, text); }
  static bool is(const Token& token, Kind kind, std::string_view text) {
    return token.kind == kind && token.text == text;
  }
  const Token& take() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  // Take the current token if it is this operator or name, and return whether it is.
  bool skip_operator(std::string_view text);
  bool skip_name(std::string_view text);
  // Take the current token, or fail if it is another one.
  Status expect_operator(std::string_view text);
  Status expect_name(std::string_view text);
  Status expect(Kind kind, std::string_view what);
  Result<std::string> name();
  Error error(const SourcePosition& position, std::string_view message) const;
  Error unexpected(std::string_view expected) const;
  static std::string describe(const Token& token);

  // Makes an expression of this node. `depths` are the depths of the expressions inside the node.
  // Fails if the new expression is deeper than the limit.
  template <typename Node>
  Result<ExpressionPtr> make(Node node, const SourcePosition& position,
                             std::initializer_list<int> depths);
  static int depth_of(const ExpressionPtr& expression) {
    return expression == nullptr ? 0 : expression->depth;
  }
  static int depth_of(const CallArguments& arguments);
  static int depth_of(const Expressions& expressions);

  // The rules of expressions, in expression_parser.cc. `conditional` allows `a if b else c`.
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
  // Parses an expression, which is a tuple if it has commas. The expression ends before the end of
  // a tag, a closing parenthesis or the name `end`. Only `in_parentheses` may the tuple be empty.
  Result<ExpressionPtr> tuple(bool conditional = true, bool in_parentheses = false,
                              std::string_view end = {});
  std::optional<Comparison> comparison_sign();

  // The rules of statements, in statement_parser.cc. A rule such as if_chain() begins at the name
  // of its tag and ends before the "%}" of its last tag.
  Result<std::unique_ptr<Statement>> statement();
  // Parses the end of a tag and the statements after it, up to one of these end tags (see
  // statements()).
  Result<Statements> body(std::initializer_list<std::string_view> end_tags);
  // Parses a body that only one tag can end, and takes the name of that tag.
  Result<Statements> whole_body(std::string_view end_tag);
  // Parse the left side of an assignment. `allow_attribute` allows `namespace.name`.
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
  Result<std::unique_ptr<Statement>> print_tag();  // Parses {% print a, b %}.
  template <typename Node>
  std::unique_ptr<Statement> finish(Node node, const SourcePosition& position);

  std::vector<Token> tokens_;
  size_t at_ = 0;
  // Limits the recursion of the parser and the bytes of the template's constant texts.
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
