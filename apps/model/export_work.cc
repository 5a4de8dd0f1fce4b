#include "model/export_work.h"

#include <utility>

#include "base/notices.h"
#include "io/unfinished_work.h"

namespace neuronmm::apps {
namespace {

namespace fs = std::filesystem;

fs::path folder_of(const fs::path& out) { return out.string() + ".partial"; }

Status remove_after(const fs::path& out, const io::StagingFolder& folder) {
  const Status removed = folder.remove();
  if (removed.ok()) return {};
  return fail("{}: complete, but what it was made from is left over: {}", out.string(),
              removed.error().message);
}

}  // namespace

Status ExportWork::remove_used(const fs::path& out) {
  NMM_ASSIGN(const auto folder, io::StagingFolder::find(folder_of(out)));
  if (!folder || !folder->is_committed(out)) return {};
  return remove_after(out, *folder);
}

Result<ExportWork> ExportWork::create(const fs::path& out) {
  NMM_ASSIGN(auto folder, io::StagingFolder::create(folder_of(out)));
  ExportWork work(out, std::move(folder));
  NMM_TRY(work.folder_->mark_in_use());
  return work;
}

ExportWork::ExportWork(fs::path out, io::StagingFolder folder)
    : out_(std::move(out)), folder_(std::move(folder)) {}
ExportWork::ExportWork(ExportWork&& other) noexcept
    : out_(std::move(other.out_)), folder_(std::exchange(other.folder_, std::nullopt)) {}

ExportWork::~ExportWork() {
  if (!folder_ || io::has_unfinished_work(path())) return;
  const Status removed = folder_->remove();
  if (!removed.ok()) notify(removed.error().message + "; the next run for it will delete it");
}

Status ExportWork::remove() {
  const io::StagingFolder folder = *std::exchange(folder_, std::nullopt);
  return remove_after(out_, folder);
}

}  // namespace neuronmm::apps
