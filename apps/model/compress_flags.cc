#include "model/compress_flags.h"

#include <cstdlib>

#include <fmt/format.h>

#include "flags.h"
#include "model/float_folder.h"
#include "model/metric_program.h"
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

void add_method_flags(CLI::App* command, CompressFlags& flags) {
  command
      ->add_option("--form", flags.form,
                   "what becomes of an MLP: uv, two factors per matrix (the paper's); pivoted, "
                   "factors of which an identity is left out; narrow, gate and up share a narrower "
                   "input; neurons, fewer of them; mixed, all of these as far as each pays; auto, "
                   "mixed or pivoted (with --bits also neurons), measured on text that "
                   "nothing was fitted to where predictions are close. Without it auto, or uv with "
                   "flags that only uv has")
      ->check(CLI::IsMember({"uv", "pivoted", "narrow", "neurons", "mixed", "auto"}));
  command
      ->add_option("--method", flags.method,
                   "two-sided: least change of the model's predictions, from one backward pass "
                   "(default, but for uv); whitened: least output error; svd: least weight error "
                   "(uv, no text needed)")
      ->check(CLI::IsMember({"whitened", "two-sided", "svd"}));
  const auto paper =
      command->add_flag("--paper", flags.given.paper,
                        "the paper's setting: uv, whitened, uniform, ranks in blocks of 128");
  for (const std::string other : {"--form", "--method"}) {
    paper->excludes(command->get_option(other));
  }
  add_bits_flags(command, flags.bits,
                 "round all linear weights, compressed or not, to 8, 6 or 4 bits; without it they "
                 "keep their dtype");
}

void add_calibration_flags(CLI::App* command, CompressFlags& flags) {
  command
      ->add_option("--calibration", flags.given.calibration,
                   "text that the model runs on; - is standard input. Several are sampled "
                   "evenly, so that the model stays good at all of them. NAME.jsonl has documents, "
                   "the \"text\" of each line. svd only measures the result on it")
      ->allow_extra_args(false);
  command
      ->add_option(
          "--calibration-tokens", flags.given.calibration_tokens,
          "tokens to use in all, as many of each text, evenly spread over it, in sequences "
          "of at most 2048; 131072 for uv without --statistics, else 32768")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
  command
      ->add_option("--self-generated", flags.given.self_generated,
                   "in place of --calibration: tokens of text that the model writes itself, at "
                   "temperature 1; 32768 are what a text would give")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40))
      ->excludes("--calibration")
      ->excludes("--calibration-tokens");
  command->add_option("--seed", flags.given.seed, "of the text that the model writes")
      ->check(whole_number());
  command->add_flag("--no-measure", flags.no_measure,
                    "do not compare the result with the dense model on 2048 tokens of the text; "
                    "both are in memory for it");
  command->add_option("--statistics", flags.given.statistics, kStatisticsHelp);
}

void add_rank_flags(CLI::App* command, CompressFlags& flags) {
  command
      ->add_option("--ratio", flags.given.ratio,
                   "share of parameters to remove from each MLP matrix, between 0 and 1")
      ->required()
      ->check(check_ratio, "", "between 0 and 1");
  command
      ->add_option("--block", flags.given.block,
                   "sizes are the nearest multiples of this; 128, the tile of a NeuronCore, with "
                   "--paper, else "
                   "32, the panel of the CPU's kernels")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
  command
      ->add_option(
          "--allocate", flags.allocate,
          "uniform: the same sizes for all layers; predicted: those with the least "
          "predicted loss at the same parameters; measured: the same after running the model with "
          "one layer at a time narrowed, if that makes the whole model better than predicted sizes "
          "(default with a text, but for uv); measured, of uv: at the same parameters, more for "
          "the "
          "matrices whose truncation, measured on the calibration text, hurts more, and less for "
          "others, down to three quarters; the most sensitive stay dense")
      ->check(CLI::IsMember({"uniform", "predicted", "measured"}));
  command->add_flag("--pad", flags.given.pad,
                    "form neurons: all layers get neurons of zeros up to the widest, so that any "
                    "program loads the folder; saves what the widest layer saves");
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
                    "print all settings, ranks and sizes; write nothing");
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
  given.can_make_metric = metric_program_available();
  given.text_comes_later = flags.dry_run;
  auto settings = compress::compress_settings(given, OptionNames::kFlags);
  if (!settings.ok()) throw CLI::ValidationError(settings.error().message);
  return *std::move(settings);
}

}  // namespace neuronmm::apps
