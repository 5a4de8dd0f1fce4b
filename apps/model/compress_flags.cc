#include "model/compress_flags.h"

#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>

#include "compress/saved_statistics.h"
#include "flags.h"
#include "message.h"
#include "model/float_folder.h"
#include "model/metric_program.h"
#include "report_writer.h"

namespace neuronmm::apps {
namespace {

// A NeuronCore's partitions, and the paper's block.
constexpr int64_t kTrainiumBlock = 128;
// What the CPU's kernels lose nothing by: panels of 32 columns (cpu/packed_matrix.h).
constexpr int64_t kCpuBlock = 32;

// CLI11's Range includes both ends; a ratio of 0 or 1 leaves all or nothing.
std::string check_ratio(const std::string& text) {
  char* end = nullptr;
  const double ratio = std::strtod(text.c_str(), &end);
  if (!text.empty() && *end == '\0' && ratio > 0.0 && ratio < 1.0) return {};
  return fmt::format("expected a number between 0 and 1, found \"{}\"", text);
}

bool only_of_uv(const CompressFlags& flags) { return flags.paper || flags.method == "svd"; }

// The flags that were left out.
std::string form_of(const CompressFlags& flags) {
  if (!flags.form.empty()) return flags.form;
  return only_of_uv(flags) ? "uv" : "auto";
}
std::string method_of(const CompressFlags& flags) {
  if (!flags.method.empty()) return flags.method;
  return form_of(flags) == "uv" ? "whitened" : "two-sided";
}
std::string allocate_of(const CompressFlags& flags) {
  if (!flags.allocate.empty()) return flags.allocate;
  if (form_of(flags) == "uv") return "uniform";
  // Statistics alone tell what is predicted.
  return flags.calibration.empty() && flags.self_generated == 0 ? "predicted" : "measured";
}
int64_t block_of(const CompressFlags& flags) {
  if (flags.block > 0) return flags.block;
  return flags.paper ? kTrainiumBlock : kCpuBlock;
}

// Saved statistics may have what the program would make.
bool can_be_two_sided(const CompressFlags& flags) {
  std::error_code ignored;
  const auto& saved = flags.request.statistics;
  return metric_program_available() ||
         (!saved.empty() &&
          std::filesystem::exists(compress::SavedStatistics::metric_path(saved), ignored));
}

// What the library would refuse too, here by the names of the flags.
void require_text(const CompressFlags& flags) {
  if (!flags.calibration.empty() || flags.self_generated > 0 || flags.dry_run) return;
  if (flags.allocate == "measured") {
    throw CLI::ValidationError("--allocate " + flags.allocate,
                               "needs --calibration TEXT, on which it measures what every matrix "
                               "is worth");
  }
  const std::string method = method_of(flags), form = form_of(flags);
  if (method == "svd") return;
  if (!flags.request.statistics.empty()) return;
  if (form != "uv") {
    throw CLI::ValidationError("--form " + form,
                               "needs --calibration TEXT, --self-generated N or --statistics DIR; "
                               "--form uv --method svd needs none of them");
  }
  throw CLI::ValidationError(
      "--method " + method,
      "needs --calibration TEXT, --self-generated N or --statistics DIR; svd "
      "needs none of them");
}

void add_method_flags(CLI::App* command, CompressFlags& flags) {
  command
      ->add_option("--form", flags.form,
                   "what becomes of an MLP: uv, two factors per matrix (the paper's); pivoted, "
                   "factors of which an identity is left out; narrow, gate and up share a narrower "
                   "input; neurons, fewer of them; mixed, all of these as far as each pays; auto, "
                   "mixed or pivoted (with --weights also neurons), measured on text that "
                   "nothing was fitted to where predictions are close. Without it auto, or uv with "
                   "flags that only uv has")
      ->check(CLI::IsMember({"uv", "pivoted", "narrow", "neurons", "mixed", "auto"}));
  command
      ->add_option("--method", flags.method,
                   "two-sided: least change of the model's predictions, from one backward pass "
                   "(default, but for uv); whitened: least output error; svd: least weight error "
                   "(uv, no text needed)")
      ->check(CLI::IsMember({"whitened", "two-sided", "svd"}));
  const auto paper = command->add_flag(
      "--paper", flags.paper, "the paper's setting: uv, whitened, uniform, ranks in blocks of 128");
  for (const std::string other : {"--form", "--method"}) {
    paper->excludes(command->get_option(other));
  }
  add_weights_flags(
      command, flags.weights,
      "of all linear layers, compressed or not: original (their dtype), int8, int6 or "
      "int4");
}

void add_calibration_flags(CLI::App* command, CompressFlags& flags) {
  command
      ->add_option("--calibration", flags.calibration,
                   "text that the model runs on; - is standard input. Several are sampled "
                   "evenly, so that the model stays good at all of them. NAME.jsonl has documents, "
                   "the \"text\" of each line. svd only measures the result on it")
      ->allow_extra_args(false);
  command
      ->add_option(
          "--calibration-tokens", flags.calibration_tokens,
          "tokens to use in all, as many of each text, evenly spread over it, in sequences "
          "of at most 2048; 131072 for uv, else 32768")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
  command
      ->add_option("--self-generated", flags.self_generated,
                   "in place of --calibration: tokens of text that the model writes itself, at "
                   "temperature 1; 32768 are what a text would give")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40))
      ->excludes("--calibration")
      ->excludes("--calibration-tokens");
  command->add_option("--seed", flags.seed, "of the text that the model writes")
      ->check(whole_number());
  command->add_flag("--no-measure", flags.no_measure,
                    "do not compare the result with the dense model on 2048 tokens of the text; "
                    "both are in memory for it");
  command->add_option("--statistics", flags.request.statistics, kStatisticsHelp);
}

void add_rank_flags(CLI::App* command, CompressFlags& flags) {
  command
      ->add_option("--ratio", flags.request.rule.ratio,
                   "share of parameters to remove from each MLP matrix, between 0 and 1")
      ->required()
      ->check(check_ratio, "", "between 0 and 1");
  command
      ->add_option("--block", flags.block,
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
  command->add_flag("--pad", flags.request.pad,
                    "form neurons: all layers get neurons of zeros up to the widest, so that any "
                    "program loads the folder; saves what the widest layer saves");
}

}  // namespace

void add_compress_flags(CLI::App* command, CompressFlags& flags) {
  command
      ->add_option("MODEL_DIR", flags.request.model,
                   "model folder (for --dry-run its config.json is enough)")
      ->required();
  add_output_option(command, flags.request.out, "the new model folder");
  add_method_flags(command, flags);
  add_rank_flags(command, flags);
  add_calibration_flags(command, flags);
  command->add_flag("--dry-run", flags.dry_run, "print ranks and sizes, write nothing");
  command->add_flag("--force", flags.request.force, "replace an existing output folder");
  command->add_flag("--dequantize", flags.dequantize, kDequantizeHelp);
  add_json_option(command, flags.json);
  add_device_options(command, flags.device);
  command->parse_complete_callback([&flags] {
    if (flags.request.pad && form_of(flags) != "neurons") {
      throw CLI::ValidationError("--pad", "is for --form neurons, found --form " + form_of(flags));
    }
    require_one_stdin("--calibration", flags.calibration);
    require_text(flags);
    weight_formats(flags.weights);
  });
}

Result<compress::CompressRequest> compress_request(const CompressFlags& flags) {
  compress::CompressRequest request = flags.request;
  request.rule.block = block_of(flags);
  NMM_ASSIGN(request.form, compress::parse_form(form_of(flags)));
  NMM_ASSIGN(request.method, compress::parse_method(method_of(flags)));
  NMM_ASSIGN(request.allocate, compress::parse_allocate(allocate_of(flags)));
  request.weights = weight_formats(flags.weights);
  if (request.method == compress::Method::kTwoSided && !can_be_two_sided(flags)) {
    print_message(
        "note: --method two-sided needs the program neuronmm-finetune, which is not there; "
        "whitened is used\n");
    request.method = compress::Method::kWhitened;
  }
  return request;
}

}  // namespace neuronmm::apps
