#include "gguf/tokenizer_files.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "gguf/piece_merges.h"

namespace neuronmm::gguf {
namespace {

using Json = nlohmann::ordered_json;

std::string dump(const Json& json) { return json.dump(2) + "\n"; }

// Returns true if the text of a token in tokenizer.json is not that of the file. In SentencePiece's
// vocabularies user-defined tokens are written with replaced spaces, but added tokens are searched
// before spaces are replaced.
bool has_own_text(const Vocabulary& vocabulary, size_t id) {
  return vocabulary.sentence_piece && vocabulary.kinds[id] == TokenKind::kUserDefined &&
         vocabulary.tokens[id].find(kPieceSpace) != std::string_view::npos;
}

std::string token_text(const Vocabulary& vocabulary, size_t id) {
  const std::string_view token = vocabulary.tokens[id];
  return has_own_text(vocabulary, id) ? with_spaces(token) : std::string(token);
}

// Returns true for tokens that never stand for ordinary text.
bool is_special(TokenKind kind) {
  return kind == TokenKind::kControl || kind == TokenKind::kUnknown;
}

Json added_tokens(const Vocabulary& vocabulary) {
  Json list = Json::array();
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const TokenKind kind = vocabulary.kinds[id];
    if (!is_special(kind) && kind != TokenKind::kUserDefined) continue;
    list.push_back({{"id", id},
                    {"content", token_text(vocabulary, id)},
                    {"single_word", false},
                    {"lstrip", false},
                    {"rstrip", false},
                    {"normalized", false},
                    {"special", is_special(kind)}});
  }
  return list;
}

Json byte_level(bool add_prefix_space, bool use_regex) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", add_prefix_space},
          {"trim_offsets", true},
          {"use_regex", use_regex}};
}

Json sequence(const char* members_key, Json members) {
  return {{"type", "Sequence"}, {members_key, std::move(members)}};
}

Json replace(std::string_view text, std::string_view by) {
  return {{"type", "Replace"}, {"pattern", {{"String", text}}}, {"content", by}};
}

Json normalizer(const Vocabulary& vocabulary) {
  if (!vocabulary.sentence_piece) return vocabulary.pre->nfc ? Json{{"type", "NFC"}} : Json();
  if (!vocabulary.add_space_prefix) return replace(" ", kPieceSpace);
  return sequence("normalizers", Json::array({Json{{"type", "Prepend"}, {"prepend", kPieceSpace}},
                                              replace(" ", kPieceSpace)}));
}

// SentencePiece has no pre-tokenizer, because its merges cross words.
Json pre_tokenizer(const Vocabulary& vocabulary) {
  if (vocabulary.sentence_piece) return {};
  Json steps = Json::array();
  for (const PreTokenizationStep& step : vocabulary.pre->steps) {
    if (step.kind == PreTokenizationStep::Kind::kDigits)
      steps.push_back({{"type", "Digits"}, {"individual_digits", true}});
    else
      steps.push_back({{"type", "Split"},
                       {"pattern", {{"Regex", step.pattern}}},
                       {"behavior", "Isolated"},
                       {"invert", false}});
  }
  const Json last = byte_level(/*add_prefix_space=*/false, vocabulary.pre->gpt2_pattern);
  if (steps.empty()) return last;
  steps.push_back(last);
  return sequence("pretokenizers", std::move(steps));
}

Json special_step(std::string_view token, int type_id) {
  return {{"SpecialToken", {{"id", token}, {"type_id", type_id}}}};
}

// Appends the steps for one text, which may be the only one or one of a pair.
void append_text(const Vocabulary& vocabulary, const char* name, int type_id, Json& steps) {
  if (vocabulary.add_bos)
    steps.push_back(special_step(vocabulary.tokens[static_cast<size_t>(*vocabulary.bos)], type_id));
  steps.push_back({{"Sequence", {{"id", name}, {"type_id", type_id}}}});
  if (vocabulary.add_eos)
    steps.push_back(special_step(vocabulary.tokens[static_cast<size_t>(*vocabulary.eos)], type_id));
}

Json template_processing(const Vocabulary& vocabulary) {
  Json single = Json::array(), pair = Json::array(), special = Json::object();
  append_text(vocabulary, "A", 0, single);
  append_text(vocabulary, "A", 0, pair);
  append_text(vocabulary, "B", 1, pair);
  const auto add = [&](bool wanted, std::optional<int64_t> id) {
    if (!wanted) return;
    const std::string token(vocabulary.tokens[static_cast<size_t>(*id)]);
    special[token] = {{"id", token}, {"ids", Json::array({*id})}, {"tokens", Json::array({token})}};
  };
  add(vocabulary.add_bos, vocabulary.bos);
  add(vocabulary.add_eos, vocabulary.eos);
  return {{"type", "TemplateProcessing"},
          {"single", single},
          {"pair", pair},
          {"special_tokens", special}};
}

Json post_processor(const Vocabulary& vocabulary) {
  const bool adds = vocabulary.add_bos || vocabulary.add_eos;
  if (vocabulary.sentence_piece) return adds ? template_processing(vocabulary) : Json();
  const Json offsets = byte_level(/*add_prefix_space=*/true, /*use_regex=*/true);
  if (!adds) return offsets;
  return sequence("processors", Json::array({offsets, template_processing(vocabulary)}));
}

Json decoder(const Vocabulary& vocabulary) {
  if (!vocabulary.sentence_piece) return byte_level(/*add_prefix_space=*/true, /*use_regex=*/true);
  Json steps = Json::array(
      {replace(kPieceSpace, " "), Json{{"type", "ByteFallback"}}, Json{{"type", "Fuse"}}});
  if (vocabulary.add_space_prefix)
    steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  return sequence("decoders", std::move(steps));
}

std::vector<Vocabulary::Merge> all_merges(const Vocabulary& vocabulary) {
  const bool by_scores = vocabulary.sentence_piece && vocabulary.merges.empty();
  return by_scores ? piece_merges(vocabulary) : vocabulary.merges;
}

Json merges_json(const Vocabulary& vocabulary) {
  Json list = Json::array();
  const auto text = [&](int32_t id) { return vocabulary.tokens[static_cast<size_t>(id)]; };
  for (const auto& [left, right, merged] : all_merges(vocabulary))
    list.push_back(Json::array({text(left), text(right)}));
  return list;
}

Json vocab_json(const Vocabulary& vocabulary) {
  Json vocab = Json::object();
  // The ordered object searches all its keys before it adds one. The keys here are known to be new,
  // so they are added without the search.
  auto& entries = vocab.get_ref<Json::object_t&>();
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id)
    entries.emplace_back(token_text(vocabulary, id), id);
  return vocab;
}

Json model(const Vocabulary& vocabulary, Json vocab, Json merges) {
  const bool has_unknown = vocabulary.sentence_piece && vocabulary.unknown;
  const bool has_bytes =
      std::ranges::find(vocabulary.kinds, TokenKind::kByte) != vocabulary.kinds.end();
  return {
      {"type", "BPE"},
      {"dropout", nullptr},
      {"unk_token",
       has_unknown ? Json(vocabulary.tokens[static_cast<size_t>(*vocabulary.unknown)]) : Json()},
      {"continuing_subword_prefix", nullptr},
      {"end_of_word_suffix", nullptr},
      {"fuse_unk", vocabulary.sentence_piece},
      {"byte_fallback", vocabulary.sentence_piece && has_bytes},
      {"ignore_merges", !vocabulary.sentence_piece && vocabulary.pre->ignore_merges},
      {"vocab", std::move(vocab)},
      {"merges", std::move(merges)}};
}

// The text is on one line, because it is large and not meant to be read by people.
std::string tokenizer_text(const Vocabulary& vocabulary, Json vocab, Json merges) {
  const Json json{{"version", "1.0"},
                  {"truncation", nullptr},
                  {"padding", nullptr},
                  {"added_tokens", added_tokens(vocabulary)},
                  {"normalizer", normalizer(vocabulary)},
                  {"pre_tokenizer", pre_tokenizer(vocabulary)},
                  {"post_processor", post_processor(vocabulary)},
                  {"decoder", decoder(vocabulary)},
                  {"model", model(vocabulary, std::move(vocab), std::move(merges))}};
  return json.dump() + "\n";
}

}  // namespace

std::string tokenizer_json(const Vocabulary& vocabulary) {
  return tokenizer_text(vocabulary, vocab_json(vocabulary), merges_json(vocabulary));
}

io::MountedTokenizer mounted_tokenizer(const Vocabulary& vocabulary) {
  io::MountedTokenizer tokenizer{.json = tokenizer_text(vocabulary, Json::object(), Json::array()),
                                 .tokens = vocabulary.tokens,
                                 .own_texts = {},
                                 .merges = all_merges(vocabulary)};
  for (size_t id = 0; id < tokenizer.tokens.size(); ++id) {
    if (has_own_text(vocabulary, id))
      tokenizer.tokens[id] = tokenizer.own_texts.emplace_back(token_text(vocabulary, id));
  }
  return tokenizer;
}

std::string tokenizer_config_json(const Vocabulary& vocabulary) {
  Json config{{"add_bos_token", vocabulary.add_bos}, {"add_eos_token", vocabulary.add_eos}};
  const auto add = [&](const char* key, std::optional<int64_t> id) {
    if (id) config[key] = token_text(vocabulary, static_cast<size_t>(*id));
  };
  add("bos_token", vocabulary.bos);
  add("eos_token", vocabulary.eos);
  add("unk_token", vocabulary.unknown);
  add("pad_token", vocabulary.pad);
  if (vocabulary.chat_templates.size() == 1 &&
      vocabulary.chat_templates.front().name == "default") {
    config["chat_template"] = vocabulary.chat_templates.front().text;
  } else if (!vocabulary.chat_templates.empty()) {
    for (const auto& [name, text] : vocabulary.chat_templates)
      config["chat_template"].push_back({{"name", name}, {"template", text}});
  }
  config["clean_up_tokenization_spaces"] = false;
  if (vocabulary.context_length > 0) config["model_max_length"] = vocabulary.context_length;
  config["tokenizer_class"] = "PreTrainedTokenizerFast";
  // Without this field, transformers 4 makes token types, which no model here takes.
  config["model_input_names"] = {"input_ids", "attention_mask"};
  return dump(config);
}

std::string generation_config_json(const Vocabulary& vocabulary) {
  Json config = Json::object();
  if (vocabulary.bos) config["bos_token_id"] = *vocabulary.bos;
  const std::vector<int64_t> ends = vocabulary.end_ids();
  if (ends.size() == 1) config["eos_token_id"] = ends.front();
  if (ends.size() > 1) config["eos_token_id"] = ends;
  if (vocabulary.pad) config["pad_token_id"] = *vocabulary.pad;
  return config.empty() ? "" : dump(config);
}

}  // namespace neuronmm::gguf
