// Tests of masks. They are compared with trying every token byte by byte, and random answers that
// follow them must be valid documents.

#include <bit>
#include <chrono>
#include <random>
#include <thread>

#include <gmock/gmock.h>

#include "compiled.h"
#include "places.h"
#include "schema_validator.h"
#include "serve/grammar/grammar_cache.h"
#include "serve/grammar/matcher.h"
#include "serve/grammar/token_mask.h"

namespace neuronmm::grammar {
namespace {

using text::TokenId;

constexpr std::string_view kPerson =
    R"({"type": "object", "properties": {"name": {"type": "string", "minLength": 1, "maxLength": 12},
        "code": {"type": "string", "pattern": "^[A-Z]{2}-\\d{3}$"}, "age": {"type": "integer", "minimum": 0, "maximum": 130},
        "when": {"type": "string", "format": "date-time"}, "tags": {"type": "array", "maxItems": 3, "items": {"enum": ["x", "yes", "é"]}},
        "next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}, "required": ["name", "age"], "additionalProperties": false})";

std::vector<Json> schemas() {
  std::vector<Json> list;
  for (
      const std::string_view text :
      {kPerson, std::string_view(R"({"type": "object"})"), std::string_view("true"),
       std::string_view(R"({"type": "number", "multipleOf": 0.5, "maximum": 20})"),
       std::string_view(
           R"({"type": "array", "maxItems": 6, "items": {"type": "string", "minLength": 2, "maxLength": 30}})"),
       std::string_view(
           R"({"anyOf": [{"type": "string", "maxLength": 9}, {"type": "string", "pattern": "^[a-z é]{4,20}$"}]})"),
       std::string_view(
           R"({"patternProperties": {"^s_": {"type": "string"}}, "additionalProperties": {"type": "boolean"}, "type": "object", "maxProperties": 3})")})
    list.push_back(Json::parse(text));
  return list;
}

std::shared_ptr<const TokenVocabulary> demo_vocabulary() {
  static const std::shared_ptr<const TokenVocabulary> vocabulary = [] {
    auto tokenizer = text::Tokenizer::load(source_dir() / "models/demo");
    NMM_CHECK(tokenizer.ok());
    return std::make_shared<const TokenVocabulary>(*tokenizer, std::vector{*tokenizer->eos_id()},
                                                   tokenizer->vocab_size());
  }();
  return vocabulary;
}

std::shared_ptr<TokenMasks> masks_of(const Json& schema,
                                     std::shared_ptr<const TokenVocabulary> vocabulary) {
  auto compiled = compile_schema(schema, "schema");
  NMM_CHECK(compiled.ok());
  auto masks = TokenMasks::make(std::move(compiled).value(), std::move(vocabulary));
  NMM_CHECK(masks.ok());
  return std::move(masks).value();
}

std::vector<TokenId> set_bits(const std::vector<uint64_t>& mask) {
  std::vector<TokenId> ids;
  for (size_t word = 0; word < mask.size(); ++word) {
    for (uint64_t bits = mask[word]; bits != 0; bits &= bits - 1)
      ids.push_back(static_cast<TokenId>(word * 64 + static_cast<size_t>(std::countr_zero(bits))));
  }
  return ids;
}

// Writes one random answer and calls `look` before every token. After 40 tokens, tokens that close
// a string, an array or an object are preferred, so that the answer ends.
std::string random_answer(
    const std::shared_ptr<TokenMasks>& masks, std::mt19937& random,
    const std::function<void(const std::string&, const std::vector<uint64_t>&)>& look) {
  Matcher matcher(masks);
  const TokenVocabulary& vocabulary = masks->vocabulary();
  std::vector<uint64_t> mask(vocabulary.mask_words());
  std::string text;
  for (int steps = 0; !matcher.must_end(); ++steps) {
    EXPECT_LT(steps, 5000) << text.substr(0, 300);
    if (steps >= 5000) break;
    matcher.allowed_tokens(mask);
    look(text, mask);
    std::vector<TokenId> allowed = set_bits(mask);
    EXPECT_FALSE(allowed.empty()) << text;
    if (allowed.empty()) break;
    TokenId chosen = allowed[random() % allowed.size()];
    for (const std::string_view closing : {"]", "}", "\""}) {
      for (const TokenId id : allowed) {
        if (steps > 40 && vocabulary.text(id) == closing) chosen = id;
      }
    }
    if (steps > 40 && matcher.is_complete()) chosen = vocabulary.stop_tokens().front();
    matcher.advance(chosen);
    text += vocabulary.is_stop(chosen) ? "" : vocabulary.text(chosen);
  }
  return text;
}

TEST(Masks, RandomAnswersAreValidDocuments) {
  std::mt19937 random(3);
  for (const Json& schema : schemas()) {
    const auto masks = masks_of(schema, demo_vocabulary());
    for (int i = 0; i < 60; ++i) {
      const std::string text = random_answer(masks, random, [](const auto&, const auto&) {});
      const Json value = Json::parse(text, nullptr, false);
      ASSERT_FALSE(value.is_discarded()) << text;
      // The parser keeps the last value of a property that was written twice.
      ASSERT_TRUE(validates(schema, value, schema)) << schema.dump() << "\n" << text;
    }
  }
}

TEST(Masks, EqualTryingEveryToken) {
  std::mt19937 random(5);
  for (const Json& schema : schemas()) {
    const auto compiled = compile_schema(schema, "schema");
    ASSERT_TRUE(compiled.ok());
    const auto vocabulary = demo_vocabulary();
    Automaton automaton(compiled->grammar, vocabulary->bytes());
    const auto masks = masks_of(schema, vocabulary);
    const auto look = [&](const std::string& text, const std::vector<uint64_t>& mask) {
      if (random() % 3 != 0) return;
      const StateId state = automaton.step(automaton.start(), text);
      ASSERT_NE(state, Automaton::kDead) << text;
      for (TokenId id = 0; id < vocabulary->size(); ++id) {
        const std::string_view token = vocabulary->text(id);
        const bool expected =
            vocabulary->is_stop(id)
                ? automaton.is_complete(state)
                : !token.empty() && automaton.step(state, token) != Automaton::kDead;
        const auto bit = static_cast<size_t>(id);
        ASSERT_EQ((mask[bit / 64] >> (bit % 64) & 1) != 0, expected) << text << " + " << token;
      }
    };
    for (int i = 0; i < 8; ++i) (void)random_answer(masks, random, look);
  }
}

// The schemas have few short strings, so random answers without the check would repeat some.
TEST(Masks, StringsInUniqueArraysNeverRepeat) {
  std::mt19937 random(7);
  const Json schemas[] = {
      Json::parse(R"({"type": "array", "minItems": 4, "uniqueItems": true,
                      "items": {"type": "string", "pattern": "^[ab]*$"}})"),
      Json::parse(R"({"type": "array", "minItems": 3, "uniqueItems": true,
                      "items": {"anyOf": [{"const": "a"}, {"type": "string", "pattern": "^a+$"}]}})"),
      Json::parse(R"({"type": "object", "properties": {
          "x": {"type": "array", "minItems": 2, "maxItems": 4, "uniqueItems": true, "items": {"type": "string"}},
          "y": {"type": "array", "minItems": 2, "uniqueItems": true, "items": {"enum": ["p", "q", 1, null]}}},
          "required": ["x", "y"], "additionalProperties": false})"),
  };
  int forbidden = 0;
  for (const Json& schema : schemas) {
    const auto masks = masks_of(schema, demo_vocabulary());
    const auto compiled = compile_schema(schema, "schema");
    Automaton automaton(compiled->grammar, demo_vocabulary()->bytes());
    const auto look = [&](const std::string& text, const std::vector<uint64_t>& mask) {
      const StateId state = automaton.step(automaton.start(), text);
      for (const TokenId id : demo_vocabulary()->tokens_with_quote()) {
        const auto bit = static_cast<size_t>(id);
        const bool allowed = (mask[bit / 64] >> (bit % 64) & 1) != 0;
        const bool read = automaton.step(state, demo_vocabulary()->text(id)) != Automaton::kDead;
        ASSERT_TRUE(read || !allowed) << text;
        forbidden += read && !allowed ? 1 : 0;
      }
    };
    for (int i = 0; i < 60; ++i) {
      const std::string text = random_answer(masks, random, look);
      const Json value = Json::parse(text, nullptr, false);
      ASSERT_FALSE(value.is_discarded()) << text;
      ASSERT_TRUE(validates(schema, value, schema)) << schema.dump() << "\n" << text;
    }
  }
  EXPECT_GT(forbidden, 100);
}

TEST(Masks, SpecialTokensAreNeverText) {
  auto tokenizer = text::Tokenizer::load(source_dir() / "models/demo");
  ASSERT_TRUE(tokenizer.ok());
  EXPECT_EQ(demo_vocabulary()->text(*tokenizer->bos_id()), "");
  const std::vector<TokenId> written = {*tokenizer->bos_id()};
  const TokenVocabulary other(*tokenizer, {}, tokenizer->vocab_size(), written);
  EXPECT_EQ(other.text(*tokenizer->bos_id()), "<|begin_of_text|>");
}

// Makes a vocabulary with one token per byte of `bytes`, and the tokens in `more`.
std::shared_ptr<const TokenVocabulary> small_vocabulary(std::string_view bytes,
                                                        std::vector<std::string> more = {}) {
  std::vector<std::string> texts = {""};
  for (const char byte : bytes) texts.emplace_back(1, byte);
  texts.insert(texts.end(), more.begin(), more.end());
  return std::make_shared<const TokenVocabulary>(std::move(texts), std::vector<TokenId>{0});
}

TEST(Masks, BytesThatNoTokenSpellsLeadToNoDeadEnd) {
  // The name "ab" could only be begun with "a", since no token spells "b". It must not be begun.
  const auto vocabulary = small_vocabulary("{}\":a1", {"ab", "{\"", "null"});
  const auto masks = masks_of(
      Json::parse(R"({"type": "object", "properties": {"ab": {}, "a": {"enum": [1, 2, "b", null]}},
                                             "required": ["a"], "additionalProperties": false})"),
      vocabulary);
  std::mt19937 random(1);
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(random_answer(masks, random, [](const auto&, const auto&) {}), R"({"a":1})");
  auto compiled = compile_schema(Json::parse(R"({"const": "c"})"), "schema");
  ASSERT_TRUE(compiled.ok());
  const auto none = TokenMasks::make(std::move(compiled).value(), vocabulary);
  ASSERT_FALSE(none.ok());
  EXPECT_THAT(none.error().message, testing::HasSubstr("no token of the vocabulary spells"));
}

TEST(Masks, AnswersGoOnWhenStatesAreForgotten) {
  // Counting characters takes a state for each length, so states and masks exceed the limit.
  auto compiled = compile_schema(Json::parse(R"({"type": "string", "minLength": 500})"), "schema");
  ASSERT_TRUE(compiled.ok());
  const auto masks =
      TokenMasks::make(std::move(compiled).value(), demo_vocabulary(), 200'000).value();
  Matcher first(masks), second(masks);
  std::vector<uint64_t> mask(masks->vocabulary().mask_words());
  const auto id_of = [&](std::string_view text) {
    for (TokenId id = 0; id < masks->vocabulary().size(); ++id) {
      if (masks->vocabulary().text(id) == text) return id;
    }
    return TokenId{-1};
  };
  for (Matcher* matcher : {&first, &second}) matcher->advance(id_of("\""));
  for (int i = 0; i < 500; ++i) {
    first.allowed_tokens(mask);
    ASSERT_EQ(mask[static_cast<size_t>(id_of("\"")) / 64] >> (id_of("\"") % 64) & 1, 0u) << i;
    first.advance(id_of("a"));
  }
  first.allowed_tokens(mask);
  first.advance(id_of("\""));
  EXPECT_TRUE(first.must_end());
  second.advance(id_of("a"));
  EXPECT_FALSE(second.must_end());
}

TokenId token_of_byte(const TokenVocabulary& vocabulary, char byte) {
  TokenId token = 0;
  while (vocabulary.text(token) != std::string_view(&byte, 1)) ++token;
  return token;
}

// The automaton that has allowed a token must read it, too. A new one might find the step too
// large.
TEST(Masks, AnAnswerKeepsItsAutomatonUntilItsNextMask) {
  auto compiled = compile_schema(Json::parse(R"({"type": "string"})"), "schema");
  ASSERT_TRUE(compiled.ok());
  const auto masks = TokenMasks::make(std::move(compiled).value(), demo_vocabulary(), 0).value();
  const TokenVocabulary& vocabulary = masks->vocabulary();
  constexpr int64_t kAnyWork = int64_t{1} << 40;
  std::vector<uint64_t> mask(vocabulary.mask_words());
  auto first = masks->start(), second = masks->start();
  (void)masks->allowed(first, mask, kAnyWork);
  const auto automaton = first.automaton;
  (void)masks->allowed(second, mask, kAnyWork);  // states are forgotten before every mask
  EXPECT_NE(second.automaton, automaton);
  masks->advance(first, token_of_byte(vocabulary, '"'));
  EXPECT_EQ(first.automaton, automaton);
  EXPECT_FALSE(masks->is_complete(first));
  (void)masks->allowed(first, mask, kAnyWork);
  EXPECT_NE(first.automaton, automaton);
  EXPECT_TRUE(is_allowed(mask, token_of_byte(vocabulary, 'a')));
}

// Without work, a mask has tokens of one byte only. It is completed when the state comes again.
TEST(Masks, AreCompletedInPortions) {
  const auto vocabulary = demo_vocabulary();
  const auto whole = masks_of(Json::parse(kPerson), vocabulary);
  const auto parts = masks_of(Json::parse(kPerson), vocabulary);
  std::vector<uint64_t> expected(vocabulary->mask_words()), mask(expected);
  int all_portions = 0;
  const std::vector<std::string_view> texts = {"", "{\"name\": ", "{\"name\": \"",
                                               "{\"name\": \"x\", \"code\": \"A"};
  for (const std::string_view text : texts) {
    auto state = whole->start(), other = parts->start();
    for (const char byte : text) {
      const TokenId token = token_of_byte(*vocabulary, byte);
      whole->advance(state, token);
      parts->advance(other, token);
    }
    (void)whole->allowed(state, expected, int64_t{1} << 40);
    int portions = 0;
    for (; portions == 0 || (mask != expected && portions < 10'000); ++portions) {
      const int64_t work = parts->allowed(other, mask, 10);
      EXPECT_LT(work, 10 + 64 * 256);  // the tokens of one byte are always read
      EXPECT_FALSE(set_bits(mask).empty());
      for (const TokenId id : set_bits(mask))
        ASSERT_TRUE(expected[static_cast<size_t>(id) / 64] >> (id % 64) & 1) << text;
    }
    all_portions += portions;
    EXPECT_EQ(mask, expected);
  }
  EXPECT_GT(all_portions, std::ssize(texts));
}

// Each state of this grammar has thousands of stacks. A step that looks at too many is not taken,
// and a schema that needs one for the first byte is refused.
TEST(Masks, WorkOfAStepIsLimited) {
  Json schema;
  for (int i = 0; i < 400; ++i)
    schema["anyOf"].push_back({{"type", "array"}, {"items", {{"$ref", "#"}}}, {"minItems", i}});
  Budget budget;
  auto compiled = compile_schema(schema, "schema", {.closed_objects = false, .budget = &budget});
  if (!compiled.ok()) return;  // refused earlier
  const auto made = TokenMasks::make(std::move(compiled).value(), demo_vocabulary());
  if (!made.ok()) {
    EXPECT_THAT(made.error().message, testing::HasSubstr("too many alternatives"));
    return;
  }
  Matcher matcher(*made);
  std::vector<uint64_t> mask(demo_vocabulary()->mask_words());
  for (int i = 0; i < 50 && !matcher.must_end(); ++i) {
    const auto begin = std::chrono::steady_clock::now();
    matcher.allowed_tokens(mask);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(1));
    matcher.advance(set_bits(mask).front());
  }
}

TEST(Masks, CanBeSharedBetweenThreads) {
  const auto masks = masks_of(Json::parse(kPerson), demo_vocabulary());
  std::vector<std::thread> threads;
  std::vector<int> valid(4);
  for (size_t i = 0; i < valid.size(); ++i) {
    threads.emplace_back([&, i] {
      std::mt19937 random(static_cast<uint32_t>(i));
      for (int k = 0; k < 10; ++k) {
        const std::string text = random_answer(masks, random, [](const auto&, const auto&) {});
        const Json value = Json::parse(text, nullptr, false);
        valid[i] += !value.is_discarded() && value.contains("age");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(valid, testing::Each(10));
}

TEST(GrammarCache, DropsGrammarsThatTakeTooMuchMemory) {
  const auto make = [] { return masks_of(Json(true), small_vocabulary("null")); };
  const int64_t bytes = make()->bytes();
  GrammarCache cache(100, 3 * bytes + 100);
  int made = 0;
  const auto get = [&](const std::string& key) {
    return cache.get(key, "",
                     [&]() -> Result<std::shared_ptr<TokenMasks>> { return ++made, make(); });
  };
  for (const char* key : {"a", "b", "c", "d", "d", "c", "b"}) EXPECT_TRUE(get(key).ok());
  EXPECT_EQ(made, 4);
  EXPECT_TRUE(get("a").ok());
  EXPECT_EQ(made, 5);
}

TEST(GrammarCache, CountsTheGrammarsOfEachClientWhileTheyAreUsed) {
  const auto make = []() -> Result<std::shared_ptr<TokenMasks>> {
    return masks_of(Json(true), small_vocabulary("null"));
  };
  GrammarCache cache(1);
  auto first = cache.get("a", "one", make).value();
  const int64_t bytes = first->grammar_bytes();
  EXPECT_GT(bytes, 0);
  (void)cache.get("a", "two", make).value();  // known, so it costs this client nothing
  EXPECT_EQ(cache.bytes_of("one"), bytes);
  EXPECT_EQ(cache.bytes_of("two"), 0);
  (void)cache.get("b", "one", make).value();
  EXPECT_EQ(cache.bytes_of("one"), 2 * bytes);
  first.reset();  // the cache has dropped it
  EXPECT_EQ(cache.bytes_of("one"), bytes);
}

TEST(GrammarCache, KeepsTheGrammarsUsedLast) {
  GrammarCache cache(2);
  int made = 0;
  const auto get = [&](const std::string& key) {
    return cache.get(key, "", [&]() -> Result<std::shared_ptr<TokenMasks>> {
      ++made;
      if (key == "bad") return fail("bad");
      return masks_of(Json(true), small_vocabulary("null"));
    });
  };
  const auto a = get("a").value();
  EXPECT_EQ(get("a").value(), a);
  (void)get("b").value();
  (void)get("a").value();
  (void)get("c").value();  // drops b
  EXPECT_EQ(made, 3);
  EXPECT_EQ(get("a").value(), a);
  (void)get("b").value();
  EXPECT_EQ(made, 4);
  EXPECT_FALSE(get("bad").ok());
  EXPECT_FALSE(get("bad").ok());
  EXPECT_EQ(made, 6);
}

}  // namespace
}  // namespace neuronmm::grammar
