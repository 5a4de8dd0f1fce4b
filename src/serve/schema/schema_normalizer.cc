#include "serve/schema/schema_normalizer.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "serve/schema/schema_complement.h"
#include "serve/schema/schema_keywords.h"
#include "serve/schema/unevaluated.h"
#include "text/unicode/utf8.h"

namespace neuronmm::grammar {
namespace {

using Literals = std::vector<const Json*>;

// The memory of a text as the member of a set, and how many bytes of text are written, compared and
// sorted in one step. Assumed.
constexpr int64_t kBytesPerText = 80, kTextBytesPerStep = 4;

// Returns the steps that comparing a constant with a shape takes at most, without its items.
int64_t steps_to_compare(const Json& value) {
  return 20 + (value.is_string() ? std::ssize(value.get_ref<const std::string&>()) : 0);
}

// Returns with how many languages the name of a property is compared, at least one for each object
// of properties.
int64_t patterns_of(const ObjectLimits& limits) {
  int64_t count = 0;
  for (const auto& properties : limits.properties) count += 1 + std::ssize(properties->patterns);
  return count;
}

std::set<std::string> canonical_texts(const Literals& values) {
  std::set<std::string> texts;
  for (const Json* value : values) texts.insert(canonical_text(*value));
  return texts;
}

void forbid(Shape& object, const std::string& name) {
  PropertySchemas never;
  never.evaluates = false;
  never.add(name, &kNoValue);
  object.object.properties.push_back(std::make_shared<const PropertySchemas>(std::move(never)));
}

bool in_all(const std::vector<Language>& languages, const std::string& text) {
  return std::all_of(languages.begin(), languages.end(),
                     [&](const Language& language) { return language->accepts(text); });
}

bool within(int64_t count, int64_t minimum, std::optional<int64_t> maximum) {
  return count >= minimum && (!maximum || count <= *maximum);
}

Shape::Kind kind_of(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
      return Shape::Kind::kNull;
    case Json::value_t::boolean:
      return Shape::Kind::kBoolean;
    case Json::value_t::string:
      return Shape::Kind::kString;
    case Json::value_t::array:
      return Shape::Kind::kArray;
    case Json::value_t::object:
      return Shape::Kind::kObject;
    default:
      return Shape::Kind::kNumber;
  }
}

}  // namespace

Status SchemaNormalizer::charge(const std::set<std::string>& texts) const {
  int64_t bytes = 0;
  for (const std::string& text : texts) bytes += kBytesPerText + std::ssize(text);
  if (!budget().spend(bytes / kTextBytesPerStep)) return budget().error();
  return {};
}

const Json& SchemaNormalizer::part_of(const Json& schema) const {
  const auto found = negation_of_.find(&schema);
  return found == negation_of_.end() ? schema : *found->second;
}

Result<Shapes> SchemaNormalizer::shapes_of(const Conjunction& schemas) {
  NMM_ASSIGN(const Shapes* first, shapes_of(schemas.empty() ? kAnyValue : *schemas.front()));
  NMM_TRY(grammar::charge(*first, budget()));
  Shapes shapes = *first;
  for (size_t i = 1; i < schemas.size(); ++i) {
    NMM_ASSIGN(const Shapes* more, shapes_of(*schemas[i]));
    NMM_ASSIGN(shapes, all_of(shapes, *more));
  }
  return shapes;
}

Result<const Shapes*> SchemaNormalizer::shapes_of(const Json& schema) {
  if (const auto found = known_.find(&schema); found != known_.end()) return &found->second;
  if (!in_progress_.insert(&schema).second)
    return document_.error_at(schema, "", "the schema refers to itself and to no value within");
  if (std::ssize(in_progress_) > kMaxDepth)
    return document_.error_at(schema, "",
                              fmt::format("more than {} schemas refer to each other", kMaxDepth));
  const Budget::Part part(budget(), [&] { return document_.place(part_of(schema)); });
  auto shapes = read(schema);
  in_progress_.erase(&schema);
  if (!shapes.ok()) return shapes.error();
  NMM_TRY(grammar::charge(*shapes, budget()));
  return &known_.emplace(&schema, std::move(shapes).value()).first->second;
}

Result<Shapes> SchemaNormalizer::read(const Json& schema) {
  if (const auto found = negation_of_.find(&schema); found != negation_of_.end())
    return complement(*found->second);
  if (schema.is_object()) return read_object(schema);
  if (!schema.is_boolean()) return document_.error_at(schema, "", "expected a schema");
  if (!schema.get<bool>()) return Shapes();
  return read_types(document_, Json::object(), {});
}

Result<Shapes> SchemaNormalizer::read_object(const Json& schema) {
  NMM_ASSIGN(const Json* target, target_of_reference(schema));
  if (target != nullptr && document_.ignores_siblings_of_reference()) {
    NMM_ASSIGN(const Shapes* referred, shapes_of(*target));
    NMM_TRY(grammar::charge(*referred, budget()));
    return *referred;
  }
  NMM_ASSIGN(Shapes shapes, read_types(document_, schema,
                                       [this](const Json& names) { return name_language(names); }));
  NMM_TRY(apply_literals(schema, shapes));
  NMM_ASSIGN(Literals all_branches, branches(schema, "allOf"));
  if (target != nullptr) all_branches.insert(all_branches.begin(), target);
  for (const Json* branch : all_branches) {
    NMM_ASSIGN(const Shapes* more, shapes_of(*branch));
    NMM_ASSIGN(shapes, all_of(shapes, *more));
  }
  for (const char* name : {"anyOf", "oneOf"}) {
    if (!schema.contains(name)) continue;
    NMM_ASSIGN(const Literals branch_list, branches(schema, name));
    const bool is_one_of = std::string_view(name) == "oneOf";
    NMM_ASSIGN(const Shapes more, is_one_of ? one_of(schema, branch_list) : any_of(branch_list));
    NMM_ASSIGN(shapes, all_of(shapes, more));
  }
  NMM_TRY(apply_not(schema, shapes));
  NMM_TRY(apply_condition(schema, shapes));
  NMM_TRY(apply_dependencies(schema, shapes));
  NMM_TRY(apply_unevaluated(schema, shapes));
  return shapes;
}

Result<Shapes> SchemaNormalizer::one_of(const Json& schema, const Literals& branches) {
  NMM_ASSIGN(Shapes shapes, any_of(branches));
  const size_t before = branch_pairs_.size();
  NMM_TRY(compare_branches(schema, branches));
  const auto is_exclusive = [&](const BranchPair& pair) {
    return exclusive_.contains({pair.first, pair.second});
  };
  const auto own = branch_pairs_.begin() + static_cast<ptrdiff_t>(before);
  if (std::any_of(own, branch_pairs_.end(), is_exclusive)) {
    if (auto exclusive = exclusive_shapes(branches); exclusive.ok()) {
      shapes = std::move(exclusive).value();
      branch_pairs_.erase(std::remove_if(own, branch_pairs_.end(), is_exclusive),
                          branch_pairs_.end());
    }
  }
  for (Shape& shape : shapes) shape.may_exceed_schema |= branch_pairs_.size() > before;
  return shapes;
}

Result<Shapes> SchemaNormalizer::exclusive_shapes(const Literals& branches) {
  Shapes result;
  for (const Json* branch : branches) {
    NMM_ASSIGN(const Shapes* own, shapes_of(*branch));
    NMM_TRY(grammar::charge(*own, budget()));
    Shapes shapes = *own;
    for (const Json* other : branches) {
      if (!exclusive_.contains({branch, other}) && !exclusive_.contains({other, branch})) continue;
      NMM_ASSIGN(const Shapes* without, shapes_of(*negated(*other)));
      NMM_ASSIGN(shapes, all_of(shapes, *without));
    }
    std::move(shapes.begin(), shapes.end(), std::back_inserter(result));
    if (std::ssize(result) > kMaxExclusive)
      return document_.error_at(*branch, "",
                                fmt::format("more than {} alternatives", kMaxExclusive));
  }
  return result;
}

// Notes the branches of a oneOf that may share values. Branches of constants are compared by the
// texts of their constants, and all other branches pair by pair.
Status SchemaNormalizer::compare_branches(const Json& schema, const Literals& branches) {
  std::set<std::string> texts;
  Literals constants, others;
  for (const Json* branch : branches) {
    const Shapes& shapes = known_[branch];
    const bool is_constant = shapes.size() == 1 && shapes[0].kind == Shape::Kind::kLiterals;
    (is_constant ? constants : others).push_back(branch);
    if (!is_constant) continue;
    const std::set<std::string> own = canonical_texts(shapes[0].literals);
    NMM_TRY(charge(own));
    for (const std::string& text : own) {
      if (!texts.insert(text).second) branch_pairs_.push_back({&schema, branch, branch});
    }
  }
  if (!others.empty() && branches.size() > kMaxBranches) {
    branch_pairs_.push_back({&schema, others[0], others[0]});
    return {};
  }
  for (size_t i = 0; i < others.size(); ++i) {
    Literals earlier = constants;
    earlier.insert(earlier.end(), others.begin(), others.begin() + static_cast<ptrdiff_t>(i));
    for (const Json* other : earlier) {
      NMM_ASSIGN(const Shapes shared, all_of(known_[other], known_[others[i]]));
      if (!shared.empty()) branch_pairs_.push_back({&schema, other, others[i]});
    }
  }
  return {};
}

Result<const Json*> SchemaNormalizer::target_of_reference(const Json& schema) const {
  const auto found = schema.find("$ref");
  if (found == schema.end()) return nullptr;
  if (!found->is_string()) return document_.error_at(schema, "$ref", "expected a reference");
  return document_.resolve(found->get<std::string>(), schema);
}

Result<std::vector<const Json*>> SchemaNormalizer::branches(const Json& schema,
                                                            const char* keyword) const {
  Literals list;
  const auto found = schema.find(keyword);
  if (found == schema.end()) return list;
  if (!found->is_array() || found->empty())
    return document_.error_at(schema, keyword, "expected a list of schemas");
  for (const Json& branch : *found) list.push_back(&branch);
  return list;
}

// Returns the shapes of all branches. The constants of all branches become one shape, since a
// thousand constants may be a thousand branches.
Result<Shapes> SchemaNormalizer::any_of(const std::vector<const Json*>& branches) {
  Shapes shapes;
  Literals literals;
  for (const Json* branch : branches) {
    NMM_ASSIGN(const Shapes* more, shapes_of(*branch));
    for (const Shape& shape : *more) {
      if (shape.kind == Shape::Kind::kLiterals) {
        literals_may_exceed_schema_ |= shape.may_exceed_schema;
        literals.insert(literals.end(), shape.literals.begin(), shape.literals.end());
      } else {
        shapes.push_back(shape);
      }
      NMM_TRY(grammar::charge(shape, budget()));
    }
    if (std::ssize(shapes) > kMaxShapes)
      return document_.error_at(*branch, "", fmt::format("more than {} alternatives", kMaxShapes));
  }
  if (!literals.empty()) shapes.push_back(literal_shape(std::move(literals)));
  return shapes;
}

Result<Shapes> SchemaNormalizer::all_of(const Shapes& a, const Shapes& b) {
  Shapes shapes;
  if (!budget().spend(std::ssize(a) * std::ssize(b))) return budget().error();
  const auto add_literals = [&](const Literals& values, const Shape& other) -> Status {
    NMM_ASSIGN(Literals left, literals_in({other}, values));
    if (!left.empty()) shapes.push_back(literal_shape(std::move(left)));
    return {};
  };
  for (const Shape& one : a) {
    for (const Shape& other : b) {
      if (one.kind == Shape::Kind::kLiterals) {
        NMM_TRY(add_literals(one.literals, other));
      } else if (other.kind == Shape::Kind::kLiterals) {
        NMM_TRY(add_literals(other.literals, one));
      } else if (one.kind == other.kind) {
        shapes.push_back(intersection(one, other));
        NMM_TRY(grammar::charge(shapes.back(), budget()));
      }
      if (std::ssize(shapes) > kMaxShapes)
        return fail("the schema combines to more than {} alternatives", kMaxShapes);
    }
  }
  return shapes;
}

Status SchemaNormalizer::apply_literals(const Json& schema, Shapes& shapes) {
  for (const char* name : {"enum", "const"}) {
    const auto found = schema.find(name);
    if (found == schema.end()) continue;
    Literals values = {&*found};
    if (std::string_view(name) == "enum") {
      if (!found->is_array()) return document_.error_at(schema, name, "expected a list of values");
      values.clear();
      for (const Json& value : *found) values.push_back(&value);
    }
    NMM_ASSIGN(values, literals_in(shapes, values));
    shapes.clear();
    if (!values.empty()) shapes.push_back(literal_shape(std::move(values)));
  }
  return {};
}

Status SchemaNormalizer::apply_dependencies(const Json& schema, Shapes& shapes) {
  for (const char* keyword : {"dependentRequired", "dependentSchemas", "dependencies"}) {
    const auto found = schema.find(keyword);
    if (found == schema.end()) continue;
    if (!found->is_object()) return document_.error_at(schema, keyword, "expected an object");
    for (const auto& item : found->items()) {
      NMM_TRY(apply_dependency(schema, item.key(), item.value(), shapes));
    }
  }
  return {};
}

// Splits each object shape in two: either the property is absent, or it is present and `then`
// holds.
Status SchemaNormalizer::apply_dependency(const Json& schema, const std::string& name,
                                          const Json& then, Shapes& shapes) {
  Shapes result;
  for (const Shape& shape : shapes) {
    if (shape.kind == Shape::Kind::kLiterals)
      return document_.error_at(
          schema, "", "dependencies between the properties of constants are not supported");
    NMM_TRY(grammar::charge(shape, budget()));
    result.push_back(shape);
    if (shape.kind != Shape::Kind::kObject) continue;
    NMM_TRY(grammar::charge(shape, budget()));
    forbid(result.back(), name);
    Shape present = shape;
    present.object.required.push_back(name);
    if (then.is_array()) {
      for (const Json& other : then) {
        if (!other.is_string())
          return document_.error_at(then, "", "expected the names of properties");
        present.object.required.push_back(other.get<std::string>());
      }
      result.push_back(std::move(present));
    } else {
      NMM_ASSIGN(const Shapes* more, shapes_of(then));
      NMM_ASSIGN(Shapes kept, all_of({present}, *more));
      std::move(kept.begin(), kept.end(), std::back_inserter(result));
    }
    if (std::ssize(result) > kMaxShapes)
      return document_.error_at(schema, "", fmt::format("more than {} alternatives", kMaxShapes));
  }
  shapes = std::move(result);
  return {};
}

const Json* SchemaNormalizer::negated(const Json& schema) {
  if (schema.is_boolean()) return schema.get<bool>() ? &kNoValue : &kAnyValue;
  if (const auto found = negation_of_.find(&schema); found != negation_of_.end())
    return found->second;
  const auto [place, is_new] = negated_by_.try_emplace(&schema, nullptr);
  if (is_new) {
    place->second = &negations_.emplace_back();
    negation_of_[place->second] = &schema;
  }
  return place->second;
}

Result<Shapes> SchemaNormalizer::complement(const Json& schema) {
  NMM_ASSIGN(const Shapes* allowed, shapes_of(schema));
  NMM_ASSIGN(const Shapes* all, shapes_of(kAnyValue));
  const Negate negate = [this](const Json& part) { return negated(part); };
  Shapes result = *all;
  for (const Shape& shape : *allowed) {
    const auto others = complement_of(shape, *all, negate, budget());
    if (!others.ok()) return document_.error_at(schema, "", others.error().message);
    NMM_ASSIGN(result, all_of(result, *others));
  }
  return result;
}

Status SchemaNormalizer::apply_not(const Json& schema, Shapes& shapes) {
  const auto found = schema.find("not");
  if (found == schema.end()) return {};
  NMM_ASSIGN(const Shapes* others, shapes_of(*negated(*found)));
  NMM_ASSIGN(shapes, all_of(shapes, *others));
  return {};
}

// Applies a condition: either `if` and `then` hold, or `if` does not hold and `else` does.
Status SchemaNormalizer::apply_condition(const Json& schema, Shapes& shapes) {
  const auto condition = schema.find("if"), then = schema.find("then"), other = schema.find("else");
  if (condition == schema.end()) return {};
  const auto or_always = [&](const auto& found) {
    return found == schema.end() ? &kAnyValue : &*found;
  };
  NMM_ASSIGN(Shapes if_true, shapes_of({&*condition, or_always(then)}));
  NMM_ASSIGN(const Shapes if_false, shapes_of({negated(*condition), or_always(other)}));
  if_true.insert(if_true.end(), if_false.begin(), if_false.end());
  NMM_ASSIGN(shapes, all_of(shapes, if_true));
  return {};
}

Status SchemaNormalizer::apply_unevaluated(const Json& schema, Shapes& shapes) {
  for (const auto& [name, kind] : {std::pair("unevaluatedProperties", Shape::Kind::kObject),
                                   std::pair("unevaluatedItems", Shape::Kind::kArray)}) {
    const auto found = schema.find(name);
    if (found == schema.end()) continue;
    auto limited = with_unevaluated(std::move(shapes), kind, *found, budget());
    if (!limited.ok()) return document_.error_at(schema, name, limited.error().message);
    shapes = std::move(limited).value();
  }
  return {};
}

Shape SchemaNormalizer::literal_shape(Literals values) const {
  Shape shape{};
  shape.kind = Shape::Kind::kLiterals;
  shape.literals = std::move(values);
  shape.may_exceed_schema = literals_may_exceed_schema_;
  return shape;
}

Result<Language> SchemaNormalizer::name_language(const Json& schema) {
  NMM_ASSIGN(const Shapes* shapes, shapes_of(schema));
  StringLanguage all({StringLanguage::State{}});
  for (const Shape& shape : *shapes) {
    std::set<std::string> names;
    for (const Json* value : shape.literals) {
      if (value->is_string()) names.insert(value->get<std::string>());
    }
    if (shape.kind == Shape::Kind::kString) {
      auto some = string_language(shape.string, budget());
      if (!some.ok()) return document_.error_at(schema, "", some.error().message);
      NMM_ASSIGN(all, all.unite(*some, budget()));
    } else if (!names.empty()) {
      NMM_ASSIGN(const StringLanguage some, StringLanguage::of_strings(names, budget()));
      NMM_ASSIGN(all, all.unite(some, budget()));
    }
  }
  return std::make_shared<const StringLanguage>(std::move(all));
}

Result<std::vector<const Json*>> SchemaNormalizer::literals_in(const Shapes& shapes,
                                                               const Literals& values) {
  std::vector<bool> found(values.size());
  for (const Shape& shape : shapes) {
    literals_may_exceed_schema_ |= shape.may_exceed_schema;
    std::optional<StringLanguage> numbers;
    const std::set<std::string> texts = canonical_texts(shape.literals);
    NMM_TRY(charge(texts));
    if (shape.kind == Shape::Kind::kNumber && !shape.number.only_type()) {
      NMM_ASSIGN(numbers, number_language(shape.number, budget()));
    }
    for (size_t i = 0; i < values.size(); ++i) {
      if (found[i]) continue;
      if (!budget().spend(steps_to_compare(*values[i]))) return budget().error();
      if (shape.kind == Shape::Kind::kLiterals) {
        const std::string text = canonical_text(*values[i]);
        if (!budget().spend(std::ssize(text) / kTextBytesPerStep)) return budget().error();
        found[i] = texts.contains(text);
      } else if (numbers) {
        found[i] = values[i]->is_number() && numbers->accepts(Decimal::of(*values[i]).text());
      } else {
        NMM_ASSIGN(found[i], admits(shape, *values[i]));
      }
    }
  }
  Literals result;
  for (size_t i = 0; i < values.size(); ++i) {
    if (found[i]) result.push_back(values[i]);
  }
  return result;
}

Result<bool> SchemaNormalizer::admits(const Json& schema, const Json& value) {
  NMM_ASSIGN(const Shapes* shapes, shapes_of(schema));
  NMM_ASSIGN(const Literals kept, literals_in(*shapes, {&value}));
  return !kept.empty();
}

Result<bool> SchemaNormalizer::admits(const Shape& shape, const Json& value) {
  if (shape.kind != kind_of(value)) return false;
  switch (shape.kind) {
    case Shape::Kind::kNumber:
      return !shape.number.integer || Decimal::of(value).fraction.empty();
    case Shape::Kind::kString: {
      const auto& text = value.get_ref<const std::string&>();
      return within(text::count_code_points(text), shape.string.minimum, shape.string.maximum) &&
             in_all(shape.string.languages, text);
    }
    case Shape::Kind::kArray:
      return admits_items(shape.array, value);
    case Shape::Kind::kObject:
      return admits_properties(shape.object, value);
    default:
      return true;
  }
}

Result<bool> SchemaNormalizer::admits_items(const ArrayLimits& limits, const Json& array) {
  if (!within(std::ssize(array), limits.minimum, limits.maximum)) return false;
  Literals items;
  for (const Json& item : array) items.push_back(&item);
  if (limits.unique) {
    const std::set<std::string> texts = canonical_texts(items);
    NMM_TRY(charge(texts));
    if (texts.size() < items.size()) return false;
  }
  for (const ContainsLimits& contains : limits.contains) {
    int64_t count = 0;
    for (const Json& item : array) {
      NMM_ASSIGN(const bool admitted, admits(*contains.schema, item));
      count += admitted ? 1 : 0;
    }
    if (!within(count, contains.minimum, contains.maximum)) return false;
  }
  for (const ItemSchemas& schemas : limits.items) {
    for (size_t i = 0; i < array.size(); ++i) {
      if (schemas.at(i) == nullptr) continue;
      NMM_ASSIGN(const bool admitted, admits(*schemas.at(i), array[i]));
      if (!admitted) return false;
    }
  }
  return true;
}

Result<bool> SchemaNormalizer::admits_properties(const ObjectLimits& limits, const Json& object) {
  if (!within(std::ssize(object), limits.minimum, limits.maximum)) return false;
  // The keys of an object are compared one after the other.
  if (!budget().spend(std::ssize(limits.required) * (1 + std::ssize(object) / 4)))
    return budget().error();
  for (const std::string& name : limits.required) {
    if (!object.contains(name)) return false;
  }
  for (const auto& item : object.items()) {
    const int64_t languages = std::ssize(limits.names) + patterns_of(limits);
    if (!budget().spend((1 + languages) * (8 + std::ssize(item.key())))) return budget().error();
    if (!in_all(limits.names, item.key())) return false;
    for (const auto& schemas : limits.properties) {
      for (const Json* schema : schemas->of(item.key())) {
        NMM_ASSIGN(const bool admitted, admits(*schema, item.value()));
        if (!admitted) return false;
      }
    }
  }
  return true;
}

}  // namespace neuronmm::grammar
