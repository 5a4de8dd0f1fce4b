// The command neuronmm fit: finds and writes the best model within a budget of memory, time or
// loss.

#include "fit/fit.h"

#include <charconv>
#include <optional>

#include <nlohmann/json.hpp>

#include "byte_size.h"
#include "commands.h"
#include "flags.h"
#include "message.h"
#include "model/data_processes.h"
#include "model/fit_report.h"
#include "output_file.h"
#include "plot/page.h"
#include "processes.h"
#include "report_writer.h"

namespace neuronmm::apps {
namespace {

struct FitFlags {
  fit::FitGiven given;
  std::optional<int64_t> bytes;
  std::string decode, prefill;
  std::string json, html;
  DeviceOptions device;
};

// Splits a text into a positive number at its beginning and the rest. Returns nothing if there is
// no such number.
std::optional<std::pair<double, std::string>> number_and_rest(const std::string& text) {
  double value = 0.0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value);
  if (error != std::errc() || !(value > 0.0) || value > 1e18) return std::nullopt;
  return std::pair(value, std::string(end, last));
}

// Returns the factor that a text like "2x" means.
double times_of(const char* flag, const std::string& text) {
  const auto read = number_and_rest(text);
  if (read && (read->second == "x" || read->second.empty())) return read->first;
  throw CLI::ValidationError(flag, fmt::format("expected a factor like 1.5x, found {:?}", text));
}

// Returns the complete request. Throws CLI::ValidationError with the library's message if it
// refuses the flags.
fit::FitRequest fit_request(const FitFlags& flags) {
  fit::FitGiven given = flags.given;
  if (flags.bytes) given.budget.bytes = static_cast<double>(*flags.bytes);
  if (!flags.decode.empty()) given.budget.decode = times_of("--decode", flags.decode);
  if (!flags.prefill.empty()) given.budget.prefill = times_of("--prefill", flags.prefill);
  require_one_stdin("--calibration", given.calibration);
  given.simulated = flags.device.simulated();
  auto request = fit::fit_settings(given, OptionNames::kFlags);
  if (!request.ok()) throw CLI::ValidationError(request.error().message);
  return *std::move(request);
}

Result<int> fit_with(const FitFlags& flags, const ops::Backend& backend,
                     compress::DataParallel* helpers) {
  fit::FitRequest request = fit_request(flags);
  NMM_ASSIGN(ReportWriter report, ReportWriter::open(flags.json));
  NMM_ASSIGN(OutputFile html, OutputFile::open(flags.html));
  NMM_TRY(compress::read_texts(request.calibration));
  const fit::Device device = {[&flags] { return make_own_latency_backend(flags.device); },
                              flags.device.simulated()};
  Progress progress(stderr);
  NMM_ASSIGN(const auto result, fit::fit(request, device, backend, progress, helpers));
  if (flags.device.simulated()) {
    report.print("speeds are predictions for {}: no Trainium was used\n", flags.device.device);
  }
  print_fit(report, request, result);
  if (html.wanted()) {
    NMM_ASSIGN(const std::string page, finished_page(fit_page(request, result)));
    NMM_TRY(html.write(page));
  }
  NMM_TRY(report.write_json(fit_json(request, result)));
  return 0;
}

Result<int> run_fit(const FitFlags& flags) {
  DeviceOptions host = flags.device;
  if (host.simulated()) host.device = "cpu";
  return run_data_parallel(flags.given.model, host,
                           [&](const ops::Backend& backend, compress::DataParallel* helpers) {
                             return fit_with(flags, backend, helpers);
                           });
}

void add_budget(CLI::App* command, FitFlags& flags) {
  command
      ->add_option("--bytes", flags.bytes, "Keep all weights within SIZE: 80M (10^6), 80MiB (2^20)")
      ->transform(byte_size())
      ->type_name("SIZE")
      ->group(kQuality);
  command
      ->add_option("--max-kl", flags.given.budget.divergence,
                   "Find the smallest model within X nats per token of KL divergence")
      ->check(real_range(1e-9, 1e3))
      ->group(kQuality);
  command
      ->add_option("--decode", flags.decode, "Decode this many times as fast as MODEL_DIR, as 2x")
      ->type_name("X")
      ->group(kSpeed);
  command
      ->add_option("--prefill", flags.prefill, "Read 512 tokens this many times as fast, as 1.5x")
      ->type_name("X")
      ->group(kSpeed);
}

void add_output_flags(CLI::App* command, FitFlags& flags) {
  add_output_option(command, flags.given.out, "Write the model to this new folder");
  add_force_option(command, flags.given.force);
  command->add_flag("--plan", flags.given.plan_only, "Print what would be chosen; write no model")
      ->group(kOutput);
  add_json_option(command, flags.json);
  command->add_option("--html", flags.html, "Also write a page with plots of the possible models")
      ->type_name("FILE")
      ->group(kOutput);
}

}  // namespace

void add_fit(Program& program) {
  const auto flags = std::make_shared<FitFlags>();
  CLI::App* command =
      program.add(CommandGroup::kModels, "fit", "Find and write the best model within a budget",
                  {"neuronmm fit MODEL_DIR -o small --bytes 80M --calibration text.txt",
                   "neuronmm fit MODEL_DIR -o fast --decode 2x --calibration text.txt"});
  command
      ->add_option("MODEL_DIR", flags->given.model,
                   "Folder, GGUF file or Hugging Face name of a dense model")
      ->required()
      ->group(kInput);
  add_calibration_option(command, flags->given.calibration)->required();
  add_calibration_tokens_option(command, flags->given.calibration_tokens, "10240");
  add_output_flags(command, *flags);
  add_budget(command, *flags);
  add_device_options(command, flags->device, Devices::kHostAndSimulated);
  command
      ->add_option("--sensitivities", flags->given.sensitivities,
                   "Keep measurements for later budgets")
      ->type_name("DIR")
      ->default_str("OUTPUT.fit")
      ->group(kAdvanced);
  command->add_option("--block", flags->given.block, "Make sizes multiples of N")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20))
      ->default_str("32; trn1 to trn3 128")
      ->group(kAdvanced);
  command
      ->add_option("--embedding-bits", flags->given.embedding_bits,
                   "Use 16, 8, 6 or 4 bits for the table")
      ->check(CLI::IsMember({16, 8, 6, 4}))
      ->default_str("what loses least")
      ->group(kAdvanced);
  program.set_usage(command,
                    "MODEL_DIR --calibration FILE -o DIR "
                    "(--bytes SIZE | --max-kl X | --decode X | --prefill X)");
  command->footer(
      "The command measures once what single changes of the model cost, which takes\n"
      "minutes. With the same --sensitivities the next budget skips that part.");
  command->parse_complete_callback([flags] { fit_request(*flags); });
  program.set_run(
      command, [flags] { return run_fit(*flags); }, ProcessMode::kDataParallel);
}

}  // namespace neuronmm::apps
