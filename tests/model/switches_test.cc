// This test turns each switch of io::ModelConfig once on a tiny random model, and compares the
// transformer on every backend with the naive one. A switch that changes no logit fails the test.

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "model/backends.h"
#include "model/naive_transformer.h"
#include "model/tiny_model.h"
#include "model/transformer.h"

namespace neuronmm::model {
namespace {

using Turn = std::function<void(io::ModelConfig&)>;
using DoubleRows = std::vector<std::vector<double>>;

constexpr int64_t kTokens = 13;
// The tokens of the original context of longrope.
constexpr int64_t kOriginal = 7;

// Sums of a tiny model have up to 24 terms, and three layers chain about fifteen of them. Rounding
// in fp32 adds an error of 2^-24 of the size of each term, which is below 20.
constexpr double kTolerance = 24 * 15 * 20 * 0x1p-24;
// A switch that is turned changes some logit by at least this.
constexpr double kChange = 0.02;

struct Switch {
  std::string name;
  Turn turn;
  Turn before = [](io::ModelConfig&) {};  // what both models have
};

void turn_longrope(io::ModelConfig& config) {
  config.ropes = {{.scaling = io::LongRopeScaling{.short_factor = {1.0, 1.5, 4.0},
                                                  .long_factor = {2.0, 7.0, 30.0},
                                                  .original_max_position_embeddings = kOriginal,
                                                  .attention_factor = 1.25}}};
}

// Five experts of another width than a layer's MLP. An odd number finds errors in strides.
void turn_experts(io::ModelConfig& config) {
  config.experts = io::Experts{.count = 5, .active = 2, .width = 11};
}

std::vector<Switch> switches() {
  using Config = io::ModelConfig;
  const auto per_head = [](Config& c) { c.qk_norm = io::QkNorm::kPerHead; };
  return {
      {"embedding_scale", [](Config& c) { c.embedding_scale = 3.5; }},
      {"residual_scale", [](Config& c) { c.residual_scale = 0.3; }},
      {"logit_divisor", [](Config& c) { c.logit_divisor = 2.5; }},
      {"score_scale", [](Config& c) { c.score_scale = 0.9; }},
      {"score_cap", [](Config& c) { c.score_cap = 1.5; }},
      {"score_cap and score_scale",
       [](Config& c) {
         c.score_cap = 2.0;
         c.score_scale = 0.7;
       }},
      {"logit_cap", [](Config& c) { c.logit_cap = 2.0; }},
      {"gain_offset", [](Config& c) { c.gain_offset = 1.0; }},
      {"norms of outputs", [](Config& c) { c.output_norms = true; }},
      {"norms of outputs only",
       [](Config& c) {
         c.output_norms = true;
         c.input_norms = false;
       }},
      {"norms of outputs and residual_scale", [](Config& c) { c.residual_scale = 0.4; },
       [](Config& c) { c.output_norms = true; }},
      {"gelu", [](Config& c) { c.activation = Activation::kGeluTanh; }},
      {"mlp_bias", [](Config& c) { c.mlp_bias = true; }},
      {"attention_bias", [](Config& c) { c.attention_bias = true; }},
      {"attention_output_bias", [](Config& c) { c.attention_output_bias = true; }},
      {"q/k norm per head", per_head},
      {"q/k norm after RoPE", [](Config& c) { c.qk_norm_after_rope = true; }, per_head},
      {"q/k norm of the whole width", [](Config& c) { c.qk_norm = io::QkNorm::kWholeWidth; }},
      {"query_temperature",
       [](Config& c) {
         c.query_temperature = {0.8, 4};
       }},
      {"rotary_width", [](Config& c) { c.ropes[0].rotary_width = 4; }},
      {"a window in all layers", [](Config& c) { c.fill_layers({.window = 4}); }},
      {"a window in one layer",
       [](Config& c) {
         c.layers = {{.window = 4}, {}, {}};
       }},
      {"no RoPE in one layer",
       [](Config& c) {
         c.layers = {{}, {.rope = io::kNoRope}, {}};
       }},
      {"no RoPE at all",
       [](Config& c) {
         c.fill_layers({.rope = io::kNoRope});
         c.ropes.clear();
       }},
      {"two tables of RoPE",
       [](Config& c) {
         c.ropes = {{.theta = 500.0, .scaling = io::LinearRopeScaling{8.0}},
                    {.theta = 100.0, .scaling = {}}};
         c.layers = {{.window = 5, .rope = 1}, {.rope = 0}, {.window = 5, .rope = 1}};
       }},
      {"experts", turn_experts},
      {"experts, not divided",
       [](Config& c) {
         turn_experts(c);
         c.experts->divided = false;
       }},
      {"experts with biases",
       [](Config& c) {
         turn_experts(c);
         c.experts->router_bias = c.mlp_bias = true;
       }},
      {"clamped SwiGLU in experts",
       [](Config& c) {
         c.activation = Activation::kClampedSwiglu;
         c.swiglu_clamp = {.limit = 0.5f, .alpha = 1.3f};
       },
       turn_experts},
      {"experts in two of three layers",
       [](Config& c) {
         turn_experts(c);
         c.experts->dense = {false, true, false};
       }},
      {"attention_sinks", [](Config& c) { c.attention_sinks = true; }},
      {"sinks behind a window",
       [](Config& c) {
         c.attention_sinks = true;
         c.fill_layers({.window = 4});
       }},
      {"qkv_clamp", [](Config& c) { c.qkv_clamp = 0.6; }},
      {"qkv_clamp behind norms", [](Config& c) { c.qkv_clamp = 0.6; },
       [](Config& c) { c.qk_norm = io::QkNorm::kWholeWidth; }},
      {"longrope", turn_longrope},
      {"all together",
       [&](Config& c) {
         c.embedding_scale = 4.0;
         c.residual_scale = 0.5;
         c.logit_divisor = 0.5;
         c.score_scale = 0.6;
         c.score_cap = 3.0;
         c.logit_cap = 5.0;
         c.gain_offset = 1.0;
         c.output_norms = c.mlp_bias = c.attention_bias = c.attention_output_bias = true;
         c.activation = Activation::kGeluTanh;
         c.qk_norm = io::QkNorm::kPerHead;
         c.query_temperature = {0.3, 5};
         turn_longrope(c);
         c.ropes.push_back({.theta = 100.0, .scaling = {}, .rotary_width = 2});
         c.layers = {{.window = 5, .rope = 1}, {.rope = 0}, {.rope = io::kNoRope}};
       }},
  };
}

io::ModelConfig base_config() {
  io::ModelConfig config = tiny_config(io::Architecture::kLlama);
  config.num_hidden_layers = 3;
  config.fill_layers({});
  return config;
}

// A model with the switch turned and one without. Tensors that both have are the same.
struct Pair {
  explicit Pair(const Switch& of) : turned(base_config()), plain(base_config()) {
    of.before(plain);
    of.before(turned);
    of.turn(turned);
    of_turned = random_tensors(turned, 3);
    of_plain = random_tensors(plain, 3);
    for (auto& [name, tensor] : of_plain) {
      const auto same = of_turned.find(name);
      if (same != of_turned.end() && same->second.shape == tensor.shape) tensor = same->second;
    }
  }

  io::ModelConfig turned, plain;
  TestTensors of_turned, of_plain;
};

void expect_near(const Matrix& found, const DoubleRows& expected, double tolerance) {
  ASSERT_EQ(found.rows(), std::ssize(expected));
  for (int64_t i = 0; i < found.rows(); ++i) {
    for (int64_t j = 0; j < found.columns(); ++j) {
      ASSERT_NEAR(found.row(i)[j], expected[static_cast<size_t>(i)][static_cast<size_t>(j)],
                  tolerance)
          << "row " << i << " token " << j;
    }
  }
}

class SwitchesTest : public OnBackend {
 protected:
  Transformer load(const io::ModelConfig& config, const TestTensors& tensors) const {
    auto loaded = load_tiny(config, tensors, *backend);
    NMM_CHECK(loaded.ok());
    return std::move(loaded).value();
  }
};
NMM_ON_ALL_BACKENDS(SwitchesTest);

TEST_P(SwitchesTest, EachChangesTheLogitsAsTheNaiveTransformerSays) {
  const std::vector<TokenId> tokens = random_tokens(kTokens, 19, 8);
  for (const Switch& of : switches()) {
    SCOPED_TRACE(of.name);
    const Pair pair(of);
    const DoubleRows expected = naive_logits(pair.turned, pair.of_turned, tokens);
    const DoubleRows without = naive_logits(pair.plain, pair.of_plain, tokens);
    double change = 0.0;
    for (size_t i = 0; i < expected.size(); ++i) {
      for (size_t j = 0; j < expected[i].size(); ++j) {
        change = std::max(change, std::abs(expected[i][j] - without[i][j]));
      }
    }
    EXPECT_GT(change, kChange);
    expect_near(all_logits(load(pair.turned, pair.of_turned), tokens), expected, kTolerance);
    // A text of few tokens, which no window and no original context cuts.
    const std::vector<TokenId> few(tokens.begin(), tokens.begin() + 3);
    expect_near(all_logits(load(pair.turned, pair.of_turned), few),
                naive_logits(pair.turned, pair.of_turned, few), kTolerance);
  }
}

// Three sequences are cut at different places, and each part shares a pass with parts of others.
TEST_P(SwitchesTest, ATokensLogitsDependNeitherOnCutsNorOnItsBatch) {
  const std::vector<std::vector<size_t>> parts = {{5, 1, 1, 6}, {1, 11, 1, 0}, {4, 2, 4, 3}};
  for (const Switch& of : switches()) {
    if (of.name == "longrope" || of.name == "all together") continue;  // see the next test
    SCOPED_TRACE(of.name);
    const Pair pair(of);
    const Transformer model = load(pair.turned, pair.of_turned);
    std::vector<std::vector<TokenId>> texts;
    std::vector<std::unique_ptr<ops::KvCache>> caches;
    std::vector<Matrix> whole;
    for (size_t s = 0; s < parts.size(); ++s) {
      texts.push_back(random_tokens(kTokens, 19, 30 + s));
      caches.push_back(model.make_cache(kTokens, DType::kF32));
      whole.push_back(all_logits(model, texts.back()));
    }
    std::vector<size_t> done(parts.size());
    for (size_t step = 0; step < parts[0].size(); ++step) {
      std::vector<SequenceTokens> batch;
      std::vector<std::pair<size_t, size_t>> rows;
      for (size_t s = 0; s < parts.size(); ++s) {
        const size_t count = parts[s][step];
        if (count == 0) continue;
        batch.push_back(
            {std::span(texts[s]).subspan(done[s], count), caches[s].get(), Logits::kAll});
        for (size_t i = 0; i < count; ++i) rows.emplace_back(s, done[s] + i);
        done[s] += count;
      }
      const Matrix logits = model.forward(batch);
      for (size_t i = 0; i < rows.size(); ++i) {
        const auto [s, row] = rows[i];
        for (int64_t j = 0; j < logits.columns(); ++j) {
          ASSERT_EQ(logits.row(static_cast<int64_t>(i))[j],
                    whole[s].row(static_cast<int64_t>(row))[j])
              << "text " << s << " row " << row;
        }
      }
    }
  }
}

// The last logits are those of one pass over the text, whichever table the keys turned by before.
// Another sequence that stays short is in the same batch.
TEST_P(SwitchesTest, ASequenceThatOutgrowsItsTableIsComputedAnew) {
  for (const char* const name : {"longrope", "all together"}) {
    const std::vector<Switch> all = switches();
    const Pair pair(*std::ranges::find(all, name, &Switch::name));
    const Transformer model = load(pair.turned, pair.of_turned);
    const std::vector<TokenId> text = random_tokens(kTokens, 19, 5), other = {4, 2, 9};
    const auto cache = model.make_cache(kTokens, DType::kF32);
    for (int64_t length = 2; length <= kTokens; ++length) {
      const auto short_cache = model.make_cache(3, DType::kF32);
      const SequenceTokens batch[] = {
          {std::span(text).subspan(static_cast<size_t>(cache->length()),
                                   static_cast<size_t>(length - cache->length())),
           cache.get(), Logits::kLast},
          {other, short_cache.get(), Logits::kLast}};
      const Matrix logits = model.forward(batch);
      EXPECT_EQ(cache->long_rope(), length > kOriginal);
      EXPECT_FALSE(short_cache->long_rope());
      const auto expected = [&](std::span<const TokenId> tokens) {
        return naive_logits(pair.turned, pair.of_turned, {tokens.begin(), tokens.end()}).back();
      };
      const DoubleRows both = {expected(std::span(text).first(static_cast<size_t>(length))),
                               expected(other)};
      expect_near(logits, both, kTolerance);
    }
    // Forgetting tokens leads back to the table for short texts.
    cache->set_length(3);
    const Matrix again = model.forward(std::span(text).subspan(3, 2), *cache, Logits::kLast);
    expect_near(
        again, {naive_logits(pair.turned, pair.of_turned, {text.begin(), text.begin() + 5}).back()},
        kTolerance);
  }
}

// A sequence that is known to become long turns by the table for long texts from its first pass on.
TEST_P(SwitchesTest, AnExpectedLengthChoosesTheTable) {
  const std::vector<Switch> all = switches();
  const Pair pair(*std::ranges::find(all, "longrope", &Switch::name));
  const Transformer model = load(pair.turned, pair.of_turned);
  const std::vector<TokenId> text = random_tokens(kTokens, 19, 6);
  const auto cache = model.make_cache(kTokens, DType::kF32);
  cache->set_expected_tokens(kTokens);
  const DoubleRows expected = naive_logits(pair.turned, pair.of_turned, text);
  for (int64_t i = 0; i < kTokens; ++i) {
    const Matrix logits =
        model.forward(std::span(text).subspan(static_cast<size_t>(i), 1), *cache, Logits::kLast);
    expect_near(logits, {expected[static_cast<size_t>(i)]}, kTolerance);
  }
}

TEST_P(SwitchesTest, BiasesOfTheMlpAreAddedInEveryForm) {
  const std::vector<std::pair<const char*, std::vector<io::MlpShape>>> forms = {
      {"uv", {{5, 9, 7}, {1, 15, 0}, {0, 3, 15}}},
      {"pivoted", {{5, 9, 7}, {1, 15, 15}, {0, 3, 2}}},
      {"narrow", {{0, 0, 7, 9}, {0, 0, 15, 1}, {0, 0, 0, 4}}},
      {"neurons", {{0, 0, 0, 0, 3}, {0, 0, 0, 0, 24}, {0, 0, 0, 0, 7}}}};
  const std::vector<TokenId> tokens = random_tokens(kTokens, 19, 8);
  for (const auto& [form, shapes] : forms) {
    SCOPED_TRACE(form);
    io::ModelConfig config = base_config();
    config.mlp_bias = true;
    config.activation = Activation::kGeluTanh;
    config.compression = tiny_record(form, shapes);
    const TestTensors tensors = random_tensors(config, 4);
    expect_near(all_logits(load(config, tensors), tokens), naive_logits(config, tensors, tokens),
                kTolerance);
  }
}

// The shares of the vocabulary and the log sums of rows see capped logits.
TEST_P(SwitchesTest, PartlyWantedLogitsAreCapped) {
  const std::vector<Switch> all = switches();
  const Pair pair(*std::ranges::find(all, "logit_cap", &Switch::name));
  const Transformer model = load(pair.turned, pair.of_turned);
  const std::vector<TokenId> text = random_tokens(5, 19, 6);
  const auto cache = model.make_cache(5, DType::kF32);
  ops::WantedLogits wanted = {.all = false, .num_best = 2, .log_sum = true};
  const SequenceTokens sequence = {text, cache.get(), Logits::kLast, {wanted}};
  const Predictions predictions = model.predict(std::span(&sequence, 1));
  const DoubleRows expected = {naive_logits(pair.turned, pair.of_turned, text).back()};
  expect_near(predictions.logits, expected, kTolerance);
  EXPECT_FALSE(predictions.log_sum(0).has_value()) << "the row is complete";
}

}  // namespace
}  // namespace neuronmm::model
