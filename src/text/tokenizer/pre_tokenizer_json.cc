#include "text/tokenizer/pre_tokenizer_json.h"

#include <optional>
#include <utility>

#include "text/tokenizer/component_json.h"
#include "text/tokenizer/rewrite_steps.h"
#include "text/tokenizer/split_step.h"
#include "text/unicode/white_space.h"

namespace neuronmm::text {
namespace {

using nlohmann::json;

// The largest number of steps, each of which is a recursion of the pre-tokenizer. Published
// tokenizers have at most six.
constexpr int64_t kMaxPreTokenizers = 16;

// The largest number of ByteLevel steps, each of which may double a text. Published tokenizers have
// one.
constexpr int64_t kMaxByteLevels = 4;

constexpr std::string_view kSupportedPreTokenizers =
    "BertPreTokenizer, ByteLevel, CharDelimiterSplit, Digits, FixedLength, Metaspace, Punctuation, "
    "Sequence, Split, Whitespace or WhitespaceSplit";

template <typename StepKind, typename... Args>
void add(PreTokenizer& out, Args&&... args) {
  out.add(std::make_shared<StepKind>(std::forward<Args>(args)...));
}

Result<SplitBehavior> read_behavior(const io::JsonFields& fields,
                                    std::optional<SplitBehavior> absent) {
  NMM_ASSIGN(const auto name, fields.string("behavior"));
  if (!name && absent) return *absent;
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  return fields.wrong(
      "behavior",
      "\"Removed\", \"Isolated\", \"MergedWithPrevious\", \"MergedWithNext\" or \"Contiguous\"");
}

Status read_split(const io::JsonFields& fields, PreTokenizer& out) {
  NMM_ASSIGN(const Pattern pattern, read_pattern(fields));
  NMM_ASSIGN(const SplitBehavior behavior, read_behavior(fields, std::nullopt));
  NMM_ASSIGN(const bool invert, read_flag(fields, "invert"));
  auto regex = SplitRegex::compile(pattern.text, pattern.kind);
  if (!regex.ok()) return pattern_error(fields, pattern, regex.error());
  add<SplitStep>(out, std::move(regex).value(), behavior, invert);
  return {};
}

Status read_byte_level(const io::JsonFields& fields, PreTokenizer& out) {
  // The tokenizers library has both options on by default.
  NMM_ASSIGN(const bool add_prefix_space, read_flag(fields, "add_prefix_space", true));
  NMM_ASSIGN(const bool use_regex, read_flag(fields, "use_regex", true));
  if (add_prefix_space) add<PrefixSpaceStep>(out);
  if (!use_regex) return {};
  NMM_ASSIGN(SplitRegex regex, SplitRegex::compile(kGpt2Pattern));
  add<SplitStep>(out, std::move(regex), SplitBehavior::kIsolated);
  return {};
}

Status read_metaspace_step(const io::JsonFields& fields, PreTokenizer& out) {
  NMM_ASSIGN(Metaspace metaspace, read_metaspace(fields));
  const auto prepend = metaspace.prepend_scheme == "always"  ? MetaspaceStep::Prepend::kAlways
                       : metaspace.prepend_scheme == "first" ? MetaspaceStep::Prepend::kFirst
                                                             : MetaspaceStep::Prepend::kNever;
  add<MetaspaceStep>(out, std::move(metaspace.replacement), prepend, metaspace.split);
  return {};
}

Status read_delimiter(const io::JsonFields& fields, PreTokenizer& out) {
  NMM_ASSIGN(const std::string delimiter, read_character(fields, "delimiter"));
  NMM_ASSIGN(SplitRegex literal, SplitRegex::compile(delimiter, SplitRegex::Kind::kLiteral));
  add<SplitStep>(out, std::move(literal), SplitBehavior::kRemoved);
  return {};
}

Status read_fixed_length(const io::JsonFields& fields, PreTokenizer& out) {
  constexpr int64_t kDefault = 5;  // The default of the tokenizers library.
  NMM_ASSIGN(const auto length, fields.integer("length"));
  if (length.value_or(kDefault) < 1) return fields.wrong("length", "at least 1");
  add<FixedLengthStep>(out, length.value_or(kDefault));
  return {};
}

Status read_class_split(const Component& step, PreTokenizer& out) {
  if (step.type == "Punctuation") {
    NMM_ASSIGN(const auto behavior, read_behavior(step.fields, SplitBehavior::kIsolated));
    add<SplitStep>(out, is_punctuation, behavior);
    return {};
  }
  if (step.type == "Digits") {
    NMM_ASSIGN(const bool individual, read_flag(step.fields, "individual_digits"));
    add<SplitStep>(out, is_numeric,
                   individual ? SplitBehavior::kIsolated : SplitBehavior::kContiguous);
    return {};
  }
  add<SplitStep>(out, is_white_space, SplitBehavior::kRemoved);
  if (step.type == "BertPreTokenizer")
    add<SplitStep>(out, is_punctuation, SplitBehavior::kIsolated);
  return {};
}

Status read_step(const Component& step, PreTokenizer& out) {
  if (step.type == "Split") return read_split(step.fields, out);
  if (step.type == "ByteLevel") return read_byte_level(step.fields, out);
  if (step.type == "Metaspace") return read_metaspace_step(step.fields, out);
  if (step.type == "CharDelimiterSplit") return read_delimiter(step.fields, out);
  if (step.type == "FixedLength") return read_fixed_length(step.fields, out);
  for (const char* type : {"Punctuation", "Digits", "WhitespaceSplit", "BertPreTokenizer"}) {
    if (step.type == type) return read_class_split(step, out);
  }
  if (step.type != "Whitespace") return unsupported(step, kSupportedPreTokenizers);
  add<WordsStep>(out);
  return {};
}

}  // namespace

Status read_pre_tokenizer(const json& value, const std::string& source, PreTokenizer& out,
                          bool& ends_spelled) {
  int64_t steps = 0, byte_levels = 0;
  ends_spelled = false;
  return for_each_component(value, source, "pretokenizers", [&](const Component& step) -> Status {
    if (++steps > kMaxPreTokenizers)
      return fail("{}: more than {} steps", source, kMaxPreTokenizers);
    // Steps after a ByteLevel step see the spelling of the bytes instead of the text.
    if (ends_spelled) add<SpellBytesStep>(out);
    ends_spelled = step.type == "ByteLevel";
    if (ends_spelled && ++byte_levels > kMaxByteLevels)
      return fail("{}: more than {} ByteLevel steps", source, kMaxByteLevels);
    return read_step(step, out);
  });
}

}  // namespace neuronmm::text
