#include "exports/export_folder.h"

#include <algorithm>
#include <system_error>

#include "compress/output/transformers_code.h"
#include "eval/reference_file.h"
#include "exports/payload.h"
#include "exports/readme.h"
#include "exports/written_files.h"
#include "io/atomic_file.h"
#include "io/folder_writer.h"
#include "io/linked_file.h"
#include "io/model_files.h"
#include "io/shards.h"
#include "io/text_file.h"

namespace neuronmm::exports {
namespace {

namespace fs = std::filesystem;

Status write_file(const fs::path& path, std::string_view text) {
  NMM_TRY(io::make_folder(path.parent_path()));
  return io::write_text_file(path, text);
}

// Lists the weight files: model.safetensors, or the shards and their index.
Result<std::vector<fs::path>> weight_files(const fs::path& model) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator entry(model, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const bool shard = name.starts_with("model-") && name.ends_with(".safetensors");
    if (name == io::kSingleFileName || name == io::kIndexFileName || shard) {
      files.push_back(entry->path());
    }
  }
  if (error) return fail("{}: cannot be read: {}", model.string(), error.message());
  std::ranges::sort(files);
  return files;
}

Status write_model(const fs::path& model, const fs::path& folder) {
  NMM_TRY(io::make_folder(folder));
  const fs::path config = model / "config.json";
  NMM_ASSIGN(const std::string text, io::read_public_config(config));
  NMM_TRY(compress::write_transformers_files(folder, text, config.string()));
  NMM_ASSIGN(const std::vector<fs::path> weights, weight_files(model));
  for (const fs::path& file : weights) {
    NMM_TRY(io::link_or_copy(file, folder / file.filename()));
  }
  NMM_TRY(io::copy_model_files(model, folder));
  return io::sync_folder(folder);
}

Status write_all(const fs::path& model, const fs::path& folder, const Manifest& manifest,
                 const eval::ReferenceLogits& golden) {
  NMM_TRY(write_model(model, folder / "model"));
  for (const PayloadFile& file : payload(manifest.target)) {
    NMM_TRY(write_file(folder / file.path, file.text));
  }
  for (const ExportedKernel& kernel : manifest.kernels) {
    NMM_TRY(write_file(folder / "kernels" / kernel.file, kernel.source));
  }
  if (!manifest.kernels.empty()) {
    NMM_TRY(write_file(folder / "kernels" / "kernels.json", kernels_json(manifest.kernels)));
  }
  NMM_TRY(eval::write_reference_logits(folder / "golden.safetensors", golden));
  NMM_TRY(write_file(folder / "README.md", readme(manifest)));
  NMM_ASSIGN(const auto files, written_files(folder));
  return write_file(folder / "export.json", export_json(manifest, files));
}

}  // namespace

Status check_output(const fs::path& out) {
  io::remove_remains(out);
  std::error_code ignored;
  if (!fs::exists(fs::symlink_status(out, ignored))) return {};
  return fail("{}: already exists; name another folder, or remove it", out.string());
}

Status write_export(const fs::path& model, const fs::path& out, const Manifest& manifest,
                    const eval::ReferenceLogits& golden, const io::BeforeOutput<>& before_output) {
  NMM_TRY(check_output(out));
  auto created = io::FolderWriter::create(out, io::FolderWriter::IfExists::kRefuse, model,
                                          io::FolderWriter::Resume::kNever);
  // The kind of the error would promise that a flag replaces what is there.
  if (!created.ok()) return fail("{}", created.error().message);
  io::FolderWriter writer = std::move(created).value();
  NMM_TRY(write_all(model, writer.staging(), manifest, golden));
  if (before_output) NMM_TRY(before_output());
  return writer.commit();
}

}  // namespace neuronmm::exports
