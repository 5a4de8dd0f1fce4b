#include "serve/schema/object_lowering.h"

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

namespace neuronmm::grammar {
namespace {

// The memory of a named property with its share of the set of names. Assumed.
constexpr int64_t kNamedBytes = 200;

bool allows_nothing(const Conjunction& schemas) {
  return std::any_of(schemas.begin(), schemas.end(), [](const Json* schema) {
    return schema->is_boolean() && !schema->get<bool>();
  });
}

Result<Language> shared(Result<StringLanguage> language) {
  if (!language.ok()) return language.error();
  return std::make_shared<const StringLanguage>(std::move(language).value());
}

}  // namespace

Status ObjectLowering::run() {
  collect_named();
  if (const Status others = collect_others(); !others.ok())
    return lowering_.error_at(point_, others.error().message);
  if (const std::string reason = count_contradiction(); !reason.empty()) {
    lowering_.note_contradiction(point_.schemas, reason);
    return {};
  }
  NMM_TRY(decide_counts());
  connect();
  return {};
}

void ObjectLowering::collect_named() {
  const std::set<std::string> required(limits_.required.begin(), limits_.required.end());
  std::set<std::string> met;
  Budget& budget = lowering_.budget();
  // The languages and objects of properties that each name is compared with.
  int64_t languages = 1 + std::ssize(limits_.names);
  for (const auto& properties : limits_.properties)
    languages += 1 + std::ssize(properties->patterns);
  const auto add = [&](const std::string& name) {
    if (!met.insert(name).second || !budget.spend(languages * (8 + std::ssize(name)))) return;
    Conjunction schemas;
    for (const auto& properties : limits_.properties) {
      for (const Json* schema : properties->of(name)) schemas.push_back(schema);
    }
    const bool is_name =
        std::all_of(limits_.names.begin(), limits_.names.end(),
                    [&](const Language& language) { return language->accepts(name); });
    const bool is_required = required.contains(name);
    if (!is_name || allows_nothing(schemas)) {
      if (!is_required) return;
      lowering_.note_contradiction(
          point_.schemas, fmt::format("the property {:?} is required and never allowed", name));
    }
    // A name that is not allowed gets a rule without edges, so no path leads through it.
    const RuleId rule = is_name ? lowering_.rule_of(schemas) : lowering_.grammar_.add_rule();
    budget.allocate(kNamedBytes + 2 * std::ssize(name));
    named_.push_back({name, rule, is_required});
  };
  for (const auto& properties : limits_.properties) {
    for (const std::string& name : properties->names) add(name);
  }
  for (const std::string& name : limits_.required) add(name);
}

bool ObjectLowering::is_closed() const {
  const auto& all = limits_.properties;
  const auto mentions = [](const auto& properties) { return properties->mentions_others; };
  const auto closes = [](const auto& properties) { return properties->closes; };
  if (std::none_of(all.begin(), all.end(), mentions))
    return lowering_.settings_.closed_objects && std::any_of(all.begin(), all.end(), closes);
  return std::any_of(all.begin(), all.end(), [](const auto& properties) {
    return properties->patterns.empty() && properties->additional != nullptr &&
           allows_nothing({properties->additional});
  });
}

// Returns the class of all names that are allowed and not named.
Result<ObjectLowering::NameClass> ObjectLowering::unnamed() const {
  NameClass all;
  all.schemas.resize(limits_.properties.size());
  std::set<std::string> names(limits_.required.begin(), limits_.required.end());
  bool has_patterns = !limits_.names.empty();
  for (const auto& properties : limits_.properties) {
    names.insert(properties->names.begin(), properties->names.end());
    has_patterns = has_patterns || !properties->patterns.empty();
  }
  if (names.empty() && !has_patterns) return all;
  NMM_ASSIGN(StringLanguage language, StringLanguage::of_strings(names, lowering_.budget()));
  NMM_ASSIGN(language, language.complement(lowering_.budget()));
  for (const Language& other : limits_.names) {
    NMM_ASSIGN(language, language.intersect(*other, lowering_.budget()));
  }
  all.language = std::make_shared<const StringLanguage>(std::move(language));
  return all;
}

Result<std::vector<ObjectLowering::NameClass>> ObjectLowering::split_by_patterns(
    NameClass all) const {
  std::vector<NameClass> classes = {std::move(all)};
  for (size_t i = 0; i < limits_.properties.size(); ++i) {
    for (const auto& [pattern, schema] : limits_.properties[i]->patterns) {
      Budget::Scratch scratch(lowering_.budget());
      NMM_ASSIGN(const StringLanguage rest, pattern->complement(lowering_.budget()));
      std::vector<NameClass> parts;
      for (const NameClass& names : classes) {
        NameClass matching = names, other = names;
        NMM_ASSIGN(matching.language,
                   shared(names.language->intersect(*pattern, lowering_.budget())));
        NMM_ASSIGN(other.language, shared(names.language->intersect(rest, lowering_.budget())));
        matching.schemas[i].push_back(schema);
        for (NameClass& part : {std::ref(matching), std::ref(other)}) {
          if (!part.language->empty()) parts.push_back(std::move(part));
        }
      }
      if (parts.size() > kMaxClasses) return fail("patternProperties overlap in too many ways");
      for (const NameClass& part : parts) scratch.keep(part.language->bytes());
      classes = std::move(parts);
    }
  }
  return classes;
}

Conjunction ObjectLowering::schemas_of(const NameClass& names) const {
  Conjunction schemas;
  for (size_t i = 0; i < limits_.properties.size(); ++i) {
    const Json* additional = limits_.properties[i]->additional;
    schemas.insert(schemas.end(), names.schemas[i].begin(), names.schemas[i].end());
    if (names.schemas[i].empty() && additional != nullptr) schemas.push_back(additional);
  }
  return schemas;
}

Status ObjectLowering::collect_others() {
  if (is_closed()) return {};
  NMM_ASSIGN(NameClass all, unnamed());
  NMM_ASSIGN(const std::vector<NameClass> classes, split_by_patterns(std::move(all)));
  for (const NameClass& names : classes) {
    Conjunction schemas = schemas_of(names);
    const bool is_empty = names.language != nullptr && names.language->empty();
    if (is_empty || allows_nothing(schemas)) continue;
    others_.push_back({names.language, lowering_.rule_of(schemas)});
  }
  return {};
}

int64_t ObjectLowering::required_properties() const {
  return std::ranges::count_if(named_, &Named::required);
}

// Returns why no number of properties is allowed, or an empty text if some number is.
std::string ObjectLowering::count_contradiction() const {
  const int64_t least = limits_.minimum, most = limits_.maximum.value_or(least);
  if (least > most)
    return fmt::format("minProperties {} is more than maxProperties {}", least, most);
  if (others_.empty() && least > std::ssize(named_))
    return fmt::format("minProperties {} is more than the properties that it may have, {}", least,
                       named_.size());
  if (limits_.maximum && required_properties() > most)
    return fmt::format("its required properties, {}, are more than maxProperties {}",
                       required_properties(), most);
  return "";
}

// Decides how far properties must be counted. A minimum above one cannot be enforced with unnamed
// properties: a model can write the same one twice, which a reader counts once.
Status ObjectLowering::decide_counts() {
  minimum_ = limits_.minimum <= required_properties() ? 0 : limits_.minimum;
  maximum_ = limits_.maximum;
  if (others_.empty() && maximum_ && *maximum_ >= std::ssize(named_)) maximum_.reset();
  if (minimum_ > 1 && !others_.empty())
    return lowering_.error_at(point_,
                              fmt::format("minProperties {} is not supported where properties may "
                                          "have names that `properties` does not list",
                                          minimum_));
  largest_count_ = std::max<int64_t>({1, minimum_, maximum_.value_or(0)});
  const double positions =
      2.0 * static_cast<double>(named_.size() + 1) * static_cast<double>(largest_count_ + 1);
  if (positions > static_cast<double>(Grammar::kMaxEdges)) lowering_.grammar_.set_too_large();
  return {};
}

void ObjectLowering::connect() {
  Grammar& grammar = lowering_.grammar_;
  if (grammar.too_large()) return;
  all_optional_from_ = named_.size();
  while (all_optional_from_ > 0 && !named_[all_optional_from_ - 1].required) --all_optional_from_;
  const int64_t positions = 2 * (std::ssize(named_) + 1) * (largest_count_ + 1);
  if (!lowering_.budget().allocate(positions * static_cast<int64_t>(sizeof(PositionId)))) return;
  positions_.assign(static_cast<size_t>(positions), -1);
  grammar.add_text(point_.from, "{", after(0, 0));
  for (size_t next = 0; next <= named_.size() && !grammar.too_large(); ++next) {
    for (int64_t count = 0; count <= largest_count_; ++count) {
      connect_after(next, count);
      connect_before(next, count);
    }
  }
}

PositionId ObjectLowering::after(size_t next, int64_t count) {
  const size_t row = next * static_cast<size_t>(largest_count_ + 1) + static_cast<size_t>(count);
  PositionId& position = positions_[2 * row];
  if (position < 0) position = lowering_.grammar_.add_position();
  return position;
}

PositionId ObjectLowering::before(size_t next, int64_t count) {
  const size_t row = next * static_cast<size_t>(largest_count_ + 1) + static_cast<size_t>(count);
  PositionId& position = positions_[2 * row + 1];
  if (position < 0) position = lowering_.grammar_.add_position();
  return position;
}

void ObjectLowering::connect_after(size_t next, int64_t count) {
  if (count == 0 && next > 0) return;  // impossible, since a value was written
  Grammar& grammar = lowering_.grammar_;
  const PositionId from = after(next, count);
  if (next >= all_optional_from_ && count >= minimum_) {
    const PositionId close = grammar.add_position();
    if (count == 0) grammar.add_empty(from, close);
    if (count > 0) lowering_.syntax_.add_white_space(from, close);
    grammar.add_text(close, "}", point_.to);
  }
  if (maximum_ && count >= *maximum_) return;
  if (next == named_.size() && others_.empty()) return;
  if (count == 0) lowering_.syntax_.add_white_space(from, before(next, count));
  if (count > 0) lowering_.syntax_.add_comma(from, before(next, count));
}

void ObjectLowering::connect_before(size_t next, int64_t count) {
  Grammar& grammar = lowering_.grammar_;
  const PositionId from = before(next, count);
  const int64_t counted = std::min(count + 1, largest_count_);
  const auto add_value = [&](PositionId key, RuleId rule, PositionId to) {
    const PositionId value = grammar.add_position();
    lowering_.syntax_.add_colon(key, value);
    grammar.add_call(value, rule, to);
  };
  if (next < named_.size()) {
    const Named& property = named_[next];
    const PositionId key = grammar.add_position();
    lowering_.syntax_.add_string(from, property.name, key);
    add_value(key, property.rule, after(next + 1, counted));
    if (!property.required) grammar.add_empty(from, before(next + 1, count));
    return;
  }
  for (const Other& other : others_) {
    const PositionId key = grammar.add_position();
    if (other.language == nullptr) {
      grammar.add_call(from, lowering_.syntax_.string(), key);
    } else {
      lowering_.syntax_.add_string_of(from, *other.language, key);
    }
    add_value(key, other.rule, after(next, counted));
  }
}

}  // namespace neuronmm::grammar
