#include "serve/schema/schema_lowering.h"

#include <algorithm>
#include <utility>

#include "serve/schema/literal_syntax.h"
#include "serve/schema/object_lowering.h"
#include "serve/schema/unique_array_lowering.h"

namespace neuronmm::grammar {
namespace {

// The longest string without a pattern, if the schema's maximum is larger. Assumed: no answer needs
// a longer one.
constexpr int64_t kMostCharacters = 1 << 16;

// Returns why no number of items is allowed, or an empty text if some number is.
std::string count_contradiction(const ArrayLimits& limits) {
  const auto more = [](const char* least_of, int64_t least, const char* most_of,
                       std::optional<int64_t> most) {
    const bool fits = least <= most.value_or(least);
    return fits ? "" : fmt::format("{} {} is more than {} {}", least_of, least, most_of, *most);
  };
  std::string reason = more("minItems", limits.minimum, "maxItems", limits.maximum);
  for (const ContainsLimits& contains : limits.contains) {
    if (reason.empty())
      reason = more("minContains", contains.minimum, "maxContains", contains.maximum);
    if (reason.empty()) reason = more("minContains", contains.minimum, "maxItems", limits.maximum);
  }
  return reason;
}

// The steps of looking a rule up, and the memory of a rule in the tables. Assumed.
constexpr int64_t kStepsPerRule = 20, kRuleBytes = 200;

}  // namespace

RuleId SchemaLowering::rule_of(const Conjunction& schemas) {
  // Each schema is compared with those before it. The budget is checked by run().
  const int64_t count = std::ssize(schemas);
  if (!budget().spend(kStepsPerRule + count * (1 + count / 8))) return syntax_.value();
  Conjunction distinct;
  for (const Json* schema : schemas) {
    const bool is_new = std::find(distinct.begin(), distinct.end(), schema) == distinct.end();
    if (is_new && !allows_all(*schema)) distinct.push_back(schema);
  }
  if (distinct.empty()) return syntax_.value();
  const auto [found, is_new] = rules_.try_emplace(distinct, -1);
  if (is_new) {
    budget().allocate(kRuleBytes + 2 * count * static_cast<int64_t>(sizeof(Json*)));
    found->second = grammar_.add_rule();
    queue_.push_back({std::move(distinct), found->second});
  }
  return found->second;
}

Status SchemaLowering::run() {
  while (!queue_.empty()) {
    const Job job = std::move(queue_.back());
    queue_.pop_back();
    const Budget::Part part(
        budget(), [&] { return document_.place(normalizer_.part_of(*job.schemas.front())); });
    NMM_ASSIGN(const Shapes shapes, normalizer_.shapes_of(job.schemas));
    if (shapes.empty()) note_contradiction(job.schemas, "no value can satisfy it");
    const auto [start, end] = grammar_.rule(job.rule);
    const InsertionPoint point = {job.schemas, start, end};
    for (const Shape& shape : shapes) NMM_TRY(lower(shape, point));
    if (!budget().ok()) return budget().error();
    if (grammar_.too_large())
      return error_at(point,
                      fmt::format("up to here the automaton has more than {} edges, the most "
                                  "that is allowed",
                                  Grammar::kMaxEdges));
  }
  return {};
}

void SchemaLowering::note_contradiction(const Conjunction& schemas, std::string_view what) {
  if (contradiction_.empty())
    contradiction_ = document_.error_at(*schemas.front(), "", what).message;
}

Error SchemaLowering::error_at(const InsertionPoint& point, std::string_view what) const {
  return document_.error_at(*point.schemas.front(), "", what);
}

Status SchemaLowering::lower(const Shape& shape, const InsertionPoint& point) {
  switch (shape.kind) {
    case Shape::Kind::kNull:
      grammar_.add_text(point.from, "null", point.to);
      return {};
    case Shape::Kind::kBoolean:
      for (const char* word : {"true", "false"}) grammar_.add_text(point.from, word, point.to);
      return {};
    case Shape::Kind::kNumber:
      return lower_number(shape.number, point);
    case Shape::Kind::kString:
      return lower_string(shape.string, point);
    case Shape::Kind::kArray:
      return lower_array(shape.array, point);
    case Shape::Kind::kObject:
      return ObjectLowering(*this, shape.object, point).run();
    case Shape::Kind::kLiterals:
      LiteralSyntax(syntax_, grammar_).add(point.from, shape.literals, point.to);
      return {};
  }
  return {};
}

Status SchemaLowering::lower_number(const NumberLimits& limits, const InsertionPoint& point) {
  if (limits.only_type()) {
    const RuleId rule = limits.integer ? syntax_.integer() : syntax_.number();
    grammar_.add_call(point.from, rule, point.to);
    return {};
  }
  const auto language = number_language(limits, budget(), NumberDigits::kMachine);
  if (!language.ok()) return error_at(point, language.error().message);
  if (language->empty()) note_contradiction(point.schemas, "no number is within its limits");
  syntax_.add_text_of(point.from, *language, point.to);
  budget().release(language->bytes());
  return {};
}

// Adds a string. Strings with the same limits share a rule.
Status SchemaLowering::lower_string(const StringLimits& limits, const InsertionPoint& point) {
  if (limits.maximum && *limits.maximum < limits.minimum) {
    note_contradiction(point.schemas, "no string is within its limits");
    return {};
  }
  if (limits.only_lengths()) {
    std::optional<int64_t> maximum = limits.maximum;
    if (maximum) maximum = std::min(*maximum, std::max(limits.minimum, kMostCharacters));
    grammar_.add_call(point.from, syntax_.counted_string(limits.minimum, maximum), point.to);
    return {};
  }
  std::vector<const StringLanguage*> languages;
  for (const Language& language : limits.languages) languages.push_back(language.get());
  const auto [found, is_new] =
      strings_.try_emplace({std::move(languages), limits.minimum, limits.maximum}, -1);
  if (is_new) {
    counts_approximately_ |= limits.maximum.has_value();
    const auto language = string_language_or_subset(limits, settings_.counted_states, budget());
    if (!language.ok()) return error_at(point, language.error().message);
    if (language->empty()) note_contradiction(point.schemas, "no string is within its limits");
    found->second = grammar_.add_rule();
    const auto [start, end] = grammar_.rule(found->second);
    syntax_.add_string_of(start, *language, end);
    budget().release(language->bytes());
  }
  grammar_.add_call(point.from, found->second, point.to);
  return {};
}

// Returns the rule of the item at `index`. If `also` is not null, the item must be valid for this
// schema, too.
RuleId SchemaLowering::item_rule(const ArrayLimits& limits, int64_t index, const Json* also) {
  Conjunction schemas;
  budget().spend(std::ssize(limits.items));
  for (const ItemSchemas& items : limits.items) {
    const Json* schema = items.at(static_cast<size_t>(index));
    if (schema != nullptr) schemas.push_back(schema);
  }
  if (also != nullptr) schemas.push_back(also);
  return rule_of(schemas);
}

// Adds an array as rows of positions. Row i comes after i items. Its positions count the items that
// are valid for `contains`, as far as they have to be counted. If `contains` has a maximum, each
// item is read either as valid or as not valid for it.
Status SchemaLowering::lower_array(const ArrayLimits& limits, const InsertionPoint& point) {
  if (const std::string reason = count_contradiction(limits); !reason.empty()) {
    note_contradiction(point.schemas, reason);
    return {};
  }
  if (limits.unique && limits.maximum.value_or(2) > 1) {
    NMM_ASSIGN(const bool enforced, UniqueArrayLowering(*this, limits, point).run());
    if (enforced) return {};
    const auto note = document_.error_at(*point.schemas.front(), "uniqueItems",
                                         "is enforced for constants, and for strings that have no "
                                         "longest one; these items may repeat");
    notes_.insert(note.message);
  }
  if (limits.contains.size() > 1)
    return error_at(point, "more than one `contains` for the same array is not supported");
  const ContainsLimits none{nullptr, 0, {}};
  const ContainsLimits& contains = limits.contains.empty() ? none : limits.contains.front();
  const Json* others = contains.maximum ? normalizer_.negated(*contains.schema) : nullptr;
  const int64_t most = contains.maximum.value_or(contains.minimum);
  if (most >= Grammar::kMaxEdges) {
    grammar_.set_too_large();
    return {};
  }
  size_t prefix = 0;
  for (const ItemSchemas& items : limits.items) prefix = std::max(prefix, items.prefix.size());
  const int64_t fewest = std::max(limits.minimum, static_cast<int64_t>(prefix));
  const int64_t last = std::min(limits.maximum.value_or(fewest), std::max(fewest, kMostItems));
  const auto new_row = [&] {
    std::vector<PositionId> row(static_cast<size_t>(most) + 1);
    for (PositionId& position : row) position = grammar_.add_position();
    return row;
  };
  std::vector<PositionId> row = new_row();
  grammar_.add_text(point.from, "[", row[0]);
  for (int64_t i = 0; !grammar_.too_large(); ++i) {
    const bool repeats = i > 0 && i >= last && !limits.maximum;
    const bool ends = i >= last && limits.maximum;
    const std::vector<PositionId> next = repeats || ends ? row : new_row();
    for (size_t count = 0; count < row.size() && !grammar_.too_large(); ++count) {
      if (i >= limits.minimum && static_cast<int64_t>(count) >= contains.minimum) {
        const PositionId close = grammar_.add_position();
        if (i == 0) grammar_.add_empty(row[count], close);
        if (i > 0) syntax_.add_white_space(row[count], close);
        grammar_.add_text(close, "]", point.to);
      }
      if (ends) continue;
      const PositionId item = grammar_.add_position();
      if (i == 0) syntax_.add_white_space(row[count], item);
      if (i > 0) syntax_.add_comma(row[count], item);
      grammar_.add_call(item, item_rule(limits, i, others), next[count]);
      if (contains.schema != nullptr && count + 1 < row.size())
        grammar_.add_call(item, item_rule(limits, i, contains.schema), next[count + 1]);
    }
    if (repeats || ends) return {};
    row = next;
  }
  return {};
}

}  // namespace neuronmm::grammar
