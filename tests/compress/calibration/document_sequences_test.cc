#include "compress/calibration/document_sequences.h"

#include <numeric>

#include "compress/compress_test.h"

namespace neuronmm::compress {
namespace {

using Tokens = std::vector<text::TokenId>;

// Returns documents of these sizes. Each token is 1000 * document + position, so it shows where it
// comes from.
std::vector<Tokens> numbered(const std::vector<int64_t>& sizes) {
  std::vector<Tokens> documents;
  for (size_t i = 0; i < sizes.size(); ++i) {
    Tokens& tokens = documents.emplace_back(static_cast<size_t>(sizes[i]));
    std::iota(tokens.begin(), tokens.end(), static_cast<text::TokenId>(1000 * (i + 1)));
  }
  return documents;
}

std::vector<int64_t> sizes_of(const std::vector<Tokens>& sequences) {
  std::vector<int64_t> sizes;
  for (const Tokens& tokens : sequences) sizes.push_back(std::ssize(tokens));
  return sizes;
}

Tokens joined(const std::vector<Tokens>& sequences) {
  Tokens all;
  for (const Tokens& tokens : sequences) all.insert(all.end(), tokens.begin(), tokens.end());
  return all;
}

TEST(DocumentSequences, ShortDocumentsShareASequenceAndLongOnesAreCut) {
  EXPECT_EQ(sizes_of(packed_documents(numbered({3, 4, 3, 1, 25, 2, 0, 8, 10}), 10)),
            (std::vector<int64_t>{10, 1, 8, 8, 9, 10, 10}));
  EXPECT_TRUE(packed_documents(numbered({0, 0}), 10).empty());
}

TEST(DocumentSequences, PackingLosesNoTokenAndJoinsNoCutDocument) {
  std::mt19937_64 random(20261123);
  for (int round = 0; round < 200; ++round) {
    std::vector<int64_t> sizes(random() % 30);
    for (int64_t& size : sizes) size = static_cast<int64_t>(random() % 40);
    const auto longest = static_cast<int64_t>(1 + random() % 25);
    const auto documents = numbered(sizes);
    const auto packed = packed_documents(documents, longest);
    EXPECT_EQ(joined(packed), joined(documents));
    for (const Tokens& sequence : packed) {
      ASSERT_LE(std::ssize(sequence), longest);
      // A sequence with several documents has the whole of each of them.
      const bool several = sequence.front() / 1000 != sequence.back() / 1000;
      if (!several) continue;
      EXPECT_EQ(sequence.front() % 1000, 0);
      const auto last = static_cast<size_t>(sequence.back() / 1000 - 1);
      EXPECT_EQ(sequence.back(), documents[last].back());
    }
  }
}

TEST(DocumentSequences, SequencesAreTakenEvenlyFromTheFile) {
  std::mt19937_64 random(20261124);
  for (int round = 0; round < 200; ++round) {
    std::vector<int64_t> sizes(1 + random() % 30);
    int64_t total = 0;
    for (int64_t& size : sizes) total += size = static_cast<int64_t>(1 + random() % 40);
    const auto share = static_cast<int64_t>(random() % static_cast<uint64_t>(total + 1));
    const auto all = numbered(sizes);
    std::vector<Tokens> taken, spare;
    take_evenly(all, share, taken, spare);
    const Tokens tokens = joined(taken);
    EXPECT_LE(std::ssize(tokens), share);
    // A last piece of one token is not taken.
    EXPECT_GE(std::ssize(tokens), share - 1);
    Tokens both = joined(spare);
    both.insert(both.end(), tokens.begin(), tokens.end());
    std::ranges::sort(both);
    // Every token is there exactly once.
    EXPECT_EQ(both, joined(all));
    // Every beginning of the text gives its part of the share, up to one document.
    int64_t seen = 0;
    for (size_t i = 0; i < sizes.size(); ++i) {
      seen += sizes[i];
      const auto end = static_cast<text::TokenId>(1000 * (i + 2));
      const int64_t found = std::ranges::count_if(tokens, [&](auto token) { return token < end; });
      const double due =
          static_cast<double>(share) * static_cast<double>(seen) / static_cast<double>(total);
      EXPECT_GE(static_cast<double>(found) + 1.0, due);
      EXPECT_LE(static_cast<double>(found), due + 40.0);
    }
  }
}

class DocumentText : public CompressTest {};

// Two documents as JSON lines become two sequences, because they do not fit into one together.
TEST_F(DocumentText, JsonLinesAreSplitIntoDocuments) {
  const auto tokenizer = text::Tokenizer::load(input_.path());
  ASSERT_TRUE(tokenizer.ok());
  const std::string a = random_text(40, 1), b = random_text(50, 2);
  const std::string lines = "{\"text\": \"" + a + "\"}\n\n{\"text\": \"" + b + "\"}\n";
  const NamedText file = NamedText::of_file("c4.jsonl", lines);
  EXPECT_TRUE(file.documents);
  EXPECT_FALSE(NamedText::of_file("c4.json", lines).documents);
  const auto found = calibration_sequences(*tokenizer, {file}, 10000, config_);
  ASSERT_TRUE(found.ok()) << found.error().message;
  const auto first = tokenizer->encode(a), second = tokenizer->encode(b);
  const auto nothing = tokenizer->encode("");
  ASSERT_TRUE(first.ok() && second.ok() && nothing.ok());
  // The two documents together have more than 64 tokens.
  ASSERT_EQ(config_.max_position_embeddings, 64);
  ASSERT_EQ(found->sequences.size(), 2u);
  EXPECT_TRUE(std::equal(first->begin(), first->end(), found->sequences[0].begin()));
  EXPECT_EQ(found->sequences[1], *second);
  EXPECT_EQ(found->origin.sources[0].bytes, std::ssize(lines));
  EXPECT_EQ(found->origin.tokens, std::ssize(found->sequences[0]) + std::ssize(*second));

  const auto broken = calibration_sequences(
      *tokenizer, {{"c4.jsonl", lines + "{\"txt\": 1}", true}}, 1000, config_);
  ASSERT_FALSE(broken.ok());
  EXPECT_TRUE(broken.error().message.starts_with("c4.jsonl:4: expected "))
      << broken.error().message;
}

// The template of the model in the folder writes a chat, and the chat is a document like others.
TEST_F(DocumentText, ChatsAreWrittenByTheModelsTemplate) {
  const std::string a = random_text(40, 1), b = random_text(50, 2);
  const std::string lines = "{\"text\": \"" + a +
                            "\"}\n{\"messages\": [{\"role\": \"user\", \"content\": \"" + b +
                            "\"}]}";
  CalibrationText text{{NamedText::of_file("chat.jsonl", lines)}};
  const auto refused = encoded_calibration(text, input_.path(), config_, silent_);
  ASSERT_FALSE(refused.ok());
  EXPECT_TRUE(refused.error().message.starts_with("chat.jsonl:2: ")) << refused.error().message;
  EXPECT_NE(refused.error().message.find(input_.path().string() + " has no chat template"),
            std::string::npos)
      << refused.error().message;
  input_.write_text("chat_template.jinja", "{% for m in messages %}[{{ m.content }}]{% endfor %}");
  const auto found = encoded_calibration(text, input_.path(), config_, silent_);
  ASSERT_TRUE(found.ok()) << found.error().message;
  ASSERT_EQ(found->sequences.size(), 2u);
  EXPECT_EQ(std::string(found->sequences[1].begin(), found->sequences[1].end()), "[" + b + "]");
}

}  // namespace
}  // namespace neuronmm::compress
