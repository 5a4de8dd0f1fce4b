#include "gguf/gguf_shards.h"

#include <optional>

namespace neuronmm::io {
namespace {

namespace fs = std::filesystem;

// The keys that llama.cpp's gguf-split writes.
constexpr std::string_view kIndexKey = "split.no", kCountKey = "split.count",
                           kTensorsKey = "split.tensors.count";
// The file names have five digits.
constexpr int64_t kMaxFiles = 99999;
constexpr size_t kSuffixLength = std::string_view("-00001-of-00002.gguf").size();

std::string suffix(int64_t index, int64_t count) {
  return fmt::format("-{:05}-of-{:05}.gguf", index + 1, count);
}

Result<int64_t> file_count(const GgufMetadata& metadata) {
  NMM_ASSIGN(const auto count, metadata.integer(kCountKey));
  if (!count || *count == 0) return 1;
  if (*count < 1 || *count > kMaxFiles)
    return metadata.wrong(kCountKey, fmt::format("1 to {}", kMaxFiles));
  return *count;
}

Result<int64_t> file_index(const GgufMetadata& metadata, int64_t count) {
  NMM_ASSIGN(const auto index, metadata.integer(kIndexKey));
  if (!index) return metadata.missing(kIndexKey);
  if (*index < 0 || *index >= count)
    return metadata.wrong(kIndexKey, fmt::format("0 to {}", count - 1));
  return *index;
}

// Returns the paths of all files from the path of one of them.
Result<std::vector<fs::path>> shard_paths(const fs::path& path, int64_t index, int64_t count) {
  const std::string name = path.filename().string();
  if (!name.ends_with(suffix(index, count)))
    return fail("{}: is part {} of {}: expected a name that ends in {}", path.string(), index + 1,
                count, suffix(index, count));
  const std::string stem = name.substr(0, name.size() - kSuffixLength);
  std::vector<fs::path> paths;
  for (int64_t i = 0; i < count; ++i)
    paths.push_back(path.parent_path() / (stem + suffix(i, count)));
  return paths;
}

Status check_shard_number(const GgufMetadata& metadata, int64_t index, int64_t count) {
  NMM_ASSIGN(const int64_t own_count, file_count(metadata));
  if (own_count != count) return metadata.wrong(kCountKey, fmt::format("{}", count));
  NMM_ASSIGN(const int64_t own_index, file_index(metadata, count));
  if (own_index != index) return metadata.wrong(kIndexKey, fmt::format("{}", index));
  return {};
}

}  // namespace

Result<GgufShards> GgufShards::open(const fs::path& path) {
  GgufShards shards;
  NMM_ASSIGN(GgufFile given, GgufFile::open(path));
  NMM_ASSIGN(const int64_t count, file_count(given.metadata()));
  if (count == 1) {
    shards.paths_ = {path};
    shards.files_.push_back(std::move(given));
    NMM_TRY(shards.add_tensors(shards.files_.front(), path));
    return shards;
  }
  NMM_ASSIGN(const int64_t index, file_index(given.metadata(), count));
  NMM_ASSIGN(shards.paths_, shard_paths(path, index, count));
  for (int64_t i = 0; i < count; ++i) {
    const fs::path& shard_path = shards.paths_[static_cast<size_t>(i)];
    if (std::error_code ignored; !fs::exists(fs::symlink_status(shard_path, ignored)))
      return fail("{}: part {} of {} is missing; download it into the folder of {}",
                  shard_path.string(), i + 1, count, path.filename().string());
    NMM_ASSIGN(GgufFile file, GgufFile::open(shard_path));
    NMM_TRY(check_shard_number(file.metadata(), i, count));
    shards.files_.push_back(std::move(file));
    NMM_TRY(shards.add_tensors(shards.files_.back(), shard_path));
  }
  NMM_ASSIGN(const auto promised, shards.metadata().integer(kTensorsKey));
  if (promised && *promised != std::ssize(shards.tensors_))
    return shards.metadata().wrong(
        kTensorsKey, fmt::format("the {} tensors of the {} files", shards.tensors_.size(), count));
  return shards;
}

Result<GgufShards> GgufShards::parse(std::span<const std::byte> bytes, const std::string& source) {
  GgufShards shards;
  NMM_ASSIGN(GgufFile file, GgufFile::parse(bytes, source));
  shards.files_.push_back(std::move(file));
  NMM_TRY(shards.add_tensors(shards.files_.front(), source));
  return shards;
}

Status GgufShards::add_tensors(const GgufFile& file, const fs::path& path) {
  for (const GgufTensor& tensor : file.tensors()) {
    if (!tensors_.emplace(tensor.name, tensor).second)
      return fail("{}: tensor {:?} is in an earlier file, too", path.string(), tensor.name);
  }
  return {};
}

void GgufShards::release_pages() const {
  for (const GgufFile& file : files_) file.release_pages();
}

}  // namespace neuronmm::io
