// neuronmm perplexity: how well a model predicts a text.

#include "eval/perplexity.h"

#include <cmath>

#include <fmt/core.h>

#include "commands.h"
#include "eval/trade_off.h"
#include "io/text_file.h"
#include "report_writer.h"
#include "text/tokenizer.h"

namespace neuronmm::apps {
namespace {

struct PerplexityFlags {
  std::string model_dir, text, json;
  int64_t context = 0;  // 0: the default of the model
  DeviceOptions device;
};

void add_flags(CLI::App* command, PerplexityFlags& flags) {
  command->add_option("MODEL_DIR", flags.model_dir, "a Hugging Face model folder")->required();
  command->add_option("TEXT", flags.text, "a text file; - reads standard input")->required();
  command
      ->add_option("--context", flags.context,
                   "tokens per chunk; default: 2048, or the model's maximum if less")
      ->check(CLI::Range(int64_t{2}, int64_t{1} << 30));
  add_json_option(command, flags.json);
  add_device_options(command, flags.device, Devices::kHostAndSimulated);
}

void print_report(const ReportWriter& writer, const eval::PerplexityReport& report,
                  const char* context_note, const char* speed_note) {
  const std::string interval =
      std::isfinite(report.standard_error)
          ? fmt::format(" +- {:.4f} (95 %)", eval::kInterval * report.standard_error)
          : std::string();
  writer.print("perplexity     {:.4f}{}\n", report.perplexity, interval);
  writer.print("context        {} tokens{}\n", report.context, context_note);
  writer.print("chunks         {}\n", report.chunks);
  writer.print("scored tokens  {} of {}; {} after the last whole chunk were dropped\n",
               report.scored_tokens, report.tokens, report.tokens - report.chunks * report.context);
  writer.print("tokens/s       {:.1f}{}\n",
               static_cast<double>(report.scored_tokens) / report.seconds, speed_note);
}

// The text may be standard input: it is read before the model, which takes longer to load.
Result<int> run_perplexity(const PerplexityFlags& flags) {
  NMM_ASSIGN(ReportWriter writer, ReportWriter::open(flags.json));
  NMM_ASSIGN(const auto tokenizer, text::Tokenizer::load(flags.model_dir));
  NMM_ASSIGN(const auto text, io::read_user_text(flags.text));
  NMM_ASSIGN(const auto backend, make_backend(flags.device));
  NMM_ASSIGN(const auto transformer, model::Transformer::load(flags.model_dir, *backend));
  const int64_t default_context = eval::default_context(transformer.config());
  const int64_t context = flags.context > 0 ? flags.context : default_context;

  NMM_ASSIGN(const auto tokens, tokenizer.encode(text));
  Progress progress(stderr);
  NMM_ASSIGN(const auto report, eval::perplexity(transformer, tokens, context, progress));
  const bool models_limit = default_context == transformer.config().max_position_embeddings;
  print_report(writer, report,
               flags.context > 0 ? ""
               : models_limit    ? " (default: the model's max_position_embeddings)"
                                 : " (default)",
               flags.device.simulated() ? " (predicted for a simulated device)" : "");
  NMM_TRY(writer.write_json_text(eval::to_json(report, flags.model_dir, flags.text)));
  return 0;
}

}  // namespace

void add_perplexity(Program& program) {
  CLI::App* command = program.add(CommandGroup::kModels, "perplexity",
                                  "Perplexity of a text, by the convention of GPTQ and SVD-LLM");
  auto flags = std::make_shared<PerplexityFlags>();
  add_flags(command, *flags);
  program.set_run(command, [flags] { return run_perplexity(*flags); });
}

}  // namespace neuronmm::apps
