#include "compress/block_rounding/block_rounding.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <vector>

#include "base/freed_memory.h"
#include "base/interrupt.h"
#include "base/task_labels.h"
#include "compress/block_rounding/tensor_blocks.h"
#include "compress/linear_algebra/blas.h"
#include "compress/statistics/expert_statistics.h"
#include "compress/statistics/gathered_statistics.h"
#include "compress/statistics/mlp_statistics.h"
#include "io/atomic_file.h"
#include "model/layer_weights.h"

namespace neuronmm::compress {
namespace {

namespace fs = std::filesystem;
using gguf_out::BlockType;

bool is_rounded(BlockType type) {
  return type != BlockType::kF32 && type != BlockType::kF16 && type != BlockType::kBf16;
}

fs::path blocks_path(const fs::path& work, const std::string& tensor) {
  return work / (tensor + ".blocks.safetensors");
}

io::TensorSpec blocks_spec(const TensorView& weight, BlockType type) {
  return {"blocks", DType::kU8, {weight.rows(), gguf_out::encoded_bytes(type, weight.columns())}};
}

Status write_blocks(const fs::path& path, const io::TensorSpec& spec, BlockType type,
                    const std::vector<std::byte>& bytes) {
  NMM_ASSIGN(auto writer, io::SafetensorsWriter::create_checked(
                              path, {spec}, {{"type", std::string(gguf_out::info(type).name)}}));
  NMM_TRY(writer.append(bytes));
  return writer.finish();
}

// Opens the file of a tensor. Fails if it is missing, damaged, or of another type or size.
Result<io::SafetensorsFile> read_blocks(const fs::path& path, const io::TensorSpec& spec,
                                        BlockType type) {
  NMM_ASSIGN(auto file, io::SafetensorsFile::open_checked(path));
  const auto name = file.metadata().find("type");
  const auto found = file.tensors().find(spec.name);
  if (name == file.metadata().end() || name->second != gguf_out::info(type).name ||
      found == file.tensors().end() || found->second.dtype != spec.dtype ||
      found->second.shape != spec.shape) {
    return fail("{}: expected blocks of {} {}", path.string(), gguf_out::info(type).name,
                shape_string(spec.shape));
  }
  return file;
}

}  // namespace

// Tensors that read the same input.
struct Readers {
  std::string label;  // for the progress line
  std::vector<std::string> tensors;
  // Returns the Gram matrix of the input. Empty if it is unknown.
  std::function<Result<DoubleMatrix>()> gram = {};
};

// Lists all rounded tensors by what they read.
class ReaderList {
 public:
  ReaderList(const CompressionInputs& inputs, const BlockTypes& types, const fs::path& statistics)
      : inputs_(inputs),
        types_(types),
        statistics_(statistics),
        prefix_(model::tensor_prefix(inputs.checkpoint)) {}

  std::vector<Readers> all() {
    for (int64_t layer = 0; layer < inputs_.config.num_hidden_layers; ++layer) {
      add_attention(layer, {"q", "k"}, &AttentionStatistics::in);
      add_attention(layer, {"v"}, &AttentionStatistics::mixed);
      add_attention(layer, {"o"}, &AttentionStatistics::heads);
      add_mlps(layer);
    }
    const bool tied = inputs_.config.tie_word_embeddings;
    add("the LM head", {tied ? prefix_ + "embed_tokens.weight" : "lm_head.weight"},
        [this] { return read_head_statistics(statistics_, inputs_.config); });
    add_others();
    return std::move(list_);
  }

 private:
  void add(std::string label, const std::vector<std::string>& tensors,
           std::function<Result<DoubleMatrix>()> gram) {
    Readers readers = {std::move(label), {}, std::move(gram)};
    for (const std::string& tensor : tensors) {
      const auto found = types_.find(tensor);
      if (found == types_.end() || !is_rounded(found->second)) continue;
      readers.tensors.push_back(tensor);
      listed_[tensor] = true;
    }
    if (statistics_.empty()) readers.gram = {};
    if (!readers.tensors.empty()) list_.push_back(std::move(readers));
  }
  void add_attention(int64_t layer, const std::vector<std::string>& names,
                     DoubleMatrix AttentionStatistics::*which) {
    std::vector<std::string> tensors;
    for (const std::string& name : names)
      tensors.push_back(fmt::format("{}layers.{}.self_attn.{}_proj.weight", prefix_, layer, name));
    add(fmt::format("layer {}", layer), tensors, [=, this]() -> Result<DoubleMatrix> {
      NMM_ASSIGN(auto statistics, read_attention_statistics(statistics_, layer, inputs_.config));
      return std::move(statistics.*which);
    });
  }
  // Adds the MLP of a layer, or each of its experts with its own statistics.
  void add_mlps(int64_t layer) {
    const std::string stem = fmt::format("{}layers.{}.mlp.", prefix_, layer);
    const std::string label = fmt::format("layer {}", layer);
    if (!inputs_.config.is_mixture(layer)) {
      return add_mlp(label, stem,
                     [=, this] { return read_statistics(statistics_, layer, inputs_.config); });
    }
    for (int64_t expert = 0; expert < inputs_.config.experts->count; ++expert) {
      add_mlp(
          fmt::format("{}, expert {}", label, expert), fmt::format("{}experts.{}.", stem, expert),
          [=, this] { return read_expert_statistics(statistics_, layer, expert, inputs_.config); });
    }
  }
  using ReadMlp = std::function<Result<MlpStatistics>()>;
  void add_mlp(const std::string& label, const std::string& stem, const ReadMlp& read) {
    add_mlp_part(label, stem, {"gate", "up"}, read, &MlpStatistics::in);
    add_mlp_part(label, stem, {"down"}, read, &MlpStatistics::neurons);
  }
  void add_mlp_part(const std::string& label, const std::string& stem,
                    const std::vector<std::string>& names, const ReadMlp& read,
                    DoubleMatrix MlpStatistics::*which) {
    std::vector<std::string> tensors;
    for (const std::string& name : names) tensors.push_back(stem + name + "_proj.weight");
    add(label, tensors, [=, this]() -> Result<DoubleMatrix> {
      NMM_ASSIGN(auto statistics, read());
      const int64_t columns = inputs_.checkpoint.tensors().at(tensors.front()).columns();
      DoubleMatrix gram = std::move(statistics.*which);
      // Neurons that a layer of a compressed model does not have come last.
      return columns < gram.columns() ? gram.first_block(columns) : std::move(gram);
    });
  }
  // Adds tensors whose inputs nobody records, such as the table of a model with an LM head.
  void add_others() {
    for (const auto& [tensor, type] : types_) {
      if (!listed_[tensor]) add("the embedding table", {tensor}, {});
    }
  }

  const CompressionInputs& inputs_;
  const BlockTypes& types_;
  const fs::path statistics_;
  const std::string prefix_;
  std::vector<Readers> list_;
  std::map<std::string, bool> listed_;
};

namespace {

Status check_types(const io::Checkpoint& checkpoint, const BlockTypes& types) {
  for (const auto& [tensor, type] : types) {
    if (!is_rounded(type)) continue;
    const auto found = checkpoint.tensors().find(tensor);
    const std::string model = checkpoint.folder().string();
    if (found == checkpoint.tensors().end()) return fail("{}: no tensor {}", model, tensor);
    if (gguf_out::fits_row(type, found->second.columns())) continue;
    return fail("{}: {}: expected rows of a multiple of {} weights for {}, found {}", model, tensor,
                gguf_out::info(type).block_elements, gguf_out::info(type).name,
                found->second.columns());
  }
  return {};
}

}  // namespace

// Rounds a model in steps, between which an interrupt is noticed.
class BlockRoundingRun {
 public:
  BlockRoundingRun(const CompressionInputs& inputs, const BlockTypes& types,
                   const RoundingSettings& settings, const fs::path& statistics,
                   const fs::path& work)
      : inputs_(inputs),
        types_(types),
        settings_(settings),
        work_(work),
        lists_(inputs, types, statistics),
        steps_(lists_.all()) {}

  Result<RoundedBlocks> run() {
    Progress& progress = inputs_.progress;
    const int64_t total = std::ssize(steps_);
    int64_t found = 0;
    while (found < total && finished(steps_[static_cast<size_t>(found)])) ++found;
    if (found > 0 && found < total) {
      progress.print(std::string(task::kRounding) + ": " +
                     found_text(found, total, "step", "steps"));
    }
    progress.start(task::kRounding, total, found);
    for (int64_t i = found; i < total; ++i) {
      if (interrupted()) {
        return interrupted_error(fmt::format("rounding has done {} of {} steps", i, total));
      }
      const Readers& step = steps_[static_cast<size_t>(i)];
      return_freed_memory();
      NMM_TRY(round(step));
      progress.update(i + 1, step.label);
    }
    progress.finish();
    return std::move(blocks_);
  }

 private:
  const TensorView& weight(const std::string& tensor) const {
    return inputs_.checkpoint.tensors().at(tensor);
  }
  // Opens the files of a step. Returns false if one of them is missing.
  bool finished(const Readers& step) {
    return std::ranges::all_of(step.tensors,
                               [&](const std::string& tensor) { return open(tensor).ok(); });
  }
  Status open(const std::string& tensor) {
    const BlockType type = types_.at(tensor);
    NMM_ASSIGN(auto file,
               read_blocks(blocks_path(work_, tensor), blocks_spec(weight(tensor), type), type));
    blocks_.files_.insert_or_assign(tensor, std::move(file));
    return {};
  }

  // Reads and factorizes the Gram matrix only if a tensor of the step is missing.
  Status round(const Readers& step) {
    std::optional<RoundingGram> gram;
    for (const std::string& tensor : step.tensors) {
      if (open(tensor).ok()) continue;
      if (step.gram && !gram) {
        NMM_ASSIGN(const DoubleMatrix input, step.gram());
        NMM_ASSIGN(gram, RoundingGram::prepare(input));
      }
      const BlockType type = types_.at(tensor);
      auto bytes = gram ? blocks_by_gram(to_double_matrix(weight(tensor)), *gram, type, settings_)
                        : nearest_blocks(weight(tensor), type);
      if (!bytes.ok()) {
        return fail("{}: {}: {}", inputs_.checkpoint.folder().string(), tensor,
                    bytes.error().message);
      }
      NMM_TRY(write_blocks(blocks_path(work_, tensor), blocks_spec(weight(tensor), type), type,
                           *bytes));
      NMM_TRY(open(tensor));
    }
    return {};
  }

  const CompressionInputs& inputs_;
  const BlockTypes& types_;
  const RoundingSettings& settings_;
  const fs::path work_;
  ReaderList lists_;
  std::vector<Readers> steps_;
  RoundedBlocks blocks_;
};

std::span<const std::byte> RoundedBlocks::bytes(const std::string& tensor) const {
  const auto found = files_.find(tensor);
  if (found == files_.end()) return {};
  const TensorView& blocks = found->second.tensors().at("blocks");
  return {reinterpret_cast<const std::byte*>(blocks.data), static_cast<size_t>(blocks.size())};
}

Result<RoundedBlocks> round_to_blocks(const CompressionInputs& inputs, const BlockTypes& types,
                                      const BlockRounding& rounding, const fs::path& work) {
  NMM_TRY(check_types(inputs.checkpoint, types));
  fs::path statistics;
  if (rounding.by_text) {
    NMM_TRY(load_blas());
    const StatisticsRequest wanted = {.folder = rounding.statistics,
                                      .saved = rounding.saved,
                                      .method = "whitened",
                                      .what = Gathered::kAllLinears,
                                      .force = rounding.force};
    NMM_ASSIGN(const auto files, gathered_statistics(inputs, wanted, work));
    statistics = files.statistics;
  }
  const fs::path folder = work / "blocks";
  NMM_TRY(io::make_folder(folder));
  return BlockRoundingRun(inputs, types, rounding.settings, statistics, folder).run();
}

}  // namespace neuronmm::compress
