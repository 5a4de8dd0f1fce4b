// Tests of the pool of key-value blocks: which sequence holds which block, compared with a simple
// account of all blocks.

#include "serve/engine/kv_memory.h"

#include <map>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "serve/engine/engine_support.h"

namespace neuronmm::serve {
namespace {

using ops::kKvBlock;

class KvMemoryTest : public model::OnBackend {
 protected:
  void run(SequenceMemory& sequence, std::span<const TokenId> tokens) {
    if (std::ssize(tokens) > sequence.length())
      (void)transformer.forward(tokens.subspan(static_cast<size_t>(sequence.length())),
                                sequence.cache(), model::Logits::kNone);
  }
  const model::Transformer transformer = make_model(long_config(2000), *backend);
};
NMM_ON_ALL_BACKENDS(KvMemoryTest);

TEST_P(KvMemoryTest, AForkSharesWholeBlocksAndCopiesTheLast) {
  KvMemory memory(transformer, 10, 1280);
  const std::vector<TokenId> tokens = model::random_tokens(300, 19, 1);
  std::vector<TokenId> other = tokens;
  SequenceMemory first(memory, "");
  ASSERT_TRUE(first.reserve(300));
  run(first, tokens);
  first.share_blocks(tokens);
  EXPECT_EQ(memory.in_use(), 3);
  const auto second = first.fork();
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(memory.in_use(), 4);  // two shared blocks and one block per sequence
  EXPECT_EQ(first.cache().blocks()[1], second->cache().blocks()[1]);
  EXPECT_NE(first.cache().blocks()[2], second->cache().blocks()[2]);
  // The sequences do not influence each other when they go on.
  for (SequenceMemory* const sequence : {&first, second.get()}) {
    std::vector<TokenId> whole = tokens;
    const auto more = model::random_tokens(50, 19, sequence == &first ? 2 : 3);
    whole.insert(whole.end(), more.begin(), more.end());
    ASSERT_TRUE(sequence->reserve(350));
    const Matrix logits = transformer.forward(more, sequence->cache(), model::Logits::kAll);
    const Matrix expected = all_logits(transformer, whole);
    for (int64_t i = 0; i < 50 * 19; ++i) {
      ASSERT_EQ(logits.data()[i], expected.row(300)[i]);
    }
  }
}

TEST_P(KvMemoryTest, AReservationThatDoesNotFitTakesNoBlock) {
  KvMemory memory(transformer, 3, 384);
  SequenceMemory first(memory, "");
  ASSERT_TRUE(first.reserve(2 * kKvBlock));
  SequenceMemory second(memory, "");
  EXPECT_FALSE(second.reserve(kKvBlock + 1));
  EXPECT_EQ(memory.in_use(), 2);
  EXPECT_TRUE(second.reserve(kKvBlock));
  EXPECT_FALSE(first.reserve(2 * kKvBlock + 1));
  EXPECT_EQ(memory.in_use(), 3);
}

// Sequences begin, grow, fork and end at random. A block that any number of sequences hold counts
// once as in use, and a block that is reused was computed from the same tokens.
TEST_P(KvMemoryTest, CountsTheBlocksThatSequencesHold) {
  const auto seed = std::random_device()();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937 random(seed);
  constexpr int64_t kBlocks = 12;
  KvMemory memory(transformer, kBlocks, kBlocks * kKvBlock);
  struct Live {
    std::unique_ptr<SequenceMemory> memory;
    std::vector<TokenId> tokens;
  };
  std::vector<Live> live;
  // The tokens from the beginning of the sequence to the end of the block, for complete blocks.
  std::map<const uint32_t*, std::vector<TokenId>> contents;
  const auto check = [&] {
    std::set<const uint32_t*> held;
    for (const Live& one : live) {
      const auto& blocks = one.memory->cache().blocks();
      for (const ops::KvBlock& block : blocks) held.insert(block.get());
      for (int64_t end = kKvBlock; end <= one.memory->length(); end += kKvBlock) {
        const auto* const block = blocks[static_cast<size_t>(end / kKvBlock - 1)].get();
        ASSERT_EQ(contents.at(block), std::vector(one.tokens.begin(), one.tokens.begin() + end));
      }
    }
    ASSERT_EQ(memory.in_use(), std::ssize(held));
    ASSERT_LE(memory.in_use() + memory.cached(), kBlocks);
  };
  for (int step = 0; step < 400; ++step) {
    const auto pick = random() % (live.size() + 1);
    if (pick == live.size()) {
      // The tokens begin like one of two texts.
      std::vector<TokenId> tokens = model::random_tokens(700, 19, random() % 2);
      tokens.resize(1 + random() % 700);
      auto sequence = std::make_unique<SequenceMemory>(memory, random() % 4 == 0 ? "salt" : "");
      if (!sequence->reserve_with_prefix(tokens)) continue;
      ASSERT_LT(sequence->length(), std::ssize(tokens));
      live.push_back({std::move(sequence), std::move(tokens)});
    } else if (random() % 3 == 0) {
      if (random() % 2 == 0) live[pick].memory->keep_last_block(live[pick].tokens);
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(pick));
      continue;
    } else if (random() % 4 == 0) {
      auto fork = live[pick].memory->fork();
      if (fork) live.push_back({std::move(fork), live[pick].tokens});
    } else {
      Live& one = live[pick];
      if (!one.memory->reserve(one.memory->length() + 20) || std::ssize(one.tokens) > 1200)
        continue;
      for (int i = 0; i < 20; ++i) one.tokens.push_back(static_cast<TokenId>(random() % 19));
      one.tokens.resize(std::min<size_t>(one.tokens.size(), one.memory->length() + 20));
    }
    Live& last = pick < live.size() ? live[pick] : live.back();
    const int64_t room = std::ssize(last.memory->cache().blocks()) * kKvBlock;
    last.tokens.resize(std::min<size_t>(last.tokens.size(), static_cast<size_t>(room)));
    run(*last.memory, last.tokens);
    last.memory->share_blocks(last.tokens);
    const auto& blocks = last.memory->cache().blocks();
    for (int64_t end = kKvBlock; end <= last.memory->length(); end += kKvBlock) {
      contents[blocks[static_cast<size_t>(end / kKvBlock - 1)].get()] =
          std::vector(last.tokens.begin(), last.tokens.begin() + end);
    }
    check();
    if (HasFatalFailure()) return;
  }
  live.clear();
  check();
}

}  // namespace
}  // namespace neuronmm::serve
