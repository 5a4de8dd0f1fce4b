#include "text/tokenizer/normalizer_json.h"

#include <optional>
#include <utility>

#include "text/tokenizer/component_json.h"
#include "text/tokenizer/normalizer_steps.h"
#include "text/unicode/replacement.h"
#include "text/unicode/unicode_form.h"
#include "text/unicode/white_space.h"

namespace neuronmm::text {
namespace {

// The largest number of steps, each of which is a pass over the text. Published normalizers have at
// most six.
constexpr int64_t kMaxNormalizers = 64;

constexpr std::string_view kSupportedNormalizers =
    "NFC, NFD, NFKC, NFKD, Lowercase, Strip, StripAccents, Replace, Prepend, ByteLevel or Sequence";

Normalizer::Step simple(std::string_view (*step)(std::string_view, std::string&)) {
  return [step](std::string_view text, std::string& storage, MatchBudget&) {
    return step(text, storage);
  };
}

std::optional<UnicodeForm> unicode_form(std::string_view type) {
  if (type == "NFC") return UnicodeForm::kNfc;
  if (type == "NFD") return UnicodeForm::kNfd;
  if (type == "NFKC") return UnicodeForm::kNfkc;
  if (type == "NFKD") return UnicodeForm::kNfkd;
  return {};
}

Result<Normalizer::Step> read_strip(const io::JsonFields& fields) {
  NMM_ASSIGN(const bool left, read_flag(fields, "strip_left"));
  NMM_ASSIGN(const bool right, read_flag(fields, "strip_right"));
  return Normalizer::Step([=](std::string_view text, std::string&, MatchBudget&) {
    if (left) text = strip_left(text);
    return right ? strip_right(text) : text;
  });
}

Result<Normalizer::Step> read_replace(const io::JsonFields& fields) {
  NMM_ASSIGN(const Pattern pattern, read_pattern(fields));
  NMM_ASSIGN(auto content, fields.string("content"));
  if (!content) return fields.missing("content");
  auto replacement = Replacement::compile(pattern.text, pattern.kind, *std::move(content));
  if (!replacement.ok()) return pattern_error(fields, pattern, replacement.error());
  return Normalizer::Step([replacement = std::move(replacement).value()](
                              std::string_view text, std::string& storage, MatchBudget& budget) {
    return replacement.apply(text, storage, budget);
  });
}

Result<Normalizer::Step> read_prepend(const io::JsonFields& fields) {
  NMM_ASSIGN(const auto prefix, fields.string("prepend"));
  if (!prefix) return fields.missing("prepend");
  return Normalizer::Step(
      [prefix = *prefix](std::string_view text, std::string& storage, MatchBudget&) {
        return prepend(prefix, text, storage);
      });
}

Result<Normalizer::Step> read_step(const Component& step) {
  if (const auto form = unicode_form(step.type)) {
    return Normalizer::Step(
        [form = *form](std::string_view text, std::string& storage, MatchBudget&) {
          return to_unicode_form(form, text, storage);
        });
  }
  if (step.type == "Lowercase") return simple(lowercase);
  if (step.type == "StripAccents") return simple(strip_accents);
  if (step.type == "ByteLevel") return simple(spell_bytes);
  if (step.type == "Strip") return read_strip(step.fields);
  if (step.type == "Replace") return read_replace(step.fields);
  if (step.type == "Prepend") return read_prepend(step.fields);
  return unsupported(step, kSupportedNormalizers);
}

}  // namespace

Status read_normalizer(const nlohmann::json& value, const std::string& source,
                       Normalizer& normalizer) {
  int64_t steps = 0;
  return for_each_component(value, source, "normalizers", [&](const Component& step) -> Status {
    if (++steps > kMaxNormalizers) return fail("{}: more than {} steps", source, kMaxNormalizers);
    NMM_ASSIGN(Normalizer::Step read, read_step(step));
    normalizer.add(std::move(read));
    return {};
  });
}

}  // namespace neuronmm::text
