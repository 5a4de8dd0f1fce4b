#include "compress/statistics/work_folder.h"

#include <system_error>

#include "io/text_file.h"

namespace neuronmm::compress {

namespace fs = std::filesystem;

Status open_work_folder(const fs::path& folder, const std::string& settings,
                        const std::function<bool(const std::string& before)>& same) {
  const fs::path settings_path = folder / "settings.json";
  const auto before = io::read_text_file(settings_path, io::kMaxConfigBytes);
  if (before.ok() && (*before == settings || (same && same(*before)))) return {};
  std::error_code error;
  fs::remove_all(folder, error);
  if (error) return fail("{}: cannot be deleted: {}", folder.string(), error.message());
  fs::create_directories(folder, error);
  if (error) return fail("{}: cannot be created: {}", folder.string(), error.message());
  return io::write_text_file(settings_path, settings);
}

}  // namespace neuronmm::compress
