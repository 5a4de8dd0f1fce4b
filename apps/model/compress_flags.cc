#include "model/compress_flags.h"

#include <cstdlib>

#include <fmt/format.h>

#include "flags.h"
#include "model/float_folder.h"
#include "model/reconstruct_option.h"
#include "report_writer.h"

namespace neuronmm::apps {
namespace {

// Returns an error text unless the ratio lies between 0 and 1. CLI11's Range would accept both
// ends, which leave everything or nothing.
std::string check_ratio(const std::string& text) {
  char* end = nullptr;
  const double ratio = std::strtod(text.c_str(), &end);
  if (!text.empty() && *end == '\0' && ratio > 0.0 && ratio < 1.0) return {};
  return fmt::format("expected a number between 0 and 1, found \"{}\"", text);
}

void add_quality_flags(CLI::App* command, CompressFlags& flags) {
  command
      ->add_option("--ratio", flags.given.ratio,
                   "Remove this share of the MLPs' parameters, 0 to 1")
      ->required()
      ->check(check_ratio, "", "between 0 and 1")
      ->group(kQuality);
  add_bits_flags(command, flags.bits, "Also round all linear weights to 8, 6 or 4 bits");
  command
      ->add_option("--form", flags.form,
                   "Use auto, mixed, pivoted, narrow, neurons, uv; basis or experts")
      ->check(CLI::IsMember(
          {"uv", "pivoted", "narrow", "neurons", "mixed", "experts", "basis", "auto"}))
      ->type_name("FORM")
      ->default_str("auto")
      ->group(kQuality);
}

void add_method_flags(CLI::App* command, CompressFlags& flags) {
  add_reconstruct_option(command, flags.reconstruct);
  command
      ->add_option(
          "--method", flags.method,
          "Minimise the loss by two-sided, whitened or svd (default two-sided, uv whitened)")
      ->check(CLI::IsMember({"whitened", "two-sided", "svd"}))
      ->type_name("METHOD")
      ->group(kAdvanced);
  command
      ->add_option(
          "--allocate", flags.allocate,
          "Choose layer sizes by uniform, predicted or measured (default measured, uv uniform)")
      ->check(CLI::IsMember({"uniform", "predicted", "measured"}))
      ->type_name("HOW")
      ->group(kAdvanced);
  command->add_option("--block", flags.given.block, "Make sizes multiples of N")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20))
      ->default_str("32, with --paper 128")
      ->group(kAdvanced);
  const auto paper =
      command->add_flag("--paper", flags.given.paper, "Compress as the paper does, with --form uv")
          ->group(kAdvanced);
  for (const std::string other : {"--form", "--method"}) {
    paper->excludes(command->get_option(other));
  }
  command->add_flag("--pad", flags.given.pad, "Pad layers of form neurons to one width")
      ->group(kRare);
  command->add_flag("--dequantize", flags.dequantize, kDequantizeHelp)->group(kRare);
}

void add_text_flags(CLI::App* command, CompressFlags& flags) {
  add_calibration_option(command, flags.given.calibration);
  add_calibration_tokens_option(command, flags.given.calibration_tokens, "32768, uv 131072");
  command
      ->add_option("--self-generated", flags.given.self_generated,
                   "Calibrate on N tokens that the model writes")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40))
      ->excludes("--calibration")
      ->excludes("--calibration-tokens")
      ->group(kInput);
  add_statistics_option(command, flags.given.statistics);
  command->add_flag("--no-measure", flags.no_measure, "Skip the comparison with the dense model")
      ->group(kSpeed);
}

}  // namespace

void add_compress_flags(CLI::App* command, CompressFlags& flags) {
  command
      ->add_option("MODEL_DIR", flags.given.model,
                   "Folder, GGUF file or name; --dry-run needs config.json only")
      ->required()
      ->group(kInput);
  add_text_flags(command, flags);
  add_output_option(command, flags.given.out, "Write the smaller model to this new folder");
  add_force_option(command, flags.given.force);
  command->add_flag("--dry-run", flags.dry_run, "Print settings, sizes and bytes; write nothing")
      ->group(kOutput);
  add_json_option(command, flags.json);
  add_quality_flags(command, flags);
  add_method_flags(command, flags);
  add_device_options(command, flags.device);
  command->parse_complete_callback([&flags] {
    require_one_stdin("--calibration", flags.given.calibration);
    if (flags.given.out.empty() && !flags.dry_run) {
      throw CLI::ValidationError("--output", "is needed (only --dry-run needs none)");
    }
    compress_settings(flags);
  });
}

compress::CompressRequest compress_settings(const CompressFlags& flags) {
  compress::CompressGiven given = flags.given;
  if (!flags.form.empty()) given.form = compress::parse_form(flags.form).value();
  if (!flags.method.empty()) given.method = compress::parse_method(flags.method).value();
  if (!flags.allocate.empty()) given.allocate = compress::parse_allocate(flags.allocate).value();
  if (!flags.reconstruct.empty()) {
    given.reconstruct = compress::parse_reconstruct(flags.reconstruct).value();
  }
  given.bits = flags.bits.bits;
  given.group = flags.bits.group;
  given.lm_head_bits = flags.bits.lm_head_bits;
  given.embedding_bits = flags.bits.embedding_bits;
  given.text_comes_later = flags.dry_run;
  auto settings = compress::compress_settings(given, OptionNames::kFlags);
  if (!settings.ok()) throw CLI::ValidationError(settings.error().message);
  return *std::move(settings);
}

}  // namespace neuronmm::apps
