#include "tensor_parallel/leader.h"

#include <filesystem>

#include <fmt/format.h>

#include "base/fnv1a.h"
#include "io/gguf.h"
#include "io/text_file.h"
#include "parallel/agreement.h"

namespace neuronmm::tensor_parallel {
namespace {

namespace fs = std::filesystem;

SequenceOrder order_of(const model::SequenceTokens& sequence) {
  const ops::KvCache& cache = *sequence.cache;
  return {.tokens = {sequence.tokens.begin(), sequence.tokens.end()},
          .length = cache.length(),
          .capacity_tokens = cache.shape().capacity_tokens,
          .dtype = static_cast<int32_t>(cache.shape().dtype),
          .logits = static_cast<int32_t>(sequence.logits),
          .long_rope = cache.long_rope(),
          .wanted = sequence.wanted};
}

}  // namespace

Result<int64_t> Leader::open(const std::string& folder) {
  const int64_t model = next_model_++;
  std::error_code ignored;
  const std::string path = fs::absolute(folder, ignored).string();
  send(communicator_, {.kind = Order::Kind::kOpen, .model = model, .text = path});
  const parallel::Fact identity[] = {{folder, folder_identity(folder)}};
  NMM_TRY(parallel::agree(communicator_, identity));
  return model;
}

void Leader::close(int64_t model) {
  try {
    send(communicator_, {.kind = Order::Kind::kClose, .model = model});
  } catch (const parallel::ProcessLost&) {
  }
}

void Leader::begin_pass(int64_t model, std::span<const model::SequenceTokens> batch) {
  for (const model::SequenceTokens& sequence : batch) {
    sequence.cache->grow(sequence.cache->length() + std::ssize(sequence.tokens));
  }
  Order order = {.kind = Order::Kind::kPass, .model = model, .freed = freed()};
  for (const model::SequenceTokens& sequence : batch) {
    SequenceOrder& told = order.sequences.emplace_back(order_of(sequence));
    for (const ops::KvBlock& block : sequence.cache->blocks()) {
      told.blocks.push_back(number_of(block));
    }
  }
  send(communicator_, order);
}

void Leader::copy_block(int64_t model, const ops::KvBlock& from, const ops::KvBlock& to) {
  send(communicator_,
       {.kind = Order::Kind::kCopy, .model = model, .from = number_of(from), .to = number_of(to)});
}

int64_t Leader::number_of(const ops::KvBlock& block) {
  const auto found = blocks_.find(block.get());
  if (found != blocks_.end()) {
    const auto& known = found->second.block;
    if (!known.expired() && !known.owner_before(block) && !block.owner_before(known)) {
      return found->second.number;
    }
    replaced_.push_back(found->second.number);
  }
  blocks_[block.get()] = {block, next_block_};
  return next_block_++;
}

std::vector<int64_t> Leader::freed() {
  std::vector<int64_t> gone = std::exchange(replaced_, {});
  std::erase_if(blocks_, [&](const auto& entry) {
    if (!entry.second.block.expired()) return false;
    gone.push_back(entry.second.number);
    return true;
  });
  return gone;
}

std::string folder_identity(const std::string& folder) {
  const auto config = io::read_text_file(fs::path(folder) / "config.json", io::kMaxConfigBytes);
  if (!config.ok()) return "a folder without config.json";
  const uint64_t hash = fnv1a(*config);
  int64_t files = 0, bytes = 0;
  std::error_code error;
  if (io::is_gguf(folder))
    return fmt::format("config.json {:016x} of a GGUF file with {} bytes", hash,
                       fs::file_size(folder, error));
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() != ".safetensors") continue;
    ++files;
    bytes += static_cast<int64_t>(entry.file_size(error));
  }
  return fmt::format("config.json {:016x} with {} bytes of weights in {} file{}", hash, bytes,
                     files, files == 1 ? "" : "s");
}

}  // namespace neuronmm::tensor_parallel
