// neuronmm quantize: a model folder with weights of 8, 6 or 4 bits.

#include "compress/quantize.h"

#include <optional>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "flags.h"
#include "io/quantization.h"
#include "report_writer.h"

namespace neuronmm::apps {
namespace {

using Json = nlohmann::ordered_json;

struct QuantizeFlags {
  std::string model, out, json;
  int bits = 8;
  std::optional<int> lm_head_bits, group;
  bool force = false;
};

constexpr int kDefaultGroup = 16;
// Of a model of 4 bits: the LM head is a small part of it, and its errors are those of the logits.
constexpr int kHeadBitsBeside4 = 6;

compress::QuantizedFormats formats_of(const QuantizeFlags& flags) {
  const auto format = [&](int bits) {
    LowBitFormat of = {.bits = bits};
    if (bits == 4) of.group = flags.group.value_or(kDefaultGroup);
    return of;
  };
  const int head = flags.lm_head_bits.value_or(flags.bits == 4 ? kHeadBitsBeside4 : flags.bits);
  if (flags.group && flags.bits != 4 && head != 4) {
    throw CLI::ValidationError(
        "--group", fmt::format("only weights of 4 bits have groups, found --bits {}", flags.bits));
  }
  return {format(flags.bits), format(head)};
}

Result<int> run_quantize(const QuantizeFlags& flags) {
  const compress::QuantizedFormats formats = formats_of(flags);
  NMM_ASSIGN(ReportWriter report, ReportWriter::open(flags.json));
  Progress progress(stderr);
  NMM_ASSIGN(const auto summary,
             compress::quantize(flags.model, flags.out, flags.force, progress, {}, formats));
  const auto megabytes = [](int64_t bytes) { return static_cast<double>(bytes) / 1e6; };
  const double bits_per_weight = summary.parameters == 0
                                     ? 0.0
                                     : 8.0 * static_cast<double>(summary.bytes_after) /
                                           static_cast<double>(summary.parameters);
  report.print("{} parameters, {:.1f} MB -> {:.1f} MB ({:.4f}), {:.3f} bits each\nwritten to {}\n",
               summary.parameters, megabytes(summary.bytes_before), megabytes(summary.bytes_after),
               megabytes(summary.bytes_after) / megabytes(summary.bytes_before), bits_per_weight,
               flags.out);
  report.print(
      "what it costs in quality: neuronmm compare {} {} --data DIR, or neuronmm perplexity "
      "of both on the same text\n",
      flags.model, flags.out);
  NMM_TRY(report.write_json(Json{{"model", flags.model},
                                 {"output", flags.out},
                                 {"weights", io::format_text(formats.linear)},
                                 {"lm_head", io::format_text(formats.lm_head)},
                                 {"bits_per_weight", bits_per_weight},
                                 {"parameters", summary.parameters},
                                 {"bytes_before", summary.bytes_before},
                                 {"bytes_after", summary.bytes_after}}));
  return 0;
}

}  // namespace

void add_quantize(Program& program) {
  auto flags = std::make_shared<QuantizeFlags>();
  CLI::App* command =
      program.add(CommandGroup::kModels, "quantize",
                  "Round the weights of linear layers to 8, 6 or 4 bits, dense or compressed");
  command->add_option("MODEL_DIR", flags->model, "a Hugging Face model folder")->required();
  add_output_option(command, flags->out, "the new model folder")->required();
  command->add_option("--bits", flags->bits, "of each weight: 8, 6 or 4")
      ->check(CLI::IsMember({8, 6, 4}))
      ->capture_default_str();
  command
      ->add_option("--group", flags->group,
                   "4 bits: weights of a row that share a zero point: 16 (the default) or 32, "
                   "a quarter of a bit less and less exact")
      ->check(CLI::IsMember({16, 32}));
  command
      ->add_option("--lm-head-bits", flags->lm_head_bits,
                   "of the LM head: 8, 6 or 4; by default --bits, but 6 beside 4")
      ->check(CLI::IsMember({8, 6, 4}));
  add_json_option(command, flags->json);
  command->add_flag("--force", flags->force, "replace an existing output folder");
  command->footer(
      "Rounded: attention and MLP matrices, factors, and the LM head (with the embedding table\n"
      "where the two are tied). Norms, biases and an untied embedding table stay as they are.\n"
      "To compress and round to 8 bits at once, compress --weights int8 loses less.");
  command->parse_complete_callback([flags] { formats_of(*flags); });
  program.set_run(command, [flags] { return run_quantize(*flags); });
}

}  // namespace neuronmm::apps
