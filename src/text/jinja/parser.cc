#include "text/jinja/parser.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>
#include <utility>

namespace neuronmm::text::jinja {
namespace {

// The largest product of a template's number of tokens and its number of different names, to which
// the time of parser and analysis is proportional in the worst case. Assumed: 75 times the product
// of the largest template in llama.cpp's repository.
constexpr size_t kMaxTokensTimesNames = 30'000'000;

// Fails for templates that would take minutes to parse.
Status check_size(const std::vector<Token>& tokens) {
  std::unordered_set<std::string_view> names;
  for (const Token& token : tokens) {
    if (token.kind == Token::Kind::kName) names.insert(token.text);
  }
  if (tokens.size() <= kMaxTokensTimesNames / (names.size() + 1)) return {};
  return fail("1:1: {} tokens with {} different names are too many for a template", tokens.size(),
              names.size());
}

}  // namespace

// The depth is smaller than elsewhere, because each level of an expression takes a dozen calls.
Limits Parser::limits() { return {.depth = 200}; }

std::string Parser::describe(const Token& token) {
  switch (token.kind) {
    case Kind::kData:
      return "text";
    case Kind::kVariableBegin:
      return "{{";
    case Kind::kVariableEnd:
      return "}}";
    case Kind::kBlockBegin:
      return "{%";
    case Kind::kBlockEnd:
      return "%}";
    case Kind::kString:
      return fmt::format("the string {:?}", token.text.substr(0, 40));
    case Kind::kEnd:
      return "the end of the template";
    default:
      return fmt::format("'{}'", token.text.substr(0, 40));
  }
}

Error Parser::error(const SourcePosition& position, std::string_view message) const {
  return fail("{}:{}: {}", position.line, position.column, message);
}

Error Parser::unexpected(std::string_view expected) const {
  return error(current().position,
               fmt::format("expected {}, found {}", expected, describe(current())));
}

bool Parser::skip_operator(std::string_view text) {
  if (!at_operator(text)) return false;
  take();
  return true;
}

bool Parser::skip_name(std::string_view text) {
  if (!at_name(text)) return false;
  take();
  return true;
}

Status Parser::expect_operator(std::string_view text) {
  if (!skip_operator(text)) return unexpected(fmt::format("'{}'", text));
  return {};
}

Status Parser::expect_name(std::string_view text) {
  if (!skip_name(text)) return unexpected(fmt::format("'{}'", text));
  return {};
}

Status Parser::expect(Kind kind, std::string_view what) {
  if (current().kind != kind) return unexpected(what);
  take();
  return {};
}

Result<std::string> Parser::name() {
  if (current().kind != Kind::kName) return unexpected("a name");
  return take().text;
}

int Parser::depth_of(const Expressions& expressions) {
  int depth = 0;
  for (const ExpressionPtr& expression : expressions) depth = std::max(depth, depth_of(expression));
  return depth;
}

int Parser::depth_of(const CallArguments& arguments) {
  int depth = std::max({depth_of(arguments.positional), depth_of(arguments.more_positional),
                        depth_of(arguments.more_named)});
  for (const auto& [name, value] : arguments.named) depth = std::max(depth, depth_of(value));
  return depth;
}

Result<Statements> parse_template(std::string_view source) {
  NMM_ASSIGN(auto tokens, tokenize(source));
  NMM_TRY(check_size(tokens));
  return Parser(std::move(tokens)).statements({});
}

}  // namespace neuronmm::text::jinja
