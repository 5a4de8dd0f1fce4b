#include "io/mistaken_files.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>
#include <system_error>
#include <vector>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "io/gguf.h"
#include "io/model_name.h"
#include "io/mounted_model.h"
#include "io/text_file.h"

namespace neuronmm::io {
namespace {

namespace fs = std::filesystem;
using namespace std::string_view_literals;

constexpr const char* kConvertPickle =
    "convert it in Python: AutoModelForCausalLM.from_pretrained(DIR).save_pretrained(NEW)";

struct Signature {
  std::string_view bytes;
  std::string_view text;
};
// The first bytes of files that people take for models.
constexpr Signature kSignatures[] = {
    {"version https://git-lfs", "a Git LFS pointer in place of the file; run `git lfs pull` there"},
    {"/annex/objects/", "a pointer of git-annex in place of the file; run `git annex get` there"},
    {"GGUF", "a GGUF file; to make a model folder of it: neuronmm import FILE -o DIR"},
    {"lmgg", "a GGML file of an old llama.cpp; use a GGUF file of the model"},
    {"tjgg", "a GGML file of an old llama.cpp; use a GGUF file of the model"},
    {"PK\3\4",
     "a zip archive or a PyTorch file; unpack the archive, or convert PyTorch weights to "
     "safetensors with transformers' save_pretrained()"},
    {"\x80\2",
     "a Python pickle as PyTorch writes it; convert it with transformers' "
     "save_pretrained()"},
    {"\x80\3", "a Python pickle; convert it with transformers' save_pretrained()"},
    {"\x80\4", "a Python pickle; convert it with transformers' save_pretrained()"},
    {"\x80\5", "a Python pickle; convert it with transformers' save_pretrained()"},
    {"\x1f\x8b", "a gzip archive; unpack it"},
    {"\x28\xb5\x2f\xfd", "a zstd archive; unpack it"},
    {"\xfd"
     "7zXZ",
     "an xz archive; unpack it"},
    {"BZh", "a bzip2 archive; unpack it"},
    {"7z\xbc\xaf", "a 7z archive; unpack it"},
    {"\x89HDF", "an HDF5 file of TensorFlow; use the model's safetensors files"},
    {"\x93NUMPY", "an array of NumPy; use the model's safetensors files"}};

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// White space and the mark of the byte order.
constexpr std::string_view kBlank = " \t\r\n\xef\xbb\xbf";

bool is_web_page(std::string_view bytes) {
  const size_t begin = bytes.find_first_not_of(kBlank);
  if (begin == bytes.npos) return false;
  std::string start(bytes.substr(begin, 16));
  std::ranges::transform(start, start.begin(), lower);
  return start.starts_with("<!doctype") || start.starts_with("<html") || start.starts_with("<?xml");
}

// Returns true for the eight bytes of a length and the brace of the JSON behind them.
bool is_safetensors(std::string_view bytes) {
  constexpr uint32_t kLongest = 100'000'000;
  if (bytes.size() <= 8 || bytes[8] != '{' || bytes.substr(4, 4) != "\0\0\0\0"sv) return false;
  uint32_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof(length));
  return length <= kLongest;
}

// Returns the first line if it is printable, as the error of a web server is.
std::string_view first_line(std::string_view bytes) {
  constexpr size_t kLongest = 60;
  bytes.remove_prefix(std::min(bytes.find_first_not_of(kBlank), bytes.size()));
  const std::string_view line = bytes.substr(0, std::min(bytes.find_first_of("\r\n"), kLongest));
  const bool printable = std::ranges::all_of(line, [](char c) { return c >= ' ' && c <= '~'; });
  return printable ? line : std::string_view();
}

// A kind of files that hold weights or a whole model in another form.
struct Format {
  std::vector<std::string_view> endings;
  std::string text;
};
const std::vector<Format>& formats() {
  static const std::vector<Format> all = {
      {{".incomplete", ".crdownload", ".part", ".aria2", ".download"},
       "an unfinished download; finish it"},
      {{".zip", ".tar", ".tgz", ".gz", ".xz", ".zst", ".7z", ".bz2"}, "an archive; unpack it"},
      {{".bin", ".pt", ".pth", ".ckpt", ".pkl"},
       fmt::format("weights as Python pickles, which can run code; {}", kConvertPickle)},
      {{".onnx", ".onnx_data"}, "a model of ONNX; use the original model in safetensors"},
      {{".h5", ".msgpack", ".keras", ".tflite", ".npz", ".nemo", ".mlmodel"},
       "weights of another framework; use the original model in safetensors"}};
  return all;
}

bool has_any_ending(const std::string& name, const Format& format) {
  return std::ranges::any_of(format.endings, [&](auto end) { return name.ends_with(end); });
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

bool has(const std::vector<std::string>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

bool holds_model(const fs::path& folder) {
  const std::vector<std::string> names = names_in(folder);
  return has(names, "config.json") && std::ranges::any_of(names, [](const auto& name) {
           return name.ends_with(".safetensors");
         });
}

// Returns the first folder in `folder` that holds a model, two levels deep: in the cache of Hugging
// Face a model lies in snapshots/REVISION.
std::optional<fs::path> model_below(const fs::path& folder, int levels = 2) {
  for (const std::string& name : names_in(folder)) {
    std::error_code error;
    const fs::path path = folder / name;
    if (!fs::is_directory(path, error)) continue;
    if (holds_model(path)) return path;
    if (levels == 1) continue;
    if (const auto found = model_below(path, levels - 1)) return found;
  }
  return std::nullopt;
}

std::string describe_safetensors(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (!name.ends_with(".safetensors")) continue;
    if (name.starts_with("consolidated"))
      return name + " is in Mistral's own layout; use the model's files model-*.safetensors";
    if (name.starts_with("model-"))
      return name +
             " is a part of the weights, and model.safetensors.index.json is missing; "
             "download the whole folder";
    return name + " has another name than transformers gives to weights (model.safetensors)";
  }
  return {};
}

std::optional<std::string> adapter_file(const std::vector<std::string>& names) {
  constexpr std::string_view kAdapters[] = {"adapter_config.json", "adapters.safetensors",
                                            "adapters.npz", "pytorch_lora_weights.safetensors"};
  for (const std::string& name : names) {
    const bool known = std::ranges::find(kAdapters, name) != std::end(kAdapters);
    if (known || name.starts_with("adapter_model.")) return name;
  }
  return std::nullopt;
}

// Returns " for BASE" if adapter_config.json names the model that the adapter changes.
std::string base_of_adapter(const fs::path& folder) {
  const auto text = read_text_file(folder / "adapter_config.json", kMaxConfigBytes);
  if (!text.ok()) return {};
  const auto config = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!config.is_object()) return {};
  const auto name = config.find("base_model_name_or_path");
  if (name == config.end() || !name->is_string()) return {};
  return fmt::format(" for {:?}", name->get<std::string>());
}

}  // namespace

std::string describe_mistaken_file(std::string_view bytes) {
  constexpr size_t kTarMagic = 257;
  if (bytes.empty()) return "an empty file; download it again";
  for (const Signature& signature : kSignatures) {
    if (bytes.starts_with(signature.bytes)) return std::string(signature.text);
  }
  if (bytes.size() > kTarMagic && bytes.substr(kTarMagic).starts_with("ustar"))
    return "a tar archive; unpack it";
  if (is_web_page(bytes))
    return "a web page in place of the file; download the file itself (on huggingface.co its "
           "address has /resolve/ and not /blob/)";
  if (is_safetensors(bytes)) return "a safetensors file";
  if (bytes.find_first_not_of('\0') == bytes.npos) return "zeros only; download it again";
  const std::string_view line = first_line(bytes);
  if (line.empty() || line.front() == '{' || line.front() == '[' || line.front() == '"') return {};
  return fmt::format("a text that begins with {:?}; download the file again", line);
}

std::string describe_mistaken_file(std::span<const std::byte> bytes) {
  constexpr size_t kEnough = 4096;
  const size_t size = std::min(bytes.size(), kEnough);
  return describe_mistaken_file({reinterpret_cast<const char*>(bytes.data()), size});
}

Error explain_parse_error(const Error& error, std::string_view text, const std::string& source) {
  const std::string found = describe_mistaken_file(text);
  return found.empty() ? error : fail("{}: expected JSON, found {}", source, found);
}

Error open_error(const fs::path& path, int system_error) {
  const std::string name = path.empty() ? "\"\"" : path.string();
  const std::string reason = std::generic_category().message(system_error);
  std::error_code error;
  const fs::path target = fs::read_symlink(path, error);
  if (error || system_error != ENOENT) return fail("{}: cannot be read: {}", name, reason);
  const bool annex = target.string().find("annex/objects") != std::string::npos;
  return fail("{}: cannot be read: {}: it is a link to {}; {}", name, reason, target.string(),
              annex ? "run `git annex get` there" : "download the file again");
}

std::string describe_mistaken_folder(const fs::path& folder) {
  const std::vector<std::string> ggufs = gguf_models_in(folder);
  if (!ggufs.empty())
    return fmt::format("there {} {} in it; name {}: {}", ggufs.size() == 1 ? "is" : "are",
                       fmt::join(ggufs, ", "), ggufs.size() == 1 ? "the file" : "one of them",
                       (folder / ggufs.front()).string());
  if (const auto below = model_below(folder)) return "the model is in " + below->string();
  const std::vector<std::string> names = names_in(folder);
  for (const Format& format : formats()) {
    const auto found = std::ranges::find_if(
        names, [&](const std::string& name) { return has_any_ending(name, format); });
    if (found != names.end()) return fmt::format("{} is {}", *found, format.text);
  }
  if (const std::string text = describe_safetensors(names); !text.empty()) return text;
  if (has(names, "tokenizer.json") || has(names, "tokenizer.model"))
    return "it holds a tokenizer without a model; name the folder with the model's weights";
  if (has(names, "config.json"))
    return "it holds a config without weights; download the whole folder";
  return {};
}

Status refuse_missing(const fs::path& file) {
  std::error_code error;
  if (fs::exists(fs::symlink_status(file, error)) || has_mounted_text(file)) return {};
  NMM_TRY(refuse_adapter(file.parent_path()));
  const std::string found = describe_mistaken_folder(file.parent_path());
  if (found.empty()) return {};
  return fail("{}: is absent: {}", file.string(), found);
}

Status refuse_adapter(const fs::path& folder) {
  const std::vector<std::string> names = names_in(folder);
  const auto adapter = adapter_file(names);
  if (!adapter) return {};
  const bool beside = holds_model(folder);
  return fail(
      "{}: holds a LoRA adapter{} ({}){}; name {} as the model, and the adapter's folder with "
      "--adapter, or merge both with `neuronmm import MODEL --adapter DIR -o NEW`",
      folder.string(), base_of_adapter(folder), *adapter,
      beside ? " beside weights, which may have it merged already or not" : " and no model",
      beside ? "a folder of the weights alone" : "its base");
}

}  // namespace neuronmm::io
