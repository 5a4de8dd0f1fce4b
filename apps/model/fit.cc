// The command neuronmm fit: finds and writes the best model within a budget of memory, time or
// loss.

#include "fit/fit.h"

#include <charconv>
#include <optional>

#include <nlohmann/json.hpp>

#include "commands.h"
#include "flags.h"
#include "message.h"
#include "model/data_processes.h"
#include "model/fit_report.h"
#include "output_file.h"
#include "processes.h"
#include "report_writer.h"
#include "training/metric_program.h"

namespace neuronmm::apps {
namespace {

struct FitFlags {
  fit::FitGiven given;
  std::string bytes, decode, prefill;
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

// Returns the bytes that a text like "80M" (80·10⁶) means.
double bytes_of(const std::string& text) {
  const auto read = number_and_rest(text);
  const std::string unit = read ? read->second : "?";
  const double times = unit.empty()  ? 1.0
                       : unit == "K" ? 1e3
                       : unit == "M" ? 1e6
                       : unit == "G" ? 1e9
                                     : 0.0;
  if (times == 0.0) {
    throw CLI::ValidationError(
        "--bytes", fmt::format("expected a number of bytes like 80M or 1.2G, found {:?}", text));
  }
  return read->first * times;
}

// Returns the factor that a text like "2x" means.
double times_of(const char* flag, const std::string& text) {
  const auto read = number_and_rest(text);
  if (read && (read->second == "x" || read->second.empty())) return read->first;
  throw CLI::ValidationError(flag, fmt::format("expected a factor like 1.5x, found {:?}", text));
}

// Returns the complete settings. Throws CLI::ValidationError with the library's message if it
// refuses the flags.
fit::FitSettings fit_settings(const FitFlags& flags) {
  fit::FitGiven given = flags.given;
  if (!flags.bytes.empty()) given.budget.bytes = bytes_of(flags.bytes);
  if (!flags.decode.empty()) given.budget.decode = times_of("--decode", flags.decode);
  if (!flags.prefill.empty()) given.budget.prefill = times_of("--prefill", flags.prefill);
  require_one_stdin("--calibration", given.calibration);
  given.simulated = flags.device.simulated();
  given.can_make_metric = metric_program_available();
  auto settings = fit::fit_settings(given, OptionNames::kFlags);
  if (!settings.ok()) throw CLI::ValidationError(settings.error().message);
  return *std::move(settings);
}

Result<int> fit_with(const FitFlags& flags, const ops::Backend& backend,
                     compress::DataParallel* helpers) {
  fit::FitSettings settings = fit_settings(flags);
  fit::FitRequest& request = settings.request;
  NMM_ASSIGN(ReportWriter report, ReportWriter::open(flags.json));
  NMM_ASSIGN(OutputFile html, OutputFile::open(flags.html));
  NMM_TRY(compress::read_texts(request.calibration));
  for (const std::string& note : settings.notes) print_message("note: {}\n", note);
  const fit::Device device = {[&flags] { return make_own_latency_backend(flags.device); },
                              flags.device.simulated()};
  const compress::MakeMetric make_metric =
      [&](const std::vector<std::vector<text::TokenId>>& sequences,
          const std::filesystem::path& file) {
        return run_metric_program({.model = request.model,
                                   .sequences = sequences,
                                   .out = file,
                                   .threads = flags.device.threads});
      };
  Progress progress(stderr);
  NMM_ASSIGN(const auto result, fit::fit(request, device, backend, progress, make_metric, helpers));
  if (flags.device.simulated()) {
    report.print("speeds are predictions for {}: no Trainium was used\n", flags.device.device);
  }
  print_fit(report, request, result);
  if (html.wanted()) NMM_TRY(html.write(fit_page(request, result)));
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
  command->add_option(
      "--bytes", flags.bytes,
      "largest number of bytes of all weights; 80M is 80 million, 1.2G is 1200 million");
  command->add_option(
      "--decode", flags.decode,
      "smallest speed-up of decoding over MODEL_DIR on the same device, such as 2x");
  command->add_option("--prefill", flags.prefill,
                      "smallest speed-up of a prompt of 512 tokens over MODEL_DIR, such as 1.5x");
  command
      ->add_option("--max-kl", flags.given.budget.divergence,
                   "largest KL divergence from MODEL_DIR, in nats per token. With it fit finds the "
                   "smallest model, otherwise the one with the least divergence")
      ->check(real_range(1e-9, 1e3));
}

}  // namespace

void add_fit(Program& program) {
  const auto flags = std::make_shared<FitFlags>();
  CLI::App* command =
      program.add(CommandGroup::kModels, "fit", "Find and write the best model within a budget");
  command->add_option("MODEL_DIR", flags->given.model, "a Hugging Face model folder, dense")
      ->required();
  add_output_option(command, flags->given.out, "the new model folder");
  add_budget(command, *flags);
  command
      ->add_option("--calibration", flags->given.calibration,
                   "file with text on which losses are measured; - is standard input. Several "
                   "files are sampled evenly. NAME.jsonl has documents")
      ->required()
      ->allow_extra_args(false);
  command
      ->add_option("--calibration-tokens", flags->given.calibration_tokens,
                   "number of tokens to use of all texts together, evenly spread (default 10240)")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
  command->add_option(
      "--sensitivities", flags->given.sensitivities,
      "folder for the measurements of the model, which serve later budgets (default OUT.fit)");
  command
      ->add_option(
          "--block", flags->given.block,
          "number of which all sizes are multiples (default 32; 128 for simulated devices)")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
  command
      ->add_option(
          "--embedding-bits", flags->given.embedding_bits,
          "round the embedding table to 8, 6 or 4 bits, or leave it with 16 (default: what "
          "loses least)")
      ->check(CLI::IsMember({16, 8, 6, 4}));
  command->add_flag("--plan", flags->given.plan_only,
                    "print what would be chosen, and write no model");
  command->add_option("--html", flags->html,
                      "also write this page, with plots of the models to choose from");
  add_device_options(command, flags->device, Devices::kHostAndSimulated);
  add_json_option(command, flags->json);
  command->add_flag("--force", flags->given.force, "replace an existing output folder");
  command->footer(
      "What single changes cost is measured once (minutes); further budgets with the same\n"
      "--sensitivities take as long as it takes to write the model and to measure it.");
  command->parse_complete_callback([flags] { fit_settings(*flags); });
  program.set_run(
      command, [flags] { return run_fit(*flags); }, ProcessMode::kDataParallel);
}

}  // namespace neuronmm::apps
