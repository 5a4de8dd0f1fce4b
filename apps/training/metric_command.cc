#include "training/metric_command.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "base/interrupt.h"
#include "base/parallel.h"
#include "finetune/output_metric.h"
#include "io/json_file.h"
#include "io/text_file.h"

namespace neuronmm::apps {
namespace {

struct MetricFlags {
  finetune::MetricRequest request;
  std::string sequences;
  int threads = 0;
  bool silent = false;
  double share_of_time = 1.0;  // of the command that has started this program (metric_program.h)
};

// Reads a JSON file with a list of lists of token ids.
Result<std::vector<std::vector<text::TokenId>>> read_sequences(const std::string& path) {
  NMM_ASSIGN(const auto content, io::read_text_file(path, io::kMaxTextBytes));
  NMM_ASSIGN(const auto json, io::parse_json(content, path));
  try {
    return json.get<std::vector<std::vector<text::TokenId>>>();
  } catch (const nlohmann::json::exception&) {
    return fail("{}: expected a list of lists of token ids, found something else", path);
  }
}

Status run_metric(MetricFlags& flags) {
  if (flags.threads > 0) set_num_threads(flags.threads);
  NMM_ASSIGN(flags.request.sequences, read_sequences(flags.sequences));
  Progress progress(flags.silent ? nullptr : stderr);
  if (flags.share_of_time < 1.0) {
    progress.expect({{"output metric", flags.share_of_time},
                     {"the rest of the command", 1.0 - flags.share_of_time}});
  }
  const auto summary = finetune::write_output_metric(flags.request, progress);
  return summary.ok() ? Status() : summary.error();
}

}  // namespace

void add_metric(Program& program) {
  CLI::App* command =
      program.add(CommandGroup::kModels, "metric",
                  "Measure how much each output of every MLP matters, for compress", {});
  command->group("");
  const auto flags = std::make_shared<MetricFlags>();
  command->add_option("MODEL_DIR", flags->request.model)->required();
  command->add_option("SEQUENCES", flags->sequences)->required();
  command->add_option("OUT", flags->request.out)->required();
  command->add_option("--threads", flags->threads);
  command->add_option("--seed", flags->request.seed);
  command->add_option("--share-of-time", flags->share_of_time)->check(CLI::Range(1e-6, 1.0));
  command->add_flag("--silent", flags->silent);
  program.set_run(command, [flags]() -> Result<int> {
    const Status status = run_metric(*flags);
    if (status.ok()) return 0;
    fmt::print("{}\n", status.error().message);
    return status.error().kind == Error::Kind::kInterrupted ? kInterruptedExit : 1;
  });
}

}  // namespace neuronmm::apps
