#include "io/mounted_model.h"

#include <algorithm>
#include <atomic>
#include <mutex>

#include <nlohmann/json.hpp>

#include "io/file_identity.h"
#include "io/gguf.h"

namespace neuronmm::io {
namespace {

namespace fs = std::filesystem;
using Model = std::shared_ptr<const MountedModel>;

std::atomic<MountOpener> opener = nullptr;

// The models that were opened, by the identity of their file. Commands open a model several times,
// and its metadata may have hundreds of thousands of strings.
class OpenedModels {
 public:
  Result<Model> get(const fs::path& file, MountOpener open) {
    NMM_ASSIGN(const auto identity, file_identity(file));
    constexpr auto kReplace = nlohmann::ordered_json::error_handler_t::replace;
    const std::string key = identity.dump(-1, ' ', false, kReplace);
    const std::scoped_lock lock(mutex_);
    if (const auto found = models_.find(key); found != models_.end()) return found->second;
    NMM_ASSIGN(Model model, open(file));
    return models_[key] = std::move(model);
  }

 private:
  std::mutex mutex_;
  std::map<std::string, Model> models_;
};

OpenedModels& opened_models() {
  static OpenedModels models;
  return models;
}

bool has_text(const MountedModel& model, std::string_view name) {
  const std::vector<std::string> names = model.texts();
  return std::ranges::find(names, name) != names.end();
}

}  // namespace

void set_mount_opener(MountOpener function) { opener = function; }

Result<Model> mounted_model(const fs::path& path) {
  const MountOpener open = opener;
  if (open == nullptr || !is_gguf(path)) return Model();
  return opened_models().get(path, open);
}

Result<std::optional<std::string>> mounted_text(const fs::path& path) {
  NMM_ASSIGN(const Model model, mounted_model(path.parent_path()));
  const std::string name = path.filename().string();
  if (model == nullptr || !has_text(*model, name)) return std::optional<std::string>();
  NMM_ASSIGN(std::string text, model->text(name));
  return std::optional(std::move(text));
}

bool has_mounted_text(const fs::path& path) {
  const auto model = mounted_model(path.parent_path());
  return model.ok() && *model != nullptr && has_text(**model, path.filename().string());
}

}  // namespace neuronmm::io
