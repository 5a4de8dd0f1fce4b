#include "tensor_parallel/leader.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include <fmt/format.h>

#include "parallel/agreement.h"

namespace neuronmm::tensor_parallel {
namespace {

namespace fs = std::filesystem;

class OpenModel : public ops::Counterparts {
 public:
  OpenModel(Leader& leader, int64_t number) : leader_(leader), number_(number) {}
  // Where the others are lost they need no order.
  ~OpenModel() override {
    try {
      send(leader_.communicator(), {.kind = Order::Kind::kClose, .model = number_});
    } catch (const parallel::ProcessLost&) {
    }
  }

  Status opened(const Status& here) override {
    return parallel::agree(leader_.communicator(), here);
  }

  void begin_pass(std::span<const Sequence> batch) override {
    Order order = {.kind = Order::Kind::kPass, .model = number_, .freed = leader_.freed()};
    for (const Sequence& sequence : batch) {
      const ops::KvCache& cache = *sequence.cache;
      SequenceOrder& told = order.sequences.emplace_back();
      told.tokens.assign(sequence.tokens.begin(), sequence.tokens.end());
      for (const ops::KvBlock& block : cache.blocks()) {
        told.blocks.push_back(leader_.number_of(block));
      }
      told.length = cache.length();
      told.capacity_tokens = cache.shape().capacity_tokens;
      told.dtype = static_cast<int32_t>(cache.shape().dtype);
      told.logits = sequence.logits;
      told.wanted.assign(sequence.wanted.begin(), sequence.wanted.end());
    }
    send(leader_.communicator(), order);
  }

  void block_copied(const ops::KvBlock& from, const ops::KvBlock& to) override {
    send(leader_.communicator(), {.kind = Order::Kind::kCopy,
                                  .model = number_,
                                  .from = leader_.number_of(from),
                                  .to = leader_.number_of(to)});
  }

 private:
  Leader& leader_;
  const int64_t number_;
};

}  // namespace

Result<std::unique_ptr<ops::Counterparts>> Leader::open(const std::string& folder) {
  const int64_t number = next_model_++;
  std::error_code ignored;
  const std::string path = fs::absolute(folder, ignored).string();
  send(communicator_, {.kind = Order::Kind::kOpen, .model = number, .text = path});
  const parallel::Fact identity[] = {{folder, folder_identity(folder)}};
  NMM_TRY(parallel::agree(communicator_, identity));
  return std::unique_ptr<ops::Counterparts>(std::make_unique<OpenModel>(*this, number));
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
  std::ifstream config(fs::path(folder) / "config.json", std::ios::binary);
  if (!config) return "a folder without config.json";
  std::ostringstream text;
  text << config.rdbuf();
  uint64_t hash = 14695981039346656037u;  // FNV-1a
  for (const char c : text.str()) hash = (hash ^ static_cast<uint8_t>(c)) * 1099511628211u;
  int64_t files = 0, bytes = 0;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() != ".safetensors") continue;
    ++files;
    bytes += static_cast<int64_t>(entry.file_size(error));
  }
  return fmt::format("config.json {:016x} with {} bytes of weights in {} file{}", hash, bytes,
                     files, files == 1 ? "" : "s");
}

}  // namespace neuronmm::tensor_parallel
