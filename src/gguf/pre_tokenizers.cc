#include "gguf/pre_tokenizers.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "text/tokenizer/pre_tokenizer_json.h"

namespace neuronmm::gguf {
namespace {

// The patterns are those of the published tokenizer.json files. The names, the patterns that they
// stand for and the other properties come from llama.cpp (src/llama-vocab.cpp and the converters
// that write the names).

using Step = PreTokenizationStep;
using Names = std::string_view;

constexpr Step split(std::string_view pattern) { return {Step::Kind::kSplit, pattern}; }
constexpr Step kDigits = {Step::Kind::kDigits, {}};

// The pattern matches words, up to three digits, signs with the line ends after them, and white
// space.
constexpr Step kLlama3[] = {split(
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)")};
// The pattern is that of Llama 3, except that it matches one digit at a time.
constexpr Step kQwen2[] = {
    split(R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
          R"(|\s*[\r\n]+|\s+(?!\S)|\s+)")};
constexpr Step kQwen35[] = {split(
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)")};
constexpr Step kMiniCpm5[] = {
    split(R"(\p{N}{1,3})"),
    split(
        R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*)"
        R"(|\s*[\r\n]+|\s+(?!\S)|\s+)")};
constexpr Step kJais2[] = {split(
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S))"
    R"(|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1})")};
constexpr Step kBailing[] = {
    split(R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*)"
          R"(|\s*[\r\n]|\s+(?!\S)|\s+)")};
constexpr Step kSeedCoder[] = {
    split(R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+)"
          R"(|\s*[\r\n]+|\s+(?!\S)|\s+)")};
constexpr Step kExaoneMoe[] = {split(
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+)")};

// Words are cut where small letters are followed by capitals.
constexpr Step kTekken[] = {
    split(R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
          R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
          R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)")};
constexpr std::string_view kGpt4oWords =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr Step kGpt4o[] = {split(kGpt4oWords)};

constexpr std::string_view kCjk = "[\u4E00-\u9FA5\u3040-\u309F\u30A0-\u30FF]+";
constexpr Step kDeepSeekV3[] = {split(R"(\p{N}{1,3})"), split(kCjk),
                                split(R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^)"
                                      "\r\n"
                                      R"(\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)"
                                      R"(| ?[\p{P}\p{S}]+[)"
                                      "\r\n"
                                      R"(]*|\s*[)"
                                      "\r\n"
                                      R"(]+|\s+(?!\S)|\s+)")};
constexpr Step kYoutu[] = {
    split("[\uAC00-\uD7A3\u3131-\u318E]+|[\uFF01\u2026\u201C\u201D\u2018\u2019\u2014\uFF1A\uFF1B"
          "\uFF0C\u3001-\u303F\uFE30-\uFE4F]+|[\u3105-\u312F]+|[\u4E00-\u9FA5\u3040-\u309F\u30A0-"
          "\u30FF]+"),
    split(
        R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
        R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
        R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)")};

// The letters of the scripts that have capitals, by their code points.
constexpr std::string_view kDeepSeekLetters =
    "\\s?[A-Za-z\u00B5\u00C0-\u00D6\u00D8-\u00F6\u00F8-\u01BA\u01BC-\u01BF\u01C4-\u0293\u0295"
    "-\u02AF\u0370-\u0373\u0376\u0377\u037B-\u037D\u037F\u0386\u0388-\u038A\u038C\u038E-"
    "\u03A1\u03A3-\u03F5\u03F7-\u0481\u048A-\u052F\u0531-\u0556\u10A0-\u10C5\u13A0-\u13F5"
    "\u13F8-\u13FD\u1C90-\u1CBA\u1CBD-\u1CBF\u1D00-\u1D2B\u1D6B-\u1D77\u1D79-\u1D9A\u1E00-"
    "\u1F15\u1F18-\u1F1D\u1F20-\u1F45\u1F48-\u1F4D\u1F50-\u1F57\u1F59\u1F5B\u1F5D\u1F5F-"
    "\u1F7D\u1F80-\u1FB4\u1FB6-\u1FBC\u1FBE\u1FC2-\u1FC4\u1FC6-\u1FCC\u1FD0-\u1FD3\u1FD6-"
    "\u1FDB\u1FE0-\u1FEC\u1FF2-\u1FF4\u1FF6-\u1FFC\u2102\u2107\u210A-\u2113\u2115\u2119-"
    "\u211D\u2124\u2126\u2128\u212A-\u212D\u212F-\u2134\u2139\u213C-\u213F\u2145-\u2149\u214E"
    "\u2183\u2184\u2C00-\u2C7B\u2C7E-\u2CE4\u2CEB-\u2CEE\u2CF2\u2CF3\uA640-\uA66D\uA680-"
    "\uA69B\uA722-\uA76F\uA771-\uA787\uA78B-\uA78E\uAB70-\uABBF\uFB00-\uFB06\uFB13-\uFB17"
    "\uFF21-\uFF3A\uFF41-\uFF5A\U00010400-\U0001044F\U000104B0-\U000104D3\U000104D8-"
    "\U000104FB\U00010C80-\U00010CB2\U00010CC0-\U00010CF2\U000118A0-\U000118DF\U0001E900-"
    "\U0001E943]+";
constexpr std::string_view kDeepSeekCjk = "[\u4E00-\u9FA5\u0800-\u4E00\uAC00-\uD7FF]+";
constexpr Step kDeepSeekLlm[] = {
    split("[\r\n]"),
    split(kDeepSeekLetters),
    split("\\s?[!-/:-~\uFF01-\uFF0F\uFF1A-\uFF5E\u2018-\u201F\u3000-\u3002]+"),
    split(R"(\s+$)"),
    split(kDeepSeekCjk),
    split(R"(\p{N}+)")};
constexpr Step kDeepSeekCoder[] = {split("[\r\n]"), split(R"(\s?\p{L}+)"), split(R"(\s?\p{P}+)"),
                                   split(kDeepSeekCjk), kDigits};

constexpr Step kFalcon[] = {split(R"([\p{P}\$\+<=>\^~\|`]+)"), split(text::kGpt2Pattern),
                            split("[0-9][0-9][0-9]")};
// The steps that llama.cpp uses for files without a name.
constexpr Step kDefault[] = {split(R"([\p{P}\$\+<=>\^~\|]+)"), split(text::kGpt2Pattern),
                             split(R"(\p{N}+)"), split("[0-9][0-9][0-9]")};
constexpr std::string_view kBloomWords =
    " ?[^(\\s|.,!?\u2026\u3002\uFF0C\u3001\u0964\u06D4\u060C)]+";
constexpr Step kBloom[] = {split(kBloomWords)};
constexpr Step kViking[] = {split(kBloomWords), split(R"(\p{N})")};
constexpr Step kSuperBpe[] = {split(R"(\p{N}+)"), split(R"((?=(\d{3})+(?!\d)))")};
constexpr Step kOneDigit[] = {kDigits};

constexpr Names kDefaultNames[] = {"default"};
constexpr Names kGpt2Names[] = {"gpt-2",   "phi-2", "gigachat", "a.x-4.0",        "mellum",
                                "exaone4", "jais",  "trillion", "granite-docling"};
constexpr Names kGpt2NfcNames[] = {"mpt", "olmo", "modern-bert"};
constexpr Names kOneDigitNames[] = {"smollm", "starcoder",  "refact", "codeshell",
                                    "exaone", "minerva-7b", "mellum2"};
constexpr Names kOneDigitNfcNames[] = {"command-r"};
constexpr Names kLlama3Names[] = {"llama3",    "llama-v3", "llama-bpe", "falcon3",
                                  "falcon-h1", "pixtral",  "midm-2.0",  "lfm2"};
constexpr Names kDbrxNames[] = {"dbrx", "smaug-bpe", "chatglm-bpe", "glm4"};
constexpr Names kQwen2Names[] = {"qwen2", "deepseek-r1-qwen", "kormo", "f2llmv2"};
constexpr Names kStableLmNames[] = {"stablelm2", "megrez", "hunyuan", "solar-open", "grok-2"};
constexpr Names kQwen35Names[] = {"qwen35"};
constexpr Names kMiniCpm5Names[] = {"minicpm5"};
constexpr Names kJais2Names[] = {"jais-2"};
constexpr Names kBailingNames[] = {"bailingmoe", "bailingmoe2", "llada-moe"};
constexpr Names kSeedCoderNames[] = {"seed-coder"};
constexpr Names kExaoneMoeNames[] = {"exaone-moe"};
constexpr Names kTekkenNames[] = {"tekken"};
constexpr Names kGpt4oNames[] = {"gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"};
constexpr Names kDeepSeekV3Names[] = {"deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"};
constexpr Names kYoutuNames[] = {"youtu"};
constexpr Names kDeepSeekLlmNames[] = {"deepseek-llm"};
constexpr Names kDeepSeekCoderNames[] = {"deepseek-coder"};
constexpr Names kFalconNames[] = {"falcon"};
constexpr Names kBloomNames[] = {"bloom", "poro-chat", "gpt3-finnish"};
constexpr Names kVikingNames[] = {"viking"};
constexpr Names kSuperBpeNames[] = {"superbpe"};

constexpr PreTokenization kKnown[] = {
    {.names = kDefaultNames, .steps = kDefault},
    {.names = kGpt2Names, .steps = {}, .gpt2_pattern = true},
    {.names = kGpt2NfcNames, .steps = {}, .gpt2_pattern = true, .nfc = true},
    {.names = kOneDigitNames, .steps = kOneDigit, .gpt2_pattern = true},
    {.names = kOneDigitNfcNames, .steps = kOneDigit, .gpt2_pattern = true, .nfc = true},
    {.names = kLlama3Names, .steps = kLlama3, .ignore_merges = true, .adds_bos = true},
    {.names = kDbrxNames, .steps = kLlama3},
    {.names = kQwen2Names, .steps = kQwen2, .nfc = true},
    {.names = kStableLmNames, .steps = kQwen2},
    {.names = kQwen35Names, .steps = kQwen35, .nfc = true},
    {.names = kMiniCpm5Names, .steps = kMiniCpm5, .ignore_merges = true},
    {.names = kJais2Names, .steps = kJais2},
    {.names = kBailingNames, .steps = kBailing},
    {.names = kSeedCoderNames, .steps = kSeedCoder},
    {.names = kExaoneMoeNames, .steps = kExaoneMoe},
    {.names = kTekkenNames, .steps = kTekken, .ignore_merges = true, .adds_bos = true},
    {.names = kGpt4oNames, .steps = kGpt4o},
    {.names = kDeepSeekV3Names, .steps = kDeepSeekV3},
    {.names = kYoutuNames, .steps = kYoutu, .ignore_merges = true},
    {.names = kDeepSeekLlmNames, .steps = kDeepSeekLlm},
    {.names = kDeepSeekCoderNames, .steps = kDeepSeekCoder},
    {.names = kFalconNames, .steps = kFalcon},
    {.names = kBloomNames, .steps = kBloom},
    {.names = kVikingNames, .steps = kViking},
    {.names = kSuperBpeNames, .steps = kSuperBpe},
};

}  // namespace

const PreTokenization* find_pre_tokenization(std::string_view name) {
  for (const PreTokenization& known : kKnown) {
    if (std::ranges::find(known.names, name) != known.names.end()) return &known;
  }
  return nullptr;
}

const PreTokenization* find_pre_tokenization(const PreTokenization& wanted) {
  for (const PreTokenization& known : kKnown) {
    if (std::ranges::equal(known.steps, wanted.steps) &&
        known.gpt2_pattern == wanted.gpt2_pattern && known.nfc == wanted.nfc &&
        known.ignore_merges == wanted.ignore_merges)
      return &known;
  }
  return nullptr;
}

std::string pre_tokenization_names() {
  std::string all;
  for (const PreTokenization& known : kKnown)
    all += fmt::format("{}{}", all.empty() ? "" : ", ", fmt::join(known.names, ", "));
  return all;
}

}  // namespace neuronmm::gguf
