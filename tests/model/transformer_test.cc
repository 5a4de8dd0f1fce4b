// This test compares the transformer on every backend with a naive one, and checks batches, splits
// of a sequence and observers.

#include "model/transformer.h"

#include <algorithm>
#include <atomic>
#include <new>
#include <random>

#include <gtest/gtest.h>

#include "base/parallel.h"
#include "base/workers_lost.h"
#include "model/backends.h"
#include "model/naive_transformer.h"
#include "model/tiny_model.h"
#include "ops/forwarding_backend.h"

namespace neuronmm::model {
namespace {

// The longest sums of a tiny model have 24 terms of less than 10 each, and two layers chain about
// ten such sums. Rounding in fp32 adds an error of 2^-24 of the size of each term.
constexpr double kFp32Tolerance = 24 * 10 * 10 * 0x1p-24;

class TransformerTest : public OnBackend {};
NMM_ON_ALL_BACKENDS(TransformerTest);

void expect_near(const Matrix& found, const Matrix& expected, double tolerance) {
  ASSERT_EQ(found.rows(), expected.rows());
  ASSERT_EQ(found.columns(), expected.columns());
  for (int64_t i = 0; i < found.rows(); ++i) {
    for (int64_t j = 0; j < found.columns(); ++j)
      ASSERT_NEAR(found.row(i)[j], expected.row(i)[j], tolerance) << "row " << i << " token " << j;
  }
}

void expect_naive_logits(const io::ModelConfig& config, const ops::Backend& backend) {
  const TestTensors tensors = random_tensors(config, 7);
  const auto transformer = load_tiny(config, tensors, backend);
  ASSERT_TRUE(transformer.ok()) << transformer.error().message;
  const std::vector<TokenId> tokens = random_tokens(11, config.vocab_size, 8);
  const Matrix logits = all_logits(*transformer, tokens);
  const auto expected = naive_logits(config, tensors, tokens);
  for (size_t i = 0; i < expected.size(); ++i) {
    for (size_t j = 0; j < expected[i].size(); ++j)
      ASSERT_NEAR(logits.row(static_cast<int64_t>(i))[j], expected[i][j], kFp32Tolerance)
          << "row " << i << " token " << j;
  }
}

TEST_P(TransformerTest, MatchesTheNaiveTransformerInEveryArchitecture) {
  for (io::Architecture architecture : {io::Architecture::kLlama, io::Architecture::kMistral,
                                        io::Architecture::kQwen2, io::Architecture::kQwen3}) {
    for (bool tied : {false, true}) {
      SCOPED_TRACE(fmt::format("{}, tied {}", io::architecture_name(architecture), tied));
      io::ModelConfig config = tiny_config(architecture);
      config.tie_word_embeddings = tied;
      expect_naive_logits(config, *backend);
    }
  }
}

TEST_P(TransformerTest, RunsMlpsOfEveryForm) {
  const std::pair<const char*, std::vector<io::MlpShape>> forms[] = {
      {"pivoted", {{5, 9, 7}, {1, 15, 15}}},
      {"narrow", {{0, 0, 7, 9}, {0, 0, 15, 1}}},
      {"neurons", {{0, 0, 0, 0, 3}, {0, 0, 0, 0, 24}}},
      {"mixed", {{0, 0, 7, 9, 20}, {4, 0, 0, 0, 11}}}};
  for (const auto& [form, shapes] : forms) {
    SCOPED_TRACE(form);
    io::ModelConfig config = tiny_config(io::Architecture::kLlama);
    config.compression = tiny_record(form, shapes);
    expect_naive_logits(config, *backend);
  }
}

TEST_P(TransformerTest, AddsTheBiasOfEveryAttentionProjection) {
  io::ModelConfig config = tiny_config(io::Architecture::kLlama);
  config.attention_bias = config.attention_output_bias = true;
  expect_naive_logits(config, *backend);
}

TEST_P(TransformerTest, RotatesWithLongRopeFrequenciesAndAttentionFactor) {
  expect_naive_logits(tiny_longrope_config(), *backend);
}

TEST_P(TransformerTest, PrefillAndDecodeAgreeHoweverTheSequenceIsSplit) {
  const io::ModelConfig config = tiny_config(io::Architecture::kMistral);  // it has a window, too
  const auto transformer = load_tiny(config, random_tensors(config, 1), *backend);
  ASSERT_TRUE(transformer.ok()) << transformer.error().message;
  const std::vector<TokenId> tokens = random_tokens(9, config.vocab_size, 2);
  const Matrix whole = all_logits(*transformer, tokens);
  const std::span<const TokenId> all(tokens);
  for (size_t split = 1; split < tokens.size(); ++split) {
    SCOPED_TRACE(split);
    const auto cache = transformer->make_cache(9);
    Matrix together(9, config.vocab_size);
    const auto run = [&](size_t first, size_t count) {
      const Matrix part =
          transformer->forward(all.subspan(first, count), *cache, Transformer::Logits::kAll);
      std::copy_n(part.data(), part.rows() * part.columns(),
                  together.row(static_cast<int64_t>(first)));
    };
    run(0, split);
    for (size_t i = split; i < tokens.size(); ++i) run(i, 1);
    EXPECT_EQ(cache->length(), 9);
    expect_near(together, whole, kFp32Tolerance);

    cache->set_length(static_cast<int64_t>(split));  // forgets tokens and appends the rest at once
    run(split, tokens.size() - split);
    expect_near(together, whole, kFp32Tolerance);
  }
}

TEST_P(TransformerTest, LastLogitsAreTheLastRowOfAll) {
  const io::ModelConfig config = tiny_config(io::Architecture::kLlama);
  const auto transformer = load_tiny(config, random_tensors(config, 3), *backend);
  ASSERT_TRUE(transformer.ok()) << transformer.error().message;
  const std::vector<TokenId> tokens = random_tokens(6, config.vocab_size, 4);
  const auto cache = transformer->make_cache(6);
  const Matrix last = transformer->forward(tokens, *cache, Transformer::Logits::kLast);
  ASSERT_EQ(last.rows(), 1);
  const Matrix all = all_logits(*transformer, tokens);
  for (int64_t j = 0; j < config.vocab_size; ++j)
    EXPECT_NEAR(last.row(0)[j], all.row(5)[j], kFp32Tolerance);
}

// Sequences with and without a past, in prefill and in decoding, share one forward pass.
TEST_P(TransformerTest, ASequencesLogitsDoNotDependOnItsBatch) {
  const io::ModelConfig config = tiny_config(io::Architecture::kMistral);
  const auto transformer = load_tiny(config, random_tensors(config, 21), *backend);
  ASSERT_TRUE(transformer.ok()) << transformer.error().message;
  struct Case {
    size_t past, fresh;
  };
  const std::vector<Case> cases = {{3, 1}, {0, 6}, {8, 1}, {2, 4}};
  std::vector<std::vector<TokenId>> tokens;
  std::vector<std::unique_ptr<ops::KvCache>> caches;
  std::vector<SequenceTokens> batch;
  for (const auto& [past, fresh] : cases) {
    const auto count = static_cast<int64_t>(past + fresh);
    tokens.push_back(random_tokens(count, config.vocab_size, 30 + tokens.size()));
    caches.push_back(transformer->make_cache(count));
    if (past > 0) {
      const Matrix none = transformer->forward(std::span(tokens.back()).first(past), *caches.back(),
                                               Transformer::Logits::kNone);
      EXPECT_EQ(none.rows(), 0);
    }
  }
  const auto run = [&](std::vector<Logits> wanted) {
    batch.clear();
    for (size_t i = 0; i < cases.size(); ++i) {
      caches[i]->set_length(static_cast<int64_t>(cases[i].past));
      batch.push_back({std::span(tokens[i]).subspan(cases[i].past), caches[i].get(), wanted[i]});
    }
    return transformer->forward(batch);
  };
  const Matrix all = run(std::vector(4, Logits::kAll));
  const Matrix last = run(std::vector(4, Logits::kLast));
  const Matrix some = run({Logits::kNone, Logits::kLast, Logits::kNone, Logits::kAll});
  ASSERT_EQ(some.rows(), 5);
  for (int64_t id = 0; id < config.vocab_size; ++id) {
    EXPECT_EQ(some.row(0)[id], last.row(1)[id]);
    for (int64_t row = 0; row < 4; ++row) EXPECT_EQ(some.row(1 + row)[id], all.row(8 + row)[id]);
  }
  EXPECT_EQ(run(std::vector(4, Logits::kNone)).rows(), 0);
  ASSERT_EQ(all.rows(), 12);
  ASSERT_EQ(last.rows(), 4);
  int64_t row = 0;
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(i);
    const Matrix alone = all_logits(*transformer, tokens[i]);
    EXPECT_EQ(caches[i]->length(), alone.rows());
    for (auto j = static_cast<int64_t>(cases[i].past); j < alone.rows(); ++j, ++row) {
      for (int64_t id = 0; id < config.vocab_size; ++id)
        ASSERT_NEAR(all.row(row)[id], alone.row(j)[id], kFp32Tolerance);
    }
    for (int64_t id = 0; id < config.vocab_size; ++id)
      ASSERT_NEAR(last.row(static_cast<int64_t>(i))[id], all.row(row - 1)[id], kFp32Tolerance);
  }
}

// Replaces `mlp.X_proj.weight` by factors whose product equals it exactly. Their values are small
// multiples of 1/8, so that sums of `rank` products are exact in fp32.
void factorize(TestTensors& dense, TestTensors& low_rank, const std::string& matrix, int64_t rank,
               std::mt19937_64& random) {
  TestTensor& w_t = dense.at(matrix + "_proj.weight");
  const int64_t out = w_t.shape[0], in = w_t.shape[1];
  const auto grid = [&](int64_t count) {
    std::vector<float> values;
    for (int64_t i = 0; i < count; ++i)
      values.push_back((static_cast<float>(random() % 9) - 4.0f) / 8.0f);
    return values;
  };
  const std::vector<float> u_t = grid(rank * in), v_t = grid(out * rank);
  for (int64_t n = 0; n < out; ++n) {
    for (int64_t k = 0; k < in; ++k) {
      float sum = 0.0f;
      for (int64_t r = 0; r < rank; ++r)
        sum += v_t[static_cast<size_t>(n * rank + r)] * u_t[static_cast<size_t>(r * in + k)];
      w_t.values[static_cast<size_t>(n * in + k)] = sum;
    }
  }
  low_rank.erase(matrix + "_proj.weight");
  low_rank[matrix + "_v_proj.weight"] = {DType::kF32, {rank, in}, u_t};
  low_rank[matrix + "_u_proj.weight"] = {DType::kBF16, {out, rank}, v_t};
}

TEST_P(TransformerTest, ExactFactorsGiveTheLogitsOfTheDenseModel) {
  const io::ModelConfig config = tiny_config(io::Architecture::kLlama);
  std::mt19937_64 random(5);
  TestTensors dense = random_tensors(config, 5), low_rank = dense;
  // The layers mix dense and low-rank matrices with different ranks, and factors have other dtypes
  // than the rest.
  factorize(dense, low_rank, "model.layers.0.mlp.gate", 5, random);
  factorize(dense, low_rank, "model.layers.0.mlp.up", 3, random);
  factorize(dense, low_rank, "model.layers.0.mlp.down", 7, random);
  factorize(dense, low_rank, "model.layers.1.mlp.down", 1, random);
  const auto twin = load_tiny(config, dense, *backend);
  const auto compressed = load_tiny(config, low_rank, *backend);
  ASSERT_TRUE(twin.ok()) << twin.error().message;
  ASSERT_TRUE(compressed.ok()) << compressed.error().message;
  const std::vector<TokenId> tokens = random_tokens(10, config.vocab_size, 6);
  expect_near(all_logits(*compressed, tokens), all_logits(*twin, tokens), kFp32Tolerance);
}

TEST_P(TransformerTest, ObserverSeesInputAndOutputOfEveryMlp) {
  struct Recorder : MlpObserver {
    void on_mlp(int64_t layer, ConstMatrixView input, ConstMatrixView output) override {
      layers.push_back(layer);
      rows = input.rows;
      columns = output.columns;
    }
    std::vector<int64_t> layers;
    int64_t rows = 0, columns = 0;
  } recorder;
  const io::ModelConfig config = tiny_config(io::Architecture::kLlama);
  const auto transformer = load_tiny(config, random_tensors(config, 9), *backend);
  ASSERT_TRUE(transformer.ok()) << transformer.error().message;
  const auto cache = transformer->make_cache(4);
  (void)transformer->forward(random_tokens(4, config.vocab_size, 1), *cache,
                             Transformer::Logits::kLast, &recorder);
  EXPECT_EQ(recorder.layers, (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(recorder.rows, 4);
  EXPECT_EQ(recorder.columns, config.hidden_size);
}

TEST_P(TransformerTest, LoadsAFolderWithAndWithoutTheModelPrefix) {
  const io::ModelConfig config = tiny_config(io::Architecture::kQwen3);
  const TestTensors tensors = random_tensors(config, 10);
  TestTensors bare;
  for (const auto& [name, tensor] : tensors)
    bare[name.starts_with("model.") ? name.substr(6) : name] = tensor;
  const std::vector<TokenId> tokens = random_tokens(5, config.vocab_size, 11);
  std::vector<Matrix> logits;
  for (const TestTensors* form : std::vector<const TestTensors*>{&tensors, &bare}) {
    const ModelFolder folder;
    folder.write_text("config.json", config_json(config));
    folder.write_tensors(*form);
    const auto transformer = Transformer::load(folder.path(), *backend);
    ASSERT_TRUE(transformer.ok()) << transformer.error().message;
    logits.push_back(all_logits(*transformer, tokens));
  }
  expect_near(logits[1], logits[0], 0.0);
}

// Counts what it is told of the one model that is open on it.
class WatchingHost : public ops::ForwardingBackend, public ModelHost {
 public:
  WatchingHost() : ForwardingBackend(cpu::make_backend()) {}
  Result<std::unique_ptr<HostedModel>> open_model(const std::filesystem::path& folder,
                                                  const io::ModelConfig&) const override {
    folder_ = folder;
    return {std::make_unique<Watched>(*this)};
  }

  mutable std::filesystem::path folder_;
  mutable int64_t opened_ = 0, tokens_ = 0, layers_made_ = 0, copies_ = 0;
  Status refusal_;

 private:
  class Watched : public HostedModel {
   public:
    explicit Watched(const WatchingHost& host) : host_(host), layers_(host) {}
    const ops::Backend& backend() const override { return layers_; }
    Status opened(const Status& here) override {
      ++host_.opened_;
      return here.ok() ? host_.refusal_ : here;
    }
    void run_pass(std::span<const SequenceTokens> batch,
                  const std::function<void()>& compute) override {
      for (const SequenceTokens& sequence : batch) host_.tokens_ += std::ssize(sequence.tokens);
      compute();
    }
    void block_copied(const ops::KvBlock&, const ops::KvBlock&) override { ++host_.copies_; }

   private:
    class Layers : public ops::ForwardingBackend {
     public:
      explicit Layers(const WatchingHost& host) : ForwardingBackend(host.inner()), host_(host) {}
      std::unique_ptr<ops::Attention> make_attention(
          const ops::AttentionWeight& weight) const override {
        ++host_.layers_made_;
        return ForwardingBackend::make_attention(weight);
      }

     private:
      const WatchingHost& host_;
    };

    const WatchingHost& host_;
    Layers layers_;
  };
};

TEST(ModelHost, MakesTheLayersAndSeesEveryPassAndCopy) {
  const io::ModelConfig config = tiny_config(io::Architecture::kLlama);
  const TestTensors tensors = random_tensors(config, 4);
  const WatchingHost host;
  const auto cpu = cpu::make_backend();
  const auto hosted = load_tiny(config, tensors, host), plain = load_tiny(config, tensors, *cpu);
  ASSERT_TRUE(hosted.ok() && plain.ok());
  EXPECT_EQ(host.folder_, hosted->checkpoint().folder());
  EXPECT_EQ(host.opened_, 1);
  EXPECT_EQ(host.layers_made_, config.num_hidden_layers);
  EXPECT_EQ(&hosted->backend(), &host);
  const auto cache = hosted->make_cache(20), other = hosted->make_cache(20);
  const auto plain_cache = plain->make_cache(20);
  const std::vector<TokenId> tokens = {1, 2, 3};
  expect_near(hosted->forward(tokens, *cache, Logits::kAll),
              plain->forward(tokens, *plain_cache, Logits::kAll), 0.0);
  EXPECT_EQ(host.tokens_, 3);
  other->grow(1);
  hosted->copy_block(*cache, *other, 0);
  EXPECT_EQ(host.copies_, 1);
}

TEST(ModelHost, MayRefuseAModelWhoseLayersAreMade) {
  const io::ModelConfig config = tiny_config(io::Architecture::kLlama);
  WatchingHost host;
  host.refusal_ = fail("another process has no memory left");
  const auto refused = load_tiny(config, random_tensors(config, 4), host);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message, "another process has no memory left");
}

TEST(CheckTokenIds, NamesTheFirstIdOutsideTheVocabulary) {
  const io::ModelConfig config = tiny_config(io::Architecture::kLlama);
  EXPECT_TRUE(check_token_ids(std::vector<TokenId>{0, 18}, config).ok());
  const Status above = check_token_ids(std::vector<TokenId>{3, 19, -1}, config);
  ASSERT_FALSE(above.ok());
  EXPECT_NE(above.error().message.find("19 at position 1"), std::string::npos)
      << above.error().message;
  EXPECT_FALSE(check_token_ids(std::vector<TokenId>{-1}, config).ok());
}

TEST(Embed, WidensTheRowsOfTheTable) {
  std::vector<std::byte> bytes;
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  append_rounded(DType::kBF16, values.data(), 6, bytes);
  const TensorView table = {DType::kBF16, {3, 2}, bytes.data()};
  Matrix out(2, 2);
  embed(table, std::vector<TokenId>{2, 0}, 1.0, out.view());
  EXPECT_EQ(std::vector<float>(out.data(), out.data() + 4), (std::vector<float>{5, 6, 1, 2}));
  embed(table, std::vector<TokenId>{2, 0}, 2.5, out.view());
  EXPECT_EQ(std::vector<float>(out.data(), out.data() + 4),
            (std::vector<float>{12.5f, 15.0f, 2.5f, 5.0f}));
}

}  // namespace
}  // namespace neuronmm::model
