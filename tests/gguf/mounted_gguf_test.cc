// Tests GGUF files that are opened as model folders, against the folders that `import` makes of
// them and against the values that the tests wrote.

#include "gguf/mounted_gguf.h"

#include <gtest/gtest.h>

#include "base/float16.h"
#include "cpu/backend.h"
#include "cpu/kernels.h"
#include "gguf/block_format.h"
#include "gguf/import.h"
#include "gguf/packed_formats.h"
#include "gguf/small_gguf.h"
#include "io/checkpoint.h"
#include "io/generation_config.h"
#include "io/io_test.h"
#include "io/model_config.h"
#include "io/model_files.h"
#include "io/model_folder.h"
#include "io/text_file.h"
#include "model/transformer.h"
#include "ops/quantize.h"
#include "ops/reference.h"
#include "text/tokenizer/tokenizer.h"

namespace neuronmm::gguf {
namespace {

namespace fs = std::filesystem;
using io::fails_with;

// Adds a SentencePiece vocabulary of the five tokens that the small models have.
void add_small_vocabulary(GgufBuilder& builder) {
  builder.text("tokenizer.ggml.model", "llama");
  builder.texts("tokenizer.ggml.tokens", {"<unk>", "<s>", "</s>", "a", "b"});
  builder.numbers<float>("tokenizer.ggml.scores", 6, {0, 0, 0, -1, -2});
  builder.numbers<int32_t>("tokenizer.ggml.token_type", 5, {2, 3, 3, 1, 1});
  builder.text("tokenizer.chat_template", "{{ messages[0]['content'] }}");
}

class MountedGguf : public testing::Test {
 protected:
  void SetUp() override { io::set_mount_opener(open_mounted); }
  void TearDown() override { io::set_mount_opener(nullptr); }

  fs::path write(const GgufBuilder& builder, const std::string& name = "m.gguf") const {
    io::put(root_ / name, builder.bytes());
    return root_ / name;
  }
  // Returns the logits of two tokens.
  static std::vector<float> logits_of(const fs::path& model, const ops::Backend& backend) {
    const auto transformer = model::Transformer::load(model, backend);
    EXPECT_TRUE(transformer.ok()) << transformer.error().message;
    if (!transformer.ok()) return {};
    const auto cache = transformer->make_cache(4, DType::kF32);
    const std::vector<model::TokenId> tokens = {3, 1};
    const Matrix logits = transformer->forward(tokens, *cache, model::Logits::kAll);
    return {logits.data(), logits.data() + logits.rows() * logits.columns()};
  }
  const io::TemporaryFolder root_;
};

TEST_F(MountedGguf, AFileIsReadAsTheFolderThatImportMakesOfIt) {
  for (const std::string architecture : {"llama", "qwen2", "qwen3"}) {
    SCOPED_TRACE(architecture);
    SmallModel model(architecture, architecture != "qwen3");
    add_small_vocabulary(model.builder);
    const fs::path file = write(model.builder), folder = root_ / "folder";
    Progress silent;
    ASSERT_TRUE(import_model(file, folder, DType::kF32, /*force=*/true, silent).ok());
    const auto mounted = io::Checkpoint::open(file);
    ASSERT_TRUE(mounted.ok()) << mounted.error().message;
    ASSERT_EQ(mounted->tensors().size(), model.expected.size());
    for (const auto& [name, values] : model.expected) {
      std::vector<float> found(values.size());
      to_floats(mounted->tensors().at(name), 0, std::ssize(found), found.data());
      EXPECT_EQ(found, values) << name;
    }
    const auto backend = ops::make_reference_backend();
    EXPECT_EQ(logits_of(file, *backend), logits_of(folder, *backend));
    for (const char* name :
         {"config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json"})
      EXPECT_EQ(*io::read_text_file(file / name, io::kMaxConfigBytes),
                *io::read_text_file(folder / name, io::kMaxConfigBytes))
          << name;
    EXPECT_EQ(text::Tokenizer::load(file)->encode("ab")->size(),
              text::Tokenizer::load(folder)->encode("ab")->size());
    EXPECT_FALSE(*io::is_there(file / "chat_template.jinja"));
    EXPECT_TRUE(fs::remove_all(folder) > 0);
  }
}

// Rows of q and k change places, and so do the elements of their biases.
TEST_F(MountedGguf, PartsOfPermutedRowsAreRead) {
  const SmallModel model;
  const auto mounted = io::Checkpoint::open(write(model.builder));
  ASSERT_TRUE(mounted.ok());
  const std::string name = "model.layers.0.self_attn.q_proj.weight";
  const std::vector<float>& expected = model.expected.at(name);
  for (int64_t first = 0; first + 3 <= std::ssize(expected); ++first) {
    std::vector<float> found(3);
    to_floats(mounted->tensors().at(name), first, 3, found.data());
    EXPECT_TRUE(std::equal(found.begin(), found.end(), expected.begin() + first)) << first;
  }
}

TEST_F(MountedGguf, AnyPartOfABlockIsRead) {
  std::string blocks;
  for (int i = 0; i < 2 * 34; ++i) blocks += static_cast<char>(37 * i);
  // Both scales are 1.
  for (const size_t at : {0, 34}) blocks.replace(at, 2, io::little_endian<uint16_t>(0x3C00));
  const BlockFormat format(*io::find_gguf_type(8), 0, {});
  const TensorView view = {
      DType::kForeign, {1, 64}, reinterpret_cast<const std::byte*>(blocks.data()), &format};
  EXPECT_EQ(view.size_bytes(), 68);
  EXPECT_EQ(type_name(view), "Q8_0");
  for (int64_t first = 0; first < 64; ++first) {
    for (int64_t count = 1; first + count <= 64; ++count) {
      std::vector<float> found(static_cast<size_t>(count));
      to_floats(view, first, count, found.data());
      for (int64_t i = 0; i < count; ++i) {
        const int64_t weight = first + i;
        const auto byte =
            static_cast<int8_t>(blocks[static_cast<size_t>(weight / 32 * 34 + 2 + weight % 32)]);
        ASSERT_EQ(found[static_cast<size_t>(i)], static_cast<float>(byte)) << first << " " << i;
      }
    }
  }
}

// Packing a foreign weight gives the layer that packing its rounded values gives, for sizes with
// and without incomplete panels and groups.
TEST_F(MountedGguf, BlocksArePackedInTheirNearestFormat) {
  const auto backend = cpu::make_backend(),
             exact = cpu::make_backend(cpu::best_kernels(), cpu::KeysAndValues::kAuto,
                                       cpu::ForeignWeights::kExact);
  EXPECT_TRUE(backend->rounds_foreign_weights());
  EXPECT_FALSE(exact->rounds_foreign_weights());
  std::mt19937 random(3);
  for (const LowBitFormat& packed :
       {LowBitFormat{.bits = 8}, LowBitFormat{.bits = 6}, LowBitFormat{.bits = 4, .group = 16},
        LowBitFormat{.bits = 16}, LowBitFormat{.bits = 32}}) {
    for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{5, 32}, {64, 160}, {33, 256}}) {
      SCOPED_TRACE(fmt::format("{} bits, {} x {}", packed.bits, rows, columns));
      std::string blocks;
      for (int64_t i = 0; i < rows * columns / 32; ++i) {
        blocks += io::little_endian(f16::from_float(0.01f).bits);
        for (int j = 0; j < 32; ++j) blocks += static_cast<char>(random());
      }
      const BlockFormat format(*io::find_gguf_type(8), 0, packed);
      const TensorView view = {DType::kForeign,
                               {rows, columns},
                               reinterpret_cast<const std::byte*>(blocks.data()),
                               &format};
      std::vector<std::byte> storage, as_bf16;
      const TensorView floats = without_foreign(view, DType::kF32, storage);
      const auto apply = [&, columns = columns, rows = rows](const ops::Backend& on,
                                                             const ops::WeightView& weight) {
        Matrix x(2, columns), y(2, rows);
        for (int64_t i = 0; i < 2 * columns; ++i) x.data()[i] = static_cast<float>(i % 7) - 3.0f;
        on.make_linear({.w_t = weight})->apply(x.view(), y.view());
        return std::vector<float>(y.data(), y.data() + 2 * rows);
      };
      const auto rounded =
          packed.bits < 16 ? ops::quantize(floats, packed) : ops::QuantizedWeight();
      const ops::WeightView expected =
          packed.bits == 32   ? ops::WeightView(floats)
          : packed.bits == 16 ? ops::WeightView(without_foreign(view, DType::kBF16, as_bf16))
                              : rounded.view();
      EXPECT_EQ(apply(*backend, view), apply(*backend, expected));
      EXPECT_EQ(apply(*exact, view), apply(*exact, floats));
    }
  }
}

TEST_F(MountedGguf, FilesOfASplitModelAreOneModel) {
  const SmallModel whole;
  // The first file has the metadata, and the second one has an LM head.
  GgufBuilder second;
  SmallModel first;
  const auto add = [](GgufBuilder& builder, uint16_t number) {
    builder.pair("split.no", 2, io::little_endian(number));
    builder.pair("split.count", 2, io::little_endian<uint16_t>(2));
  };
  add(first.builder, 0);
  add(second, 1);
  second.tensor("output.weight", {kHidden, kVocab}, std::vector<float>(kHidden * kVocab, 0.5f));
  io::put(root_ / "s-00001-of-00002.gguf", first.builder.bytes());
  EXPECT_TRUE(fails_with(io::Checkpoint::open(root_ / "s-00001-of-00002.gguf"),
                         {"s-00002-of-00002.gguf: part 2 of 2 is missing"}));
  io::put(root_ / "s-00002-of-00002.gguf", second.bytes());
  for (const char* part : {"s-00001-of-00002.gguf", "s-00002-of-00002.gguf"}) {
    const auto checkpoint = io::Checkpoint::open(root_ / part);
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
    EXPECT_EQ(checkpoint->tensors().size(), whole.expected.size() + 1);
    EXPECT_TRUE(checkpoint->has("lm_head.weight"));
  }
}

// Both tables stay apart for running, which reads rows of one and packs the other. Other commands
// compare them.
TEST_F(MountedGguf, TablesAreComparedOnlyWhereItPays) {
  SmallModel model;
  model.add_head(model.expected.at("model.embed_tokens.weight"));
  const fs::path file = write(model.builder);
  const auto to_run = io::open_model_to_run(file);
  ASSERT_TRUE(to_run.ok()) << to_run.error().message;
  EXPECT_TRUE(to_run->checkpoint.has("lm_head.weight"));
  const auto whole = io::open_model(file);
  ASSERT_TRUE(whole.ok()) << whole.error().message;
  EXPECT_FALSE(whole->checkpoint.has("lm_head.weight"));
  EXPECT_TRUE(whole->config.tie_word_embeddings);
}

TEST_F(MountedGguf, WhatIsMissingOrWrongIsNamedWhereItIsNeeded) {
  GgufBuilder vocabulary;
  add_small_vocabulary(vocabulary);
  const fs::path only = write(vocabulary, "v.gguf");
  EXPECT_TRUE(text::Tokenizer::load(only).ok());
  EXPECT_TRUE(fails_with(io::Checkpoint::open(only), {"v.gguf: expected a model", "no tensors"}));

  SmallModel unknown;
  unknown.builder.text("tokenizer.ggml.model", "bert");
  const fs::path bert = write(unknown.builder, "b.gguf");
  EXPECT_TRUE(io::Checkpoint::open(bert).ok());
  EXPECT_TRUE(fails_with(text::Tokenizer::load(bert),
                         {"b.gguf: \"tokenizer.ggml.model\": expected", "found \"bert\""}));

  SmallModel contradicting;
  contradicting.builder.u32("llama.expert_count", 8);
  const fs::path experts = write(contradicting.builder, "e.gguf");
  EXPECT_TRUE(fails_with(io::Checkpoint::open(experts), {"e.gguf", "expert"}));
  EXPECT_TRUE(fails_with(io::ModelConfig::load(experts / "config.json"), {"e.gguf", "expert"}));

  const fs::path none = write(SmallModel().builder, "n.gguf");
  EXPECT_TRUE(fails_with(text::Tokenizer::load(none), {"n.gguf", "tokenizer.json"}));

  const std::string bytes = SmallModel().builder.bytes();
  io::put(root_ / "cut.gguf", bytes.substr(0, bytes.size() - 8));
  EXPECT_TRUE(fails_with(io::Checkpoint::open(root_ / "cut.gguf"),
                         {"cut.gguf: tensor", "an incomplete download?"}));
}

TEST_F(MountedGguf, TheTokenizerIsWrittenIntoNewFolders) {
  SmallModel model;
  add_small_vocabulary(model.builder);
  const fs::path file = write(model.builder), out = root_ / "out";
  fs::create_directory(out);
  ASSERT_TRUE(io::copy_model_files(file, out).ok());
  EXPECT_EQ(*io::read_text_file(out / "tokenizer.json", io::kMaxConfigBytes),
            *io::read_text_file(file / "tokenizer.json", io::kMaxConfigBytes));
  EXPECT_TRUE(fs::exists(out / "generation_config.json"));
  // Who writes the weights writes the config.
  EXPECT_FALSE(fs::exists(out / "config.json"));
}

TEST(PackedFormats, EightBitsAreKeptUntilTheyTakeMoreThanTheFileAndATenth) {
  const io::GgufTypeInfo &q4 = *io::find_gguf_type(12), &q8 = *io::find_gguf_type(8),
                         &f16 = *io::find_gguf_type(1), &f32 = *io::find_gguf_type(0);
  const PackedTensor four = {&q4, 1024, 1024}, eight = {&q8, 1024, 1024};
  const auto bits_of = [](const std::vector<PackedTensor>& tensors, int64_t file_bytes) {
    std::vector<int> bits;
    for (const LowBitFormat& format : packed_formats(tensors, file_bytes))
      bits.push_back(format.bits);
    return bits;
  };
  const int64_t of_8_bits = packed_bytes(four, {.bits = 8});
  EXPECT_EQ(of_8_bits, 1024 * (1024 + 16));
  EXPECT_EQ(packed_bytes(four, {.bits = 6}), 1024 * (768 + 16));
  EXPECT_EQ(packed_bytes(four, {.bits = 4, .group = 16}), 1024 * (512 + 16 + 64));
  EXPECT_EQ(packed_bytes({&f16, 3, 5}, {.bits = 16}), 30);
  // Two tables of which one is not packed leave room.
  EXPECT_EQ(bits_of({four, eight}, 2 * of_8_bits), (std::vector<int>{8, 8}));
  // The weights with the fewest bits in the file give way first.
  EXPECT_EQ(bits_of({four, eight}, 1024 * 1780), (std::vector<int>{6, 8}));
  EXPECT_EQ(bits_of({four, eight}, 1024 * 1500), (std::vector<int>{6, 6}));
  EXPECT_EQ(bits_of({four, four}, 1024 * 1260), (std::vector<int>{4, 6}));
  EXPECT_EQ(bits_of({four, four}, 1), (std::vector<int>{4, 4}));
  EXPECT_EQ(bits_of({{&f16, 8, 8}, {&f32, 8, 8}}, 1), (std::vector<int>{16, 32}));
  const std::vector<PackedTensor> tensors = {four, eight, {&f32, 8, 8}};
  EXPECT_EQ(conversion_text(tensors, packed_formats(tensors, 1024 * 1780), 1822720),
            "Q8_0 becomes 8 bits, Q4_K becomes 6 bits; the weights take 2 MB in memory (the file "
            "has 2 MB)");
  EXPECT_EQ(conversion_text(std::span(tensors).subspan(2), packed_formats(tensors, 1), 1), "");
}

}  // namespace
}  // namespace neuronmm::gguf
