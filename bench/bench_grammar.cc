// Measures how long the token mask of a grammar's state takes, when it is first asked for and when
// it is asked for again.
//
//   bench_grammar TOKENIZER_FOLDER...

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <random>
#include <vector>

#include "serve/grammar/matcher.h"
#include "serve/schema/schema_compiler.h"

namespace {

using namespace neuronmm;
using Clock = std::chrono::steady_clock;

constexpr const char* kSchemas[][2] = {
    {"any object", R"({"type": "object"})"},
    {"person",
     R"({"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0, "maximum": 130},
         "email": {"type": "string", "format": "email"}, "role": {"enum": ["admin", "editor", "viewer"]},
         "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 5},
         "address": {"type": "object", "properties": {"street": {"type": "string"}, "zip": {"type": "string", "pattern": "^[0-9]{5}$"}},
         "required": ["street"], "additionalProperties": false}}, "required": ["name", "age"], "additionalProperties": false})"},
    {"counted string",
     R"({"type": "object", "properties": {"text": {"type": "string", "maxLength": 300}}, "required": ["text"]})"},
};

double microseconds(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

void print(const char* what, std::vector<double> times) {
  std::sort(times.begin(), times.end());
  std::printf("  %-10s median %8.1f us   90 %% %8.1f us   largest %8.1f us   (%zu)\n", what,
              times[times.size() / 2], times[times.size() * 9 / 10], times.back(), times.size());
}

// Generates answers of random allowed tokens. States that an answer meets again are among the first
// times, too, so that the upper percentiles are those of new states.
void run(const std::shared_ptr<const grammar::TokenVocabulary>& vocabulary, const char* name,
         const char* text) {
  const auto schema = grammar::SchemaDocument::parse(text, name);
  auto begin = Clock::now();
  auto compiled = grammar::compile_schema(*schema, name, {.closed_objects = true});
  auto masks = grammar::TokenMasks::make(std::move(compiled).value(), vocabulary).value();
  std::printf("%s: compiled in %.0f us\n", name, microseconds(begin));
  std::vector<uint64_t> mask(vocabulary->mask_words());
  std::vector<double> first, again;
  std::mt19937 random(1);
  for (int answer = 0; answer < 20; ++answer) {
    // A freshly compiled grammar has no masks from earlier answers.
    auto fresh = grammar::compile_schema(*schema, name, {.closed_objects = true});
    masks = grammar::TokenMasks::make(std::move(fresh).value(), vocabulary).value();
    grammar::Matcher matcher(masks);
    for (int step = 0; step < 60 && !matcher.must_end(); ++step) {
      begin = Clock::now();
      matcher.allowed_tokens(mask);
      first.push_back(microseconds(begin));
      begin = Clock::now();
      matcher.allowed_tokens(mask);
      again.push_back(microseconds(begin));
      std::vector<text::TokenId> allowed;
      for (text::TokenId id = 0; id < vocabulary->size(); ++id) {
        const auto bit = static_cast<size_t>(id);
        if (mask[bit / 64] >> (bit % 64) & 1) allowed.push_back(id);
      }
      matcher.advance(allowed[random() % allowed.size()]);
    }
  }
  print("first", first);
  print("again", again);
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    auto tokenizer = text::Tokenizer::load(argv[i]);
    if (!tokenizer.ok()) {
      std::fprintf(stderr, "%s\n", tokenizer.error().message.c_str());
      return 1;
    }
    std::vector<text::TokenId> stops;
    if (const auto eos = tokenizer->eos_id()) stops.push_back(*eos);
    const auto begin = Clock::now();
    const auto vocabulary = std::make_shared<const grammar::TokenVocabulary>(
        *tokenizer, stops, tokenizer->vocab_size());
    std::printf("%s: %lld tokens, read in %.0f ms\n", argv[i],
                static_cast<long long>(vocabulary->size()), microseconds(begin) / 1000);
    for (const auto& [name, schema] : kSchemas) run(vocabulary, name, schema);
  }
  return 0;
}
