#include "model/self_generated.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <system_error>

#include "base/interrupt.h"
#include "base/task_labels.h"
#include "io/safetensors.h"
#include "io/safetensors_writer.h"
#include "model/generate.h"
#include "text/tokenizer/tokenizer.h"

namespace neuronmm::model {
namespace {

namespace fs = std::filesystem;
using Sequences = std::vector<std::vector<TokenId>>;

// The number of sequences that are decoded together, and stored in one file. Assumed.
constexpr int64_t kTogether = 16;
constexpr const char* kTokensName = "tokens";

Result<TokenId> start_token(const fs::path& folder, const io::ModelConfig& config) {
  NMM_ASSIGN(const auto tokenizer, text::Tokenizer::load(folder));
  for (const std::optional<TokenId> token : {tokenizer.bos_id(), tokenizer.eos_id()}) {
    if (token) return *token;
  }
  if (config.bos_token_id) return static_cast<TokenId>(*config.bos_token_id);
  NMM_ASSIGN(const auto generation, io::GenerationConfig::load(folder));
  const std::vector<TokenId> ends = stop_tokens_of(generation, config);
  if (!ends.empty()) return ends.front();
  return fail("{}: expected a begin-of-text or end-of-text token to write from, found neither",
              folder.string());
}

// Writes one batch as I32 [count, length], one sequence per row.
Status write_batch(const fs::path& path, const Sequences& sequences) {
  const Shape shape = {std::ssize(sequences), std::ssize(sequences.front())};
  NMM_ASSIGN(auto writer,
             io::SafetensorsWriter::create_checked(path, {{kTokensName, DType::kI32, shape}}));
  for (const std::vector<TokenId>& tokens : sequences) {
    NMM_TRY(writer.append(std::as_bytes(std::span(tokens))));
  }
  return writer.finish();
}
static_assert(sizeof(TokenId) == sizeof(int32_t));

// Returns nothing if the file is absent or does not hold what is wanted; the batch is then made
// again.
std::optional<Sequences> read_batch(const fs::path& path, int64_t count, int64_t length) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return {};
  const auto file = io::SafetensorsFile::open_checked(path);
  if (!file.ok() || !file->tensors().contains(kTokensName)) return {};
  const TensorView& tensor = file->tensors().at(kTokensName);
  if (tensor.dtype != DType::kI32 || tensor.shape != Shape{count, length}) return {};
  Sequences sequences(static_cast<size_t>(count),
                      std::vector<TokenId>(static_cast<size_t>(length)));
  const auto bytes = static_cast<size_t>(length) * sizeof(TokenId);
  for (size_t i = 0; i < sequences.size(); ++i) {
    std::memcpy(sequences[i].data(), tensor.data + i * bytes, bytes);
  }
  return sequences;
}

// Generates batches of sequences and reports progress.
class TextWriter {
 public:
  TextWriter(const SelfGeneration& wanted, const Transformer& transformer, TokenId start,
             Progress& progress)
      : wanted_(wanted), transformer_(transformer), start_(start), progress_(progress) {}

  int64_t total() const { return (wanted_.tokens + wanted_.length - 1) / wanted_.length; }

  // Generates sequences [first, first + count). The result does not depend on the other batches.
  Result<Sequences> batch(int64_t first, int64_t count) {
    const Sequences prompts(static_cast<size_t>(count), {start_});
    GenerateOptions options;
    options.max_new_tokens = wanted_.length - 1;
    options.sampling.temperature = 1.0;
    options.sampling.seed = wanted_.seed + static_cast<uint64_t>(first);
    int64_t made = first * wanted_.length + count;
    NMM_ASSIGN(const auto generations,
               generate_batch(transformer_, prompts, options, [&](int64_t, TokenId) {
                 progress_.update(++made);
                 return true;
               }));
    Sequences sequences = prompts;
    for (size_t i = 0; i < sequences.size(); ++i) {
      const Generation& generation = generations[i];
      if (generation.stop == Generation::Stop::kInterrupted) {
        return interrupted_error(fmt::format("{} of {} sequences are written", first, total()));
      }
      sequences[i].insert(sequences[i].end(), generation.tokens.begin(), generation.tokens.end());
    }
    return sequences;
  }

 private:
  const SelfGeneration& wanted_;
  const Transformer& transformer_;
  TokenId start_;
  Progress& progress_;
};

// Returns the file of the sequences that are generated together, from number `first` on.
fs::path batch_path(const fs::path& work, int64_t first) {
  return work / fmt::format("generated-{}.safetensors", first / kTogether);
}

}  // namespace

Result<Sequences> self_generated(const SelfGeneration& wanted, const fs::path& work,
                                 const ops::Backend& backend, Progress& progress) {
  NMM_ASSIGN(const auto transformer, Transformer::load(wanted.model, backend));
  NMM_ASSIGN(const TokenId start, start_token(wanted.model, transformer.config()));
  TextWriter writer(wanted, transformer, start, progress);
  Sequences written;
  int64_t found = 0;  // sequences of an interrupted run
  while (found < writer.total() &&
         read_batch(batch_path(work, found), std::min(kTogether, writer.total() - found),
                    wanted.length)) {
    found = std::min(found + kTogether, writer.total());
  }
  if (found > 0 && found < writer.total()) {
    progress.print(std::string(task::kWritingText) + ": " +
                   found_text(found, writer.total(), "sequence", "sequences"));
  }
  progress.start(task::kWritingText, writer.total() * wanted.length, found * wanted.length);
  for (int64_t first = 0; first < writer.total(); first += kTogether) {
    const int64_t count = std::min(kTogether, writer.total() - first);
    const fs::path path = batch_path(work, first);
    auto sequences = read_batch(path, count, wanted.length);
    if (!sequences) {
      NMM_ASSIGN(sequences, writer.batch(first, count));
      NMM_TRY(write_batch(path, *sequences));
    }
    for (std::vector<TokenId>& tokens : *sequences) written.push_back(std::move(tokens));
    progress.update((first + count) * wanted.length);
  }
  progress.finish();
  return written;
}

}  // namespace neuronmm::model
