#include "compress/statistics/work_folder.h"

#include <system_error>

#include "io/atomic_file.h"
#include "io/text_file.h"
#include "io/unfinished_work.h"

namespace neuronmm::compress {

namespace fs = std::filesystem;

Status open_work_folder(const fs::path& folder, const std::string& settings, OtherWork other,
                        Progress& progress,
                        const std::function<bool(const std::string& before)>& same) {
  const fs::path settings_path = folder / io::kWorkSettingsName;
  const auto before = io::read_text_file(settings_path, io::kMaxConfigBytes);
  const bool has_work = io::has_unfinished_work(folder);
  const std::string name = folder.parent_path().string();
  if (before.ok() && (*before == settings || (same && same(*before)))) {
    if (has_work) progress.print(name + ": goes on with the work of an interrupted run");
    return {};
  }
  const auto changed = io::changed_input(folder);
  if (has_work && changed) {
    progress.print(
        fmt::format("{}: the work of an interrupted run cannot be used, because {} has "
                    "changed since; begins again",
                    name, *changed));
  } else if (has_work) {
    const std::string difference = io::settings_difference(folder, settings);
    if (other == OtherWork::kRefuse) return io::other_work_error(folder, difference);
    progress.print(
        fmt::format("{}: the unfinished work there has other settings ({}) and is "
                    "deleted, as asked",
                    name, difference));
  }
  std::error_code error;
  fs::remove_all(folder, error);
  if (error) return fail("{}: cannot be deleted: {}", folder.string(), error.message());
  NMM_TRY(io::make_folder(folder));
  return io::write_text_file(settings_path, settings);
}

}  // namespace neuronmm::compress
