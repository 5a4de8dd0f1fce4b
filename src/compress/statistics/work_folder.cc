#include "compress/statistics/work_folder.h"

#include <system_error>

#include "io/atomic_file.h"
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
  NMM_TRY(io::make_folder(folder));
  return io::write_text_file(settings_path, settings);
}

}  // namespace neuronmm::compress
