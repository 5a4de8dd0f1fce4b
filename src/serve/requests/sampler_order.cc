#include "serve/requests/sampler_order.h"

#include <algorithm>

namespace neuronmm::serve {
namespace {

enum class SamplerKind {
  kPenalties,
  kDry,
  kSigma,
  kTopK,
  kTypical,
  kTopP,
  kMinP,
  kXtc,
  kTemperature,
  kNone  // a name that clients still send for a sampler that is no more, or that has no effect here
};

struct SamplerName {
  std::string_view name;
  char letter;  // in a text of letters, one for each sampler
  SamplerKind kind;
};

constexpr SamplerName kSamplerNames[] = {{"penalties", 'e', SamplerKind::kPenalties},
                                         {"dry", 'd', SamplerKind::kDry},
                                         {"top_n_sigma", 's', SamplerKind::kSigma},
                                         {"top_k", 'k', SamplerKind::kTopK},
                                         {"typ_p", 'y', SamplerKind::kTypical},
                                         {"typical_p", 'y', SamplerKind::kTypical},
                                         {"top_p", 'p', SamplerKind::kTopP},
                                         {"min_p", 'm', SamplerKind::kMinP},
                                         {"xtc", 'x', SamplerKind::kXtc},
                                         {"temperature", 't', SamplerKind::kTemperature},
                                         {"temp", 't', SamplerKind::kTemperature},
                                         {"infill", 'i', SamplerKind::kNone},
                                         {"adaptive_p", 'a', SamplerKind::kNone},
                                         {"tfs_z", 'f', SamplerKind::kNone},
                                         {"tfs", 'f', SamplerKind::kNone},
                                         {"typ", 'y', SamplerKind::kTypical},
                                         {"typical", 'y', SamplerKind::kTypical},
                                         {"nucleus", 'p', SamplerKind::kTopP}};

// Older programs write hyphens.
const SamplerName* find_sampler(std::string name) {
  std::ranges::replace(name, '-', '_');
  const auto found = std::ranges::find(kSamplerNames, name, &SamplerName::name);
  return found == std::end(kSamplerNames) ? nullptr : &*found;
}

// Returns the names in an array, in a text with semicolons, or in a text of letters.
std::vector<std::string> listed_names(const Json& value) {
  if (value.is_array()) return value.get<std::vector<std::string>>();
  std::vector<std::string> names;
  const std::string text = value.get<std::string>();
  if (text.find(';') == std::string::npos && find_sampler(text) == nullptr) {
    for (const char letter : text) {
      const auto found = std::ranges::find(kSamplerNames, letter, &SamplerName::letter);
      names.emplace_back(found == std::end(kSamplerNames) ? std::string_view() : found->name);
    }
    return names;
  }
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(';', begin), text.size());
    if (end > begin) names.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return names;
}

// Returns the kinds, or nothing if a name is unknown or the order is another one.
std::optional<std::vector<SamplerKind>> kinds_in_order(const std::vector<std::string>& names) {
  std::vector<SamplerKind> kinds;
  for (const std::string& name : names) {
    const SamplerName* const found = find_sampler(name);
    if (found == nullptr) return std::nullopt;
    if (found->kind != SamplerKind::kNone) kinds.push_back(found->kind);
  }
  std::vector<SamplerKind> others = kinds;
  std::erase(others, SamplerKind::kTemperature);
  const bool ascending = std::ranges::adjacent_find(others, std::greater_equal()) == others.end();
  const auto temperature = std::ranges::find(kinds, SamplerKind::kTemperature);
  const bool once = kinds.size() - others.size() <= 1;
  const bool last = temperature == kinds.end() || temperature + 1 == kinds.end();
  const bool first = std::all_of(temperature, kinds.end(),
                                 [](SamplerKind kind) { return kind >= SamplerKind::kTopK; }) &&
                     std::all_of(kinds.begin(), temperature,
                                 [](SamplerKind kind) { return kind < SamplerKind::kTopK; });
  return ascending && once && (last || first) ? std::optional(std::move(kinds)) : std::nullopt;
}

void switch_off(SamplerKind kind, GenerationParameters& parameters) {
  switch (kind) {
    case SamplerKind::kPenalties:
      parameters.repetition_penalty = parameters.repeat_penalty = 1.0;
      parameters.presence_penalty = parameters.frequency_penalty = 0.0;
      break;
    case SamplerKind::kDry:
      parameters.dry.multiplier = 0.0;
      break;
    case SamplerKind::kSigma:  // is refused unless it is off
    case SamplerKind::kNone:
      break;
    case SamplerKind::kTopK:
      parameters.top_k = 0;
      break;
    case SamplerKind::kTypical:
      parameters.typical_p = 1.0;
      break;
    case SamplerKind::kTopP:
      parameters.top_p = 1.0;
      break;
    case SamplerKind::kMinP:
      parameters.min_p = 0.0;
      break;
    case SamplerKind::kXtc:
      parameters.xtc_probability = 0.0;
      break;
    case SamplerKind::kTemperature:
      parameters.temperature = 1.0;
      break;
  }
}

}  // namespace

RequestField samplers_field() {
  return RequestField::other(
      "samplers", {{"type", {"array", "string", "null"}}, {"items", {{"type", "string"}}}},
      "The samplers that are used, as an array of names, a text with semicolons between names, or "
      "a text of letters. Their order is penalties, dry, top_n_sigma, top_k, typ_p, top_p, min_p, "
      "xtc, with temperature last or before top_k. By default all, with temperature before top_k");
}

void read_samplers(FieldReader& fields, GenerationParameters& parameters) {
  const Json* value = fields.find("samplers");
  if (value == nullptr) return;
  const bool is_list = value->is_array() && std::ranges::all_of(*value, [](const Json& name) {
                         return name.is_string();
                       });
  if (!is_list && !value->is_string())
    return fields.add_mismatch("samplers", "an array of names of samplers, or a text");
  const std::vector<std::string> names = listed_names(*value);
  if (names.empty()) return;
  const auto kinds = kinds_in_order(names);
  if (!kinds)
    return fields.add_mismatch("samplers",
                               "the order penalties, dry, top_n_sigma, top_k, typ_p, top_p, min_p, "
                               "xtc, with temperature last or before top_k");
  for (const SamplerName& sampler : kSamplerNames) {
    if (std::ranges::count(*kinds, sampler.kind) == 0) switch_off(sampler.kind, parameters);
  }
  parameters.temperature_last = !kinds->empty() && kinds->back() == SamplerKind::kTemperature;
  parameters.samplers.emplace();
  for (const SamplerKind kind : *kinds)
    parameters.samplers->emplace_back(
        std::ranges::find(kSamplerNames, kind, &SamplerName::kind)->name);
}

}  // namespace neuronmm::serve
