// The command neuronmm demo: copies the bundled model, its texts and the example kernels.

#include <filesystem>
#include <string>
#include <system_error>

#include "commands.h"
#include "flags.h"
#include "installed_files.h"
#include "io/folder_writer.h"
#include "report_writer.h"

namespace neuronmm::apps {
namespace {

namespace fs = std::filesystem;

constexpr InstalledFolder kModel = {.name = "models/demo",
                                    .link = "bundled_models/demo",
                                    .source = "models/demo",
                                    .file = "config.json",
                                    .purpose = "the files of the bundled model"};
constexpr InstalledFolder kKernels = {.name = "examples/kernel",
                                      .link = "bundled_examples/kernel",
                                      .source = "examples/kernel",
                                      .file = "step3_correct.py",
                                      .purpose = "the example kernels"};

// Copies the files of the folder, which has no folders of its own to copy.
Status copy_files(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::create_directories(to, error);
  if (error) return fail("{}: cannot be made: {}", to.string(), error.message());
  fs::directory_iterator entry(from, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    if (!entry->is_regular_file(error)) continue;
    const fs::path target = to / entry->path().filename();
    fs::copy_file(entry->path(), target, error);
    if (error)
      return fail("{}: cannot be copied to {}: {}", entry->path().string(), target.string(),
                  error.message());
  }
  if (error) return fail("{}: cannot be read: {}", from.string(), error.message());
  return {};
}

Result<int> run_demo(const std::string& out) {
  NMM_ASSIGN(const ReportWriter report, ReportWriter::open({}));
  NMM_ASSIGN(const fs::path model, find_installed(kModel));
  NMM_ASSIGN(const fs::path kernels, find_installed(kKernels));
  io::remove_remains(out);
  std::error_code error;
  if (fs::exists(out, error)) return fail("{}: already exists; -o names a new folder", out);
  NMM_ASSIGN(io::FolderWriter writer,
             io::FolderWriter::create(out, io::FolderWriter::IfExists::kRefuse, {},
                                      io::FolderWriter::Resume::kNever));
  NMM_TRY(copy_files(model, writer.staging() / kModel.name));
  NMM_TRY(copy_files(kernels, writer.staging() / kKernels.name));
  NMM_TRY(writer.commit());
  report.print("the bundled model, its texts and the example kernels were written to {}\n", out);
  return 0;
}

}  // namespace

void add_demo(Program& program) {
  auto out = std::make_shared<std::string>();
  CLI::App* command = program.add(
      CommandGroup::kModels, "demo", "Copy the bundled model, its texts and the example kernels",
      {"neuronmm demo -o try",
       "neuronmm demo -o try && cd try && neuronmm generate models/demo \"One day\""});
  add_output_option(command, *out, "Write models/demo and examples/kernel to this new folder")
      ->required();
  command->footer("The commands of the guides work in that folder as they stand.");
  program.set_run(command, [out] { return run_demo(*out); });
}

}  // namespace neuronmm::apps
