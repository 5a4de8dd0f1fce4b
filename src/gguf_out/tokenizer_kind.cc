#include "gguf_out/tokenizer_kind.h"

#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "gguf/vocabulary.h"

namespace neuronmm::gguf_out {
namespace {

using nlohmann::json;
using Step = gguf::PreTokenizationStep;

std::string type_of(const json& step) {
  if (!step.is_object()) return {};
  const auto type = step.find("type");
  return type != step.end() && type->is_string() ? type->get<std::string>() : "";
}

// Returns the steps of a section: none, one, or those of a sequence.
std::vector<json> steps_of(const json& root, const char* section, const char* members) {
  const auto found = root.find(section);
  if (found == root.end() || found->is_null()) return {};
  if (type_of(*found) != "Sequence") return {*found};
  const auto list = found->find(members);
  if (list == found->end() || !list->is_array()) return {*found};
  return list->get<std::vector<json>>();
}

bool flag(const json& step, const char* key, bool otherwise) {
  const auto found = step.find(key);
  return found != step.end() && found->is_boolean() ? found->get<bool>() : otherwise;
}

std::string text(const json& step, const char* key) {
  const auto found = step.find(key);
  return found != step.end() && found->is_string() ? found->get<std::string>() : "";
}

Error unknown(const std::string& source, std::string_view section, const json& step) {
  constexpr size_t kShown = 200;
  const std::string text = step.dump(-1, ' ', false, json::error_handler_t::replace);
  return fail("{}: {} {}: llama.cpp has no such step", source, section, text.substr(0, kShown));
}

// Cuts words as the steps before ByteLevel say.
struct WordRules {
  std::vector<std::string> patterns;  // the memory of the steps
  std::vector<Step> steps;
  bool gpt2_pattern = false;
  bool add_prefix_space = false;
};

Result<WordRules> word_rules(const std::vector<json>& members, const std::string& source) {
  WordRules rules;
  rules.patterns.reserve(members.size());
  for (const json& step : members) {
    const std::string type = type_of(step);
    if (type == "ByteLevel") {
      rules.gpt2_pattern = flag(step, "use_regex", true);
      rules.add_prefix_space = flag(step, "add_prefix_space", true);
    } else if (type == "Digits" && flag(step, "individual_digits", false)) {
      rules.steps.push_back({Step::Kind::kDigits, {}});
    } else if (type == "Split" && text(step, "behavior") == "Isolated" &&
               !flag(step, "invert", false) && step.contains("pattern") &&
               step.at("pattern").is_object()) {
      rules.patterns.push_back(text(step.at("pattern"), "Regex"));
      rules.steps.push_back({Step::Kind::kSplit, rules.patterns.back()});
    } else {
      return unknown(source, "pre_tokenizer", step);
    }
  }
  return rules;
}

Result<TokenizerKind> byte_level(const json& root, const std::vector<json>& members,
                                 const std::string& source) {
  NMM_ASSIGN(const WordRules rules, word_rules(members, source));
  gguf::PreTokenization wanted{.names = {}, .steps = rules.steps};
  wanted.gpt2_pattern = rules.gpt2_pattern;
  const auto model = root.find("model");
  wanted.ignore_merges =
      model != root.end() && model->is_object() && flag(*model, "ignore_merges", false);
  for (const json& step : steps_of(root, "normalizer", "normalizers")) {
    if (type_of(step) != "NFC") return unknown(source, "normalizer", step);
    wanted.nfc = true;
  }
  TokenizerKind kind{.pre = gguf::find_pre_tokenization(wanted)};
  if (kind.pre == nullptr) {
    // llama.cpp itself never composes characters.
    wanted.nfc = !wanted.nfc;
    kind.pre = gguf::find_pre_tokenization(wanted);
  }
  if (kind.pre == nullptr)
    return fail("{}: llama.cpp has no name for these rules of cutting words: {}", source,
                root.at("pre_tokenizer").dump());
  if (rules.add_prefix_space)
    kind.note = "llama.cpp puts no space before a text, as add_prefix_space of the tokenizer asks";
  else if (kind.pre->nfc)
    kind.note =
        "llama.cpp does not compose characters (NFC) as the tokenizer asks: texts with separate "
        "accents get other tokens there";
  return kind;
}

// SentencePiece has no steps that cut words. Tokenizers write its spelling of spaces as normalizer
// (Llama 2) or as pre-tokenizer (Metaspace), and Gemma's cuts at spaces that are none any more.
Result<TokenizerKind> sentence_piece(const json& root, const std::vector<json>& members,
                                     const std::string& source) {
  TokenizerKind kind;
  bool replaces = false;
  for (const json& step : steps_of(root, "normalizer", "normalizers")) {
    const std::string type = type_of(step);
    if (type == "Prepend" && text(step, "prepend") == gguf::kPieceSpace) {
      kind.add_space_prefix = true;
    } else if (type == "Replace" && text(step, "content") == gguf::kPieceSpace &&
               step.value("pattern", json()) == json{{"String", " "}}) {
      replaces = true;
    } else {
      return unknown(source, "normalizer", step);
    }
  }
  for (const json& step : members) {
    const std::string type = type_of(step);
    if (type == "Metaspace" && text(step, "replacement") == gguf::kPieceSpace) {
      const std::string scheme = text(step, "prepend_scheme");
      kind.add_space_prefix =
          scheme.empty() ? flag(step, "add_prefix_space", true) : scheme != "never";
      replaces = true;
    } else if (!(type == "Split" && replaces &&
                 step.value("pattern", json()) == json{{"String", " "}})) {
      return unknown(source, "pre_tokenizer", step);
    }
  }
  if (!replaces)
    return fail(
        "{}: expected byte-level BPE, or SentencePiece's spelling of spaces; llama.cpp has "
        "no other BPE",
        source);
  return kind;
}

}  // namespace

Result<TokenizerKind> tokenizer_kind(const json& root, const std::string& source) {
  const std::vector<json> members = steps_of(root, "pre_tokenizer", "pretokenizers");
  for (const json& step : members) {
    if (type_of(step) == "ByteLevel") return byte_level(root, members, source);
  }
  return sentence_piece(root, members, source);
}

}  // namespace neuronmm::gguf_out
