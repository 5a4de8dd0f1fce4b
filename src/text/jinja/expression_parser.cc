// Parses expressions. The functions are in the order of precedence, from the operators that bind
// least.

#include <algorithm>
#include <array>
#include <utility>

#include "text/jinja/parser.h"

namespace neuronmm::text::jinja {

Result<ExpressionPtr> Parser::expression(bool with_conditional) {
  const Budget::Level level(budget_);
  if (const Status status = level.check(); !status.ok())
    return error(current().position, status.error().message);
  return with_conditional ? conditional() : disjunction();
}

// Parses `a if b else c`.
Result<ExpressionPtr> Parser::conditional() {
  const SourcePosition position = current().position;
  NMM_ASSIGN(ExpressionPtr then, disjunction());
  while (skip_name("if")) {
    NMM_ASSIGN(ExpressionPtr test, disjunction());
    ExpressionPtr otherwise;
    if (skip_name("else")) {
      NMM_ASSIGN(otherwise, expression());
    }
    const auto depths = {depth_of(test), depth_of(then), depth_of(otherwise)};
    NMM_ASSIGN(then, make(Conditional{std::move(test), std::move(then), std::move(otherwise)},
                          position, depths));
  }
  return then;
}

Result<ExpressionPtr> Parser::disjunction() {
  const SourcePosition position = current().position;
  NMM_ASSIGN(ExpressionPtr left, conjunction());
  while (skip_name("or")) {
    NMM_ASSIGN(ExpressionPtr right, conjunction());
    const auto depths = {depth_of(left), depth_of(right)};
    NMM_ASSIGN(left, make(Logical{false, std::move(left), std::move(right)}, position, depths));
  }
  return left;
}

Result<ExpressionPtr> Parser::conjunction() {
  const SourcePosition position = current().position;
  NMM_ASSIGN(ExpressionPtr left, negation());
  while (skip_name("and")) {
    NMM_ASSIGN(ExpressionPtr right, negation());
    const auto depths = {depth_of(left), depth_of(right)};
    NMM_ASSIGN(left, make(Logical{true, std::move(left), std::move(right)}, position, depths));
  }
  return left;
}

Result<ExpressionPtr> Parser::negation() {
  std::vector<SourcePosition> positions;
  while (at_name("not")) positions.push_back(take().position);
  NMM_ASSIGN(ExpressionPtr operand, comparison());
  for (; !positions.empty(); positions.pop_back()) {
    const int depth = depth_of(operand);
    NMM_ASSIGN(operand, make(Not{std::move(operand)}, positions.back(), {depth}));
  }
  return operand;
}

// Takes the comparison operator at the current token, if there is one.
std::optional<Comparison> Parser::comparison_sign() {
  constexpr std::array<std::string_view, 6> kSigns = {"==", "!=", "<", "<=", ">", ">="};
  if (current().kind == Kind::kOperator) {
    const auto* const sign = std::ranges::find(kSigns, std::string_view(current().text));
    if (sign != kSigns.end()) {
      take();
      return static_cast<Comparison>(sign - kSigns.begin());
    }
  }
  if (skip_name("in")) return Comparison::kIn;
  if (at_name("not") && is(following(), Kind::kName, "in")) {
    take();
    take();
    return Comparison::kNotIn;
  }
  return std::nullopt;
}

Result<ExpressionPtr> Parser::comparison() {
  const SourcePosition position = current().position;
  NMM_ASSIGN(ExpressionPtr first, sum());
  std::vector<std::pair<Comparison, ExpressionPtr>> operands;
  int depth = depth_of(first);
  while (true) {
    const auto sign = comparison_sign();
    if (!sign) break;
    NMM_ASSIGN(ExpressionPtr operand, sum());
    depth = std::max(depth, depth_of(operand));
    operands.emplace_back(*sign, std::move(operand));
  }
  if (operands.empty()) return first;
  return make(Compare{std::move(first), std::move(operands)}, position, {depth});
}

Result<ExpressionPtr> Parser::sum() {
  const SourcePosition position = current().position;
  NMM_ASSIGN(ExpressionPtr left, concatenation());
  while (at_operator("+") || at_operator("-")) {
    const auto operation = take().text == "+" ? Arithmetic::kAdd : Arithmetic::kSubtract;
    NMM_ASSIGN(ExpressionPtr right, concatenation());
    const auto depths = {depth_of(left), depth_of(right)};
    NMM_ASSIGN(left, make(Binary{operation, std::move(left), std::move(right)}, position, depths));
  }
  return left;
}

Result<ExpressionPtr> Parser::concatenation() {
  const SourcePosition position = current().position;
  Expressions parts;
  do {
    NMM_ASSIGN(parts.emplace_back(), product());
  } while (skip_operator("~"));
  if (parts.size() == 1) return std::move(parts.front());
  const int depth = depth_of(parts);
  return make(Concatenation{std::move(parts)}, position, {depth});
}

Result<ExpressionPtr> Parser::product() {
  constexpr std::array<std::string_view, 4> kSigns = {"*", "/", "//", "%"};
  constexpr std::array<Arithmetic, 4> kOperations = {Arithmetic::kMultiply, Arithmetic::kDivide,
                                                     Arithmetic::kFloorDivide, Arithmetic::kModulo};
  const SourcePosition position = current().position;
  NMM_ASSIGN(ExpressionPtr left, power());
  while (current().kind == Kind::kOperator) {
    const auto* const sign = std::ranges::find(kSigns, std::string_view(current().text));
    if (sign == kSigns.end()) break;
    take();
    NMM_ASSIGN(ExpressionPtr right, power());
    const auto depths = {depth_of(left), depth_of(right)};
    const Arithmetic operation = kOperations[static_cast<size_t>(sign - kSigns.begin())];
    NMM_ASSIGN(left, make(Binary{operation, std::move(left), std::move(right)}, position, depths));
  }
  return left;
}

// Powers are grouped from the left in Jinja: 2**3**2 is 64.
Result<ExpressionPtr> Parser::power() {
  const SourcePosition position = current().position;
  NMM_ASSIGN(ExpressionPtr left, unary());
  while (skip_operator("**")) {
    NMM_ASSIGN(ExpressionPtr right, unary());
    const auto depths = {depth_of(left), depth_of(right)};
    NMM_ASSIGN(left, make(Binary{Arithmetic::kPower, std::move(left), std::move(right)}, position,
                          depths));
  }
  return left;
}

// Filters bind less than signs: -1 | abs is 1.
Result<ExpressionPtr> Parser::unary(bool with_filters) {
  const Budget::Level level(budget_);
  if (const Status status = level.check(); !status.ok())
    return error(current().position, status.error().message);
  const SourcePosition position = current().position;
  ExpressionPtr inner;
  if (at_operator("-") || at_operator("+")) {
    const bool negative = take().text == "-";
    NMM_ASSIGN(ExpressionPtr operand, unary(false));
    const int depth = depth_of(operand);
    NMM_ASSIGN(inner, make(Sign{negative, std::move(operand)}, position, {depth}));
  } else {
    NMM_ASSIGN(inner, primary());
  }
  NMM_ASSIGN(inner, postfix(std::move(inner)));
  if (!with_filters) return inner;
  return filters_and_tests(std::move(inner));
}

Result<ExpressionPtr> Parser::primary() {
  const Token& token = current();
  if (token.kind == Kind::kName) {
    take();
    if (token.text == "true" || token.text == "True")
      return make(Constant{Value(true)}, token.position, {});
    if (token.text == "false" || token.text == "False")
      return make(Constant{Value(false)}, token.position, {});
    if (token.text == "none" || token.text == "None")
      return make(Constant{Value()}, token.position, {});
    return make(Name{token.text, {}}, token.position, {});
  }
  if (at_operator("(")) {
    take();
    NMM_ASSIGN(ExpressionPtr inner, tuple(true, true));
    NMM_TRY(expect_operator(")"));
    return inner;
  }
  if (at_operator("[")) return list();
  if (at_operator("{")) return dict();
  return literal();
}

Result<ExpressionPtr> Parser::literal() {
  const Token& token = current();
  if (token.kind == Kind::kInteger)
    return make(Constant{Value(take().integer)}, token.position, {});
  if (token.kind == Kind::kFloat) return make(Constant{Value(take().real)}, token.position, {});
  if (token.kind != Kind::kString) return unexpected("an expression");
  TextWriter text(budget_);
  while (current().kind == Kind::kString) text.append(take().text);
  NMM_ASSIGN(TextPtr whole, text.take());
  return make(Constant{Value(std::move(whole))}, token.position, {});
}

Result<ExpressionPtr> Parser::list() {
  const SourcePosition position = take().position;
  Expressions items;
  while (!at_operator("]")) {
    if (!items.empty()) {
      NMM_TRY(expect_operator(","));
      if (at_operator("]")) break;
    }
    NMM_ASSIGN(items.emplace_back(), expression());
  }
  take();
  const int depth = depth_of(items);
  return make(ListLiteral{std::move(items), false}, position, {depth});
}

Result<ExpressionPtr> Parser::dict() {
  const SourcePosition position = take().position;
  DictLiteral dict;
  int depth = 0;
  while (!at_operator("}")) {
    if (!dict.entries.empty()) {
      NMM_TRY(expect_operator(","));
      if (at_operator("}")) break;
    }
    NMM_ASSIGN(ExpressionPtr key, expression());
    NMM_TRY(expect_operator(":"));
    NMM_ASSIGN(ExpressionPtr value, expression());
    depth = std::max({depth, depth_of(key), depth_of(value)});
    dict.entries.emplace_back(std::move(key), std::move(value));
  }
  take();
  return make(std::move(dict), position, {depth});
}

Result<ExpressionPtr> Parser::tuple(bool with_conditional, bool in_parentheses,
                                    std::string_view end) {
  const SourcePosition position = current().position;
  Expressions items;
  bool is_tuple = false;
  while (true) {
    if (current().kind == Kind::kVariableEnd || current().kind == Kind::kBlockEnd ||
        at_operator(")") || (!end.empty() && at_name(end)))
      break;
    NMM_ASSIGN(items.emplace_back(), expression(with_conditional));
    if (!skip_operator(",")) break;
    is_tuple = true;
  }
  if (!is_tuple && !items.empty()) return std::move(items.front());
  if (!is_tuple && !in_parentheses) return unexpected("an expression");
  const int depth = depth_of(items);
  return make(ListLiteral{std::move(items), true}, position, {depth});
}

Result<ExpressionPtr> Parser::postfix(ExpressionPtr inner) {
  while (true) {
    if (at_operator(".") || at_operator("[")) {
      NMM_ASSIGN(inner, subscript(std::move(inner)));
    } else if (at_operator("(")) {
      NMM_ASSIGN(inner, call(std::move(inner)));
    } else {
      return inner;
    }
  }
}

Result<ExpressionPtr> Parser::filters_and_tests(ExpressionPtr inner) {
  while (true) {
    if (at_operator("|")) {
      NMM_ASSIGN(inner, filters(std::move(inner)));
    } else if (at_name("is")) {
      NMM_ASSIGN(inner, test(std::move(inner)));
    } else if (at_operator("(")) {
      NMM_ASSIGN(inner, call(std::move(inner)));
    } else {
      return inner;
    }
  }
}

// Parses .name, .0, [key], [a, b] and [start:stop:step].
Result<ExpressionPtr> Parser::subscript(ExpressionPtr object) {
  const SourcePosition position = current().position;
  const int depth = depth_of(object);
  if (take().text == ".") {
    const Token& token = current();
    if (token.kind == Kind::kName)
      return make(Attribute{std::move(object), take().text}, position, {depth});
    if (token.kind != Kind::kInteger) return unexpected("a name or number");
    NMM_ASSIGN(ExpressionPtr key, make(Constant{Value(take().integer)}, token.position, {}));
    return make(Item{std::move(object), std::move(key)}, position, {depth});
  }
  if (at_operator(":")) return slice(std::move(object), nullptr, position);
  Expressions keys;
  while (!at_operator("]")) {
    if (!keys.empty()) {
      NMM_TRY(expect_operator(","));
    }
    NMM_ASSIGN(keys.emplace_back(), expression());
    if (keys.size() == 1 && at_operator(":"))
      return slice(std::move(object), std::move(keys.front()), position);
  }
  take();
  const int key_depth = depth_of(keys);
  ExpressionPtr key;
  if (keys.size() == 1) {
    key = std::move(keys.front());
  } else {
    NMM_ASSIGN(key, make(ListLiteral{std::move(keys), true}, position, {key_depth}));
  }
  return make(Item{std::move(object), std::move(key)}, position, {depth, key_depth + 1});
}

Result<ExpressionPtr> Parser::slice(ExpressionPtr object, ExpressionPtr start,
                                    const SourcePosition& position) {
  Slice slice{std::move(object), std::move(start), nullptr, nullptr};
  take();
  if (!at_operator(":") && !at_operator("]")) {
    NMM_ASSIGN(slice.stop, expression());
  }
  if (skip_operator(":") && !at_operator("]")) {
    NMM_ASSIGN(slice.step, expression());
  }
  NMM_TRY(expect_operator("]"));
  const auto depths = {depth_of(slice.object), depth_of(slice.start), depth_of(slice.stop),
                       depth_of(slice.step)};
  return make(std::move(slice), position, depths);
}

Result<ExpressionPtr> Parser::call(ExpressionPtr function) {
  const SourcePosition position = current().position;
  NMM_ASSIGN(CallArguments list, arguments());
  const auto depths = {depth_of(function), depth_of(list)};
  return make(Call{std::move(function), std::move(list)}, position, depths);
}

// Parses (a, b, c=d, *e, **f).
Result<CallArguments> Parser::arguments() {
  NMM_TRY(expect_operator("("));
  CallArguments arguments;
  bool first = true;
  while (!at_operator(")")) {
    if (!first) {
      NMM_TRY(expect_operator(","));
      if (at_operator(")")) break;
    }
    first = false;
    NMM_TRY(argument(arguments));
  }
  take();
  return arguments;
}

Status Parser::argument(CallArguments& arguments) {
  const Error order = error(current().position, "invalid order of arguments");
  const bool more_named = arguments.more_named != nullptr;
  const bool more = more_named || arguments.more_positional != nullptr;
  if (skip_operator("*")) {
    if (more) return order;
    NMM_ASSIGN(arguments.more_positional, expression());
  } else if (skip_operator("**")) {
    if (more_named) return order;
    NMM_ASSIGN(arguments.more_named, expression());
  } else if (current().kind == Kind::kName && is(following(), Kind::kOperator, "=")) {
    if (more_named) return order;
    const std::string name = take().text;
    take();
    for (const auto& [known, value] : arguments.named) {
      if (known == name) return error(current().position, "argument '" + name + "' given twice");
    }
    NMM_ASSIGN(ExpressionPtr value, expression());
    arguments.named.emplace_back(name, std::move(value));
  } else {
    if (more || !arguments.named.empty()) return order;
    NMM_ASSIGN(arguments.positional.emplace_back(), expression());
  }
  return {};
}

Result<std::string> Parser::dotted_name() {
  NMM_ASSIGN(std::string whole, name());
  while (skip_operator(".")) {
    NMM_ASSIGN(const std::string part, name());
    whole += "." + part;
  }
  return whole;
}

Result<ExpressionPtr> Parser::filters(ExpressionPtr input, bool first_without_bar) {
  while (first_without_bar || skip_operator("|")) {
    first_without_bar = false;
    Filter filter;
    const SourcePosition position = current().position;
    NMM_ASSIGN(filter.name, dotted_name());
    if (at_operator("(")) {
      NMM_ASSIGN(filter.arguments, arguments());
    }
    filter.input = std::move(input);
    const auto depths = {depth_of(filter.input), depth_of(filter.arguments)};
    NMM_ASSIGN(input, make(std::move(filter), position, depths));
  }
  return input;
}

// Parses `x is defined`, `x is not divisibleby 3` and `x is in [1, 2]`.
Result<ExpressionPtr> Parser::test(ExpressionPtr input) {
  const SourcePosition position = take().position;
  const bool negated = skip_name("not");
  Test test{std::move(input), {}, {}};
  NMM_ASSIGN(test.name, dotted_name());
  const Token& next = current();
  const bool literal_follows = next.kind == Kind::kString || next.kind == Kind::kInteger ||
                               next.kind == Kind::kFloat || at_operator("[") || at_operator("{");
  const bool name_follows =
      next.kind == Kind::kName && !at_name("else") && !at_name("or") && !at_name("and");
  if (at_operator("(")) {
    NMM_ASSIGN(test.arguments, arguments());
  } else if (literal_follows || name_follows) {
    if (at_name("is")) return error(next.position, "tests cannot be chained with 'is'");
    NMM_ASSIGN(ExpressionPtr argument, primary());
    NMM_ASSIGN(test.arguments.positional.emplace_back(), postfix(std::move(argument)));
  }
  const auto depths = {depth_of(test.input), depth_of(test.arguments)};
  NMM_ASSIGN(ExpressionPtr result, make(std::move(test), position, depths));
  if (!negated) return result;
  const int depth = depth_of(result);
  return make(Not{std::move(result)}, position, {depth});
}

}  // namespace neuronmm::text::jinja
