// `neuronmm emit` writes a kernel as NKI source, for one shape and tiling.

#include <filesystem>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "flags.h"
#include "kernel/emitted_source.h"
#include "kernel/kernel_check.h"
#include "kernel/sdk_option.h"
#include "message.h"
#include "output_file.h"
#include "report_writer.h"
#include "trainium/tile/counts.h"

namespace neuronmm::apps {
namespace {

using Json = nlohmann::ordered_json;

// The number of instructions from which a warning is printed. A public report describes a kernel of
// about 300,000 instructions that compiled for hours in 40 GB (aws-neuron-sdk issue 1374). The
// compiler refuses more than 5 million (issue 819).
constexpr int64_t kManyInstructions = 500'000;

struct EmitFlags {
  KernelFlags kernel;
  std::string output, json, sdk, driver;
  bool force = false;
};

// Refuses a program that does not fit the device: the compiler would spill, and the times would
// differ. The message names the single changes of the tiling that would help.
Status check_fits(const KernelSettings& s) {
  NMM_ASSIGN(const tile::CheckReport report, check_program(s));
  if (report.fits()) return {};
  std::string message = fmt::format("{} with --tiling {} does not fit {}:", s.kernel->name,
                                    tiling_text(s.tiling), s.device.name);
  for (const std::string& reason : report.over_capacity) message += "\n  " + reason;
  std::string changes;
  for (const std::string& change : changes_that_fit(s)) {
    changes += fmt::format("{}{}", changes.empty() ? "" : ", or ", change);
  }
  if (!changes.empty()) message += "\n  it would with " + changes;
  return fail("{}", message);
}

// An existing output is not replaced without --force, because the user may have edited it.
Status check_output(const EmitFlags& flags) {
  std::error_code ignored;
  if (flags.force || !std::filesystem::exists(flags.output, ignored)) return {};
  return Error{flags.output + ": already exists", Error::Kind::kExists};
}

nki::Release release_of(const EmitFlags& flags, std::string_view device) {
  return nki::find_release(flags.sdk).value_or(nki::newest_release(device));
}

// The file is opened before the search for a tiling, which may take minutes.
Result<int> run_emit(const EmitFlags& flags) {
  NMM_TRY(check_output(flags));
  NMM_ASSIGN(OutputFile output, OutputFile::open(flags.output));
  NMM_ASSIGN(ReportWriter report, ReportWriter::open(flags.json));
  NMM_ASSIGN(const KernelSettings settings, read_settings(flags.kernel));
  NMM_TRY(check_fits(settings));
  NMM_ASSIGN(const KernelSettings all, settings_of_all_cores(settings));
  const int64_t instructions = tile::count(settings.program).instructions;
  const nki::Release release = release_of(flags, settings.device.name);
  const std::string unsuited = nki::why_unsuited(release, settings.device.name);
  if (!unsuited.empty()) {
    print_message("warning: --device {} --sdk {}: {}\n", settings.device.name, release.sdk,
                  unsuited);
  }
  if (instructions > kManyInstructions) {
    print_message(
        "warning: {} instructions; compilers have taken hours and 40 GB for 300,000, and refuse "
        "more than 5,000,000\n",
        instructions);
  }
  NMM_ASSIGN(const std::string source,
             emitted_source(all, release, nki::find_driver(flags.driver)));
  // The report comes first, because a second run refuses to replace the kernel.
  NMM_TRY(report.write_json(Json{{"output", flags.output},
                                 {"kernel", settings.kernel->name},
                                 {"shape", shape_text(settings)},
                                 {"tiling", tiling_text(settings.tiling)},
                                 {"device", settings.device.name},
                                 {"sdk", release.sdk},
                                 {"dialect", nki::dialect_name(release.dialect)},
                                 {"cores", settings.cores},
                                 {"instructions", instructions},
                                 {"driver", text_or_null(flags.driver)}}));
  NMM_TRY(output.write(source));
  report.print("{}: {} for {}, tiling {}\n{} instructions{} when its loops are unrolled\n",
               flags.output, settings.kernel->name, shape_text(all), tiling_text(settings.tiling),
               instructions, settings.cores > 1 ? " of each core" : "");
  return 0;
}

}  // namespace

void add_emit(Program& program) {
  auto flags = std::make_shared<EmitFlags>();
  CLI::App* command =
      program.add(CommandGroup::kKernels, "emit", "Write a kernel as NKI source for Trainium",
                  {"neuronmm emit xuv --shape 512,512,256,512 -o kernel.py",
                   "neuronmm emit xuv --shape 512,512,256,512 -o kernel.py --driver torch"});
  add_kernel_flags(command, flags->kernel);
  command->get_option("--device")->description("Write for trn1, trn2 or trn3");
  add_output_option(command, flags->output, "Write this Python file")
      ->type_name("FILE")
      ->required();
  command->add_flag("--force", flags->force, "Replace the file if it exists")->group(kOutput);
  add_sdk_option(command, flags->sdk);
  command
      ->add_option("--driver", flags->driver,
                   "Add a main that checks it with torch, numpy or simulate")
      ->check(CLI::IsMember(nki::driver_names()))
      ->type_name("NAME")
      ->group(kOutput);
  add_json_option(command, flags->json, "what was emitted");
  program.set_run(command, [flags] { return run_emit(*flags); });
}

}  // namespace neuronmm::apps
