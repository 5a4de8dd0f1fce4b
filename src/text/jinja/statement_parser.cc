// Parses statements.

#include <algorithm>
#include <utility>

#include "text/jinja/parser.h"

namespace neuronmm::text::jinja {

template <typename Node>
std::unique_ptr<Statement> Parser::finish(Node node, const SourcePosition& position) {
  auto statement = std::make_unique<Statement>();
  statement->node = std::move(node);
  statement->position = position;
  return statement;
}

Result<Statements> Parser::statements(std::initializer_list<std::string_view> end_tags) {
  const Budget::Level level(budget_);
  if (const Status status = level.check(); !status.ok())
    return error(current().position, status.error().message);
  Statements all;
  while (current().kind != Kind::kEnd) {
    const SourcePosition position = current().position;
    if (current().kind == Kind::kData) {
      TextWriter text(budget_);
      text.append(take().text);
      NMM_ASSIGN(TextPtr whole, text.take());
      all.push_back(finish(Data{std::move(whole)}, position));
    } else if (current().kind == Kind::kVariableBegin) {
      take();
      Output output;
      NMM_ASSIGN(output.values.emplace_back(), tuple());
      NMM_TRY(expect(Kind::kVariableEnd, "}}"));
      all.push_back(finish(std::move(output), position));
    } else {
      NMM_TRY(expect(Kind::kBlockBegin, "{%"));
      if (std::ranges::any_of(end_tags, [&](auto tag) { return at_name(tag); })) return all;
      NMM_ASSIGN(all.emplace_back(), statement());
      NMM_TRY(expect(Kind::kBlockEnd, "%}"));
    }
  }
  if (end_tags.size() != 0) return unexpected(fmt::format("{{% {} %}}", *(end_tags.end() - 1)));
  return all;
}

Result<std::unique_ptr<Statement>> Parser::statement() {
  const Token& tag = current();
  if (at_name("set")) return set();
  if (at_name("for")) return for_loop();
  if (at_name("if")) return if_chain();
  if (at_name("macro")) return macro();
  if (at_name("call")) return call_block();
  if (at_name("generation")) return generation();
  if (at_name("filter")) return filter_block();
  if (at_name("with")) return with();
  if (at_name("print")) return print_tag();
  if (skip_name("break")) return finish(Break{}, tag.position);
  if (skip_name("continue")) return finish(Continue{}, tag.position);
  return unexpected("a tag of chat templates");
}

// Parses the rest of the current tag and the statements after it, up to one of these end tags.
Result<Statements> Parser::body(std::initializer_list<std::string_view> end_tags) {
  skip_operator(":");
  NMM_TRY(expect(Kind::kBlockEnd, "%}"));
  return statements(end_tags);
}

// Parses a body with one end tag, and takes the end tag.
Result<Statements> Parser::whole_body(std::string_view end_tag) {
  NMM_ASSIGN(Statements all, body({end_tag}));
  take();
  return all;
}

Result<Name> Parser::name_target() {
  const SourcePosition position = current().position;
  NMM_ASSIGN(std::string text, name());
  for (const char* constant : {"true", "false", "none", "True", "False", "None"}) {
    if (text == constant) return error(position, fmt::format("cannot assign to '{}'", text));
  }
  return Name{std::move(text), {}};
}

Result<Target> Parser::single_target(bool allow_attribute) {
  const SourcePosition position = current().position;
  if (skip_operator("(")) {
    NMM_ASSIGN(Target inner, target(allow_attribute));
    NMM_TRY(expect_operator(")"));
    return inner;
  }
  NMM_ASSIGN(Name object, name_target());
  if (!allow_attribute || !skip_operator(".")) return Target{std::move(object), position};
  NMM_ASSIGN(std::string attribute, name());
  return Target{Target::Attribute{std::move(object), std::move(attribute)}, position};
}

// Parses a target, or several targets with commas between them.
Result<Target> Parser::target(bool allow_attribute, std::string_view end) {
  const Budget::Level level(budget_);
  if (const Status status = level.check(); !status.ok())
    return error(current().position, status.error().message);
  const SourcePosition position = current().position;
  std::vector<Target> parts;
  bool is_tuple = false;
  while (!at_operator(")") && current().kind != Kind::kBlockEnd && (end.empty() || !at_name(end))) {
    NMM_ASSIGN(Target part, single_target(allow_attribute));
    parts.push_back(std::move(part));
    if (!skip_operator(",")) break;
    is_tuple = true;
  }
  if (parts.empty()) return unexpected("a name to assign to");
  if (!is_tuple) return std::move(parts.front());
  return Target{std::move(parts), position};
}

Result<std::unique_ptr<Statement>> Parser::set() {
  const SourcePosition position = take().position;
  NMM_ASSIGN(Target to, target(true));
  if (skip_operator("=")) {
    NMM_ASSIGN(ExpressionPtr value, tuple());
    return finish(Assign{std::move(to), std::move(value)}, position);
  }
  AssignBlock block{std::move(to), nullptr, {}, {}};
  NMM_ASSIGN(ExpressionPtr captured, make(CapturedOutput{}, position, {}));
  NMM_ASSIGN(block.filter, filters(std::move(captured)));
  NMM_ASSIGN(block.body, whole_body("endset"));
  return finish(std::move(block), position);
}

Result<std::unique_ptr<Statement>> Parser::for_loop() {
  const SourcePosition position = take().position;
  For loop;
  NMM_ASSIGN(loop.target, target(false, "in"));
  NMM_TRY(expect_name("in"));
  NMM_ASSIGN(loop.items, tuple(false, false, "recursive"));
  if (skip_name("if")) {
    NMM_ASSIGN(loop.test, expression());
  }
  loop.recursive = skip_name("recursive");
  NMM_ASSIGN(loop.body, body({"else", "endfor"}));
  if (take().text == "else") {
    NMM_ASSIGN(loop.otherwise, whole_body("endfor"));
  }
  return finish(std::move(loop), position);
}

Result<std::unique_ptr<Statement>> Parser::if_chain() {
  const SourcePosition position = current().position;
  If chain;
  while (true) {
    take();
    NMM_ASSIGN(ExpressionPtr test, tuple(false));
    NMM_ASSIGN(Statements then, body({"elif", "else", "endif"}));
    chain.branches.emplace_back(std::move(test), std::move(then));
    if (!at_name("elif")) break;
  }
  if (take().text == "else") {
    NMM_ASSIGN(chain.otherwise, whole_body("endif"));
  }
  return finish(std::move(chain), position);
}

// Parses the parameters of a macro, such as (a, b=1).
Status Parser::signature(MacroBody& macro) {
  NMM_TRY(expect_operator("("));
  while (!at_operator(")")) {
    if (!macro.parameters.empty()) {
      NMM_TRY(expect_operator(","));
    }
    const SourcePosition position = current().position;
    NMM_ASSIGN(Name parameter, name_target());
    for (const Name& other : macro.parameters) {
      if (other.name == parameter.name)
        return error(position, fmt::format("parameter '{}' given twice", other.name));
    }
    if (skip_operator("=")) {
      NMM_ASSIGN(macro.defaults.emplace_back(), expression());
    } else if (!macro.defaults.empty()) {
      return error(position, "a parameter without default after one with a default");
    }
    macro.parameters.push_back(std::move(parameter));
  }
  take();
  return {};
}

Result<std::unique_ptr<Statement>> Parser::macro() {
  const SourcePosition position = take().position;
  Macro macro;
  NMM_ASSIGN(macro.name, name_target());
  NMM_TRY(signature(macro.body));
  NMM_ASSIGN(macro.body.body, whole_body("endmacro"));
  return finish(std::move(macro), position);
}

Result<std::unique_ptr<Statement>> Parser::call_block() {
  const SourcePosition position = take().position;
  CallBlock block;
  if (at_operator("(")) {
    NMM_TRY(signature(block.body));
  }
  NMM_ASSIGN(block.call, expression());
  if (!std::holds_alternative<Call>(block.call->node)) return error(position, "expected a call");
  NMM_ASSIGN(block.body.body, whole_body("endcall"));
  return finish(std::move(block), position);
}

Result<std::unique_ptr<Statement>> Parser::generation() {
  const SourcePosition position = take().position;
  Generation generation;
  NMM_ASSIGN(generation.body.body, whole_body("endgeneration"));
  return finish(std::move(generation), position);
}

Result<std::unique_ptr<Statement>> Parser::filter_block() {
  const SourcePosition position = take().position;
  FilterBlock block;
  NMM_ASSIGN(ExpressionPtr captured, make(CapturedOutput{}, position, {}));
  NMM_ASSIGN(block.filter, filters(std::move(captured), true));
  NMM_ASSIGN(block.body, whole_body("endfilter"));
  return finish(std::move(block), position);
}

Result<std::unique_ptr<Statement>> Parser::with() {
  const SourcePosition position = take().position;
  With with;
  while (current().kind != Kind::kBlockEnd) {
    if (!with.variables.empty()) {
      NMM_TRY(expect_operator(","));
    }
    NMM_ASSIGN(Target to, target(false));
    NMM_TRY(expect_operator("="));
    NMM_ASSIGN(ExpressionPtr value, expression());
    with.variables.emplace_back(std::move(to), std::move(value));
  }
  NMM_ASSIGN(with.body, whole_body("endwith"));
  return finish(std::move(with), position);
}

Result<std::unique_ptr<Statement>> Parser::print_tag() {
  const SourcePosition position = take().position;
  Output output;
  while (current().kind != Kind::kBlockEnd) {
    if (!output.values.empty()) {
      NMM_TRY(expect_operator(","));
    }
    NMM_ASSIGN(output.values.emplace_back(), expression());
  }
  return finish(std::move(output), position);
}

}  // namespace neuronmm::text::jinja
