#include "model/compress_flags.h"

#include <cstdlib>

#include <fmt/format.h>

#include "flags.h"
#include "model/float_folder.h"
#include "report_writer.h"
#include "training/metric_program.h"

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

void add_method_flags(CLI::App* command, CompressFlags& flags) {
  command
      ->add_option("--form", flags.form,
                   "form of the smaller MLPs: uv, two factors per matrix as in the paper; pivoted, "
                   "factors without their identity part; narrow, a narrower input that gate and up "
                   "share; neurons, fewer neurons; mixed, all of these where they pay; auto, mixed "
                   "or pivoted (with --bits also neurons), whichever loses less on held-out text. "
                   "Default: auto, or uv with --paper or --method svd")
      ->check(CLI::IsMember({"uv", "pivoted", "narrow", "neurons", "mixed", "auto"}));
  command
      ->add_option("--method", flags.method,
                   "error to minimise: two-sided, the change of the model's predictions, which "
                   "takes one backward pass (default, except for uv); whitened, the error of "
                   "outputs (default for uv); svd, the error of weights (uv only, needs no text)")
      ->check(CLI::IsMember({"whitened", "two-sided", "svd"}));
  const auto paper = command->add_flag(
      "--paper", flags.given.paper,
      "use the setting of the paper: --form uv, --method whitened, uniform ranks and --block 128");
  for (const std::string other : {"--form", "--method"}) {
    paper->excludes(command->get_option(other));
  }
  add_bits_flags(
      command, flags.bits,
      "bits of all linear weights, compressed or not: 8, 6 or 4. Default: weights keep their "
      "dtype");
}

void add_calibration_flags(CLI::App* command, CompressFlags& flags) {
  command
      ->add_option(
          "--calibration", flags.given.calibration,
          "file with text that the model runs on; - is standard input. Several files are sampled "
          "evenly. NAME.jsonl has documents. Method svd only measures its loss on it")
      ->allow_extra_args(false);
  command
      ->add_option(
          "--calibration-tokens", flags.given.calibration_tokens,
          "number of tokens to use of all texts together, evenly spread. Default: those of "
          "existing --statistics; else 131072 for uv without --statistics, 32768 otherwise")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
  command
      ->add_option("--self-generated", flags.given.self_generated,
                   "number of tokens that the model writes itself, at temperature 1, in place of "
                   "--calibration")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40))
      ->excludes("--calibration")
      ->excludes("--calibration-tokens");
  command->add_flag("--no-measure", flags.no_measure,
                    "do not compare the result with the dense model on 2048 tokens of the text, "
                    "which takes the memory of both models");
  command->add_option("--statistics", flags.given.statistics, kStatisticsHelp);
}

void add_rank_flags(CLI::App* command, CompressFlags& flags) {
  command
      ->add_option("--ratio", flags.given.ratio,
                   "share of parameters to remove from the MLPs, between 0 and 1")
      ->required()
      ->check(check_ratio, "", "between 0 and 1");
  command
      ->add_option("--block", flags.given.block,
                   "number of which all sizes are multiples. Default: 32, the panel of the CPU's "
                   "kernels; 128, the tile of a NeuronCore, with --paper")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
  command
      ->add_option("--allocate", flags.allocate,
                   "sizes of the layers: uniform, the same for all (default for uv); predicted, "
                   "the least predicted loss (default without a text); measured, corrected by "
                   "running the model with one layer at a time narrowed (default with a text). For "
                   "uv, measured moves rank to the matrices that the model needs most")
      ->check(CLI::IsMember({"uniform", "predicted", "measured"}));
  command->add_flag("--pad", flags.given.pad,
                    "form neurons: fill all layers with neurons of zeros up to the widest, so that "
                    "any program loads the folder");
}

}  // namespace

void add_compress_flags(CLI::App* command, CompressFlags& flags) {
  command
      ->add_option("MODEL_DIR", flags.given.model,
                   "model folder (for --dry-run its config.json is enough)")
      ->required();
  add_output_option(command, flags.given.out, "the new model folder");
  add_method_flags(command, flags);
  add_rank_flags(command, flags);
  add_calibration_flags(command, flags);
  command->add_flag("--dry-run", flags.dry_run,
                    "print all settings, sizes and bytes, and write nothing");
  command->add_flag("--force", flags.given.force, "replace an existing output folder");
  command->add_flag("--dequantize", flags.dequantize, kDequantizeHelp);
  add_json_option(command, flags.json);
  add_device_options(command, flags.device);
  command->parse_complete_callback([&flags] {
    require_one_stdin("--calibration", flags.given.calibration);
    if (flags.given.out.empty() && !flags.dry_run) {
      throw CLI::ValidationError("--output", "is needed (only --dry-run needs none)");
    }
    compress_settings(flags);
  });
}

compress::CompressSettings compress_settings(const CompressFlags& flags) {
  compress::CompressGiven given = flags.given;
  if (!flags.form.empty()) given.form = compress::parse_form(flags.form).value();
  if (!flags.method.empty()) given.method = compress::parse_method(flags.method).value();
  if (!flags.allocate.empty()) given.allocate = compress::parse_allocate(flags.allocate).value();
  given.bits = flags.bits.bits;
  given.group = flags.bits.group;
  given.lm_head_bits = flags.bits.lm_head_bits;
  given.embedding_bits = flags.bits.embedding_bits;
  given.can_make_metric = metric_program_available();
  given.text_comes_later = flags.dry_run;
  auto settings = compress::compress_settings(given, OptionNames::kFlags);
  if (!settings.ok()) throw CLI::ValidationError(settings.error().message);
  return *std::move(settings);
}

}  // namespace neuronmm::apps
