// The command neuronmm eval: perplexities and zero-shot accuracies of a model.

#include <algorithm>
#include <optional>

#include <fmt/core.h>

#include "base/interrupt.h"
#include "commands.h"
#include "eval/evaluation_json.h"
#include "eval/trade_off.h"
#include "flags.h"
#include "io/folder_writer.h"
#include "message.h"
#include "model/evaluation_flags.h"
#include "model/quality_text.h"
#include "output_file.h"
#include "report_writer.h"

namespace neuronmm::apps {
namespace {

struct EvalFlags {
  std::string model_dir, reference, json, log_samples;
  EvaluationFlags evaluation;
  DeviceOptions device;
};

void add_flags(CLI::App* command, EvalFlags& flags) {
  command->add_option("MODEL_DIR", flags.model_dir, kModelHelp)->required()->group(kInput);
  add_adapter_option(command);
  add_evaluation_flags(command, flags.evaluation);
  command
      ->add_option("--reference", flags.reference,
                   "Also compare item by item with the model before compression")
      ->type_name("DIR")
      ->group(kQuality);
  add_json_option(command, flags.json, "the results");
  command->add_option("--log-samples", flags.log_samples, "Also write every item as a line of JSON")
      ->type_name("FILE")
      ->group(kOutput);
  add_device_options(command, flags.device);
}

std::string with_standard_error(const eval::Accuracy& accuracy) {
  return fmt::format("{:.4f} ± {:.4f}", accuracy.value, accuracy.standard_error);
}

void print_text(const ReportWriter& writer, const eval::TaskResult& result) {
  const eval::PerplexityReport& report = *result.perplexity;
  writer.print("{:14} {:>14.4f}   {} chunks of {} tokens, {:.0f} tokens/s, {}\n", result.task->name,
               report.perplexity, report.chunks, report.context,
               static_cast<double>(report.scored_tokens) / report.seconds, result.file.string());
}

void print_accuracy(const ReportWriter& writer, const eval::TaskResult& result) {
  const auto items = std::ssize(result.items);
  writer.print("{:14} {:>15}   {:>15}   {:>6}", result.task->name,
               with_standard_error(result.score->acc),
               result.score->acc_norm ? with_standard_error(*result.score->acc_norm) : "-", items);
  if (items != result.task->published_items) writer.print(" of {}", result.task->published_items);
  if (result.truncated > 0) {
    writer.print(", {} too long: the begin of their contexts is cut off", result.truncated);
  }
  writer.print("  {}\n", result.file.string());
}

using Results = std::vector<eval::TaskResult>;

// Prints how the model differs from the reference on each task, with 95 % intervals.
void print_differences(const ReportWriter& writer, const Results& results,
                       const eval::ReferenceResults& reference) {
  writer.print("\nagainst {}, ± half of a 95 % interval\n", reference.name);
  for (const eval::TaskResult& result : results) {
    if (result.divergence) {
      const eval::DivergenceSummary& summary = *result.divergence;
      writer.print("{:14} KL {} nats per token, top-1 {}, added {} nats, perplexity x {}\n",
                   result.task->name, divergence_text(summary.divergence),
                   with_interval(summary.agreement), with_interval(summary.added_loss),
                   ratio_text(summary.added_loss));
    } else if (const eval::TaskResult* dense = reference.find(*result.task)) {
      const eval::PairedAccuracy paired = eval::paired_accuracy(*dense, result);
      writer.print("{:14} acc lost {}, same choice {}\n", result.task->name,
                   with_interval(paired.accuracy_lost), with_interval(paired.choice_agreement));
    }
  }
}

void note_calibration(const std::string& model, const Results& results) {
  for (const eval::TaskResult& result : results) {
    if (result.calibrated_on) note_calibrated_on(model, result.file.string());
  }
}

// Prints the number of tokens in all requests and the number of tokens that were computed. The
// second number is smaller because prefixes that requests share are computed once.
void print_speed(const ReportWriter& writer, const std::vector<eval::TaskResult>& results) {
  int64_t tokens = 0, computed = 0;
  double seconds = 0.0;
  for (const eval::TaskResult& result : results) {
    tokens += result.likelihoods.tokens;
    computed += result.likelihoods.computed_tokens;
    seconds += result.likelihoods.seconds;
  }
  writer.print("{} tokens of requests, {} computed, in {:.1f} s: {:.0f} and {:.0f} tokens/s\n",
               tokens, computed, seconds, static_cast<double>(tokens) / seconds,
               static_cast<double>(computed) / seconds);
}

void print_results(const ReportWriter& writer, const std::vector<eval::TaskResult>& results) {
  const auto any_task = [&](bool text) {
    return std::ranges::any_of(
        results, [&](const eval::TaskResult& result) { return result.task->is_text() == text; });
  };
  if (any_task(true)) writer.print("{:14} {:>14}\n", "", "perplexity");
  for (const eval::TaskResult& result : results) {
    if (result.perplexity) print_text(writer, result);
  }
  if (!any_task(false)) return;
  writer.print("{:14} {:>15}   {:>15}   {:>6}\n", "", "acc ± s.e.", "acc_norm ± s.e.", "items");
  for (const eval::TaskResult& result : results) {
    if (result.score) print_accuracy(writer, result);
  }
  const auto mean = *eval::mean_accuracy(results);
  writer.print("{:14} {:>6.4f}   mean acc of {} tasks{}\n", "mAcc", mean.value, mean.tasks,
               mean.tasks == eval::kAccuracyTasks ? "" : "; the paper's mAcc has 6");
  print_speed(writer, results);
}

// Evaluates the reference on the multiple-choice tasks. On texts the reference runs later, together
// with the model.
Result<eval::Evaluation> evaluate_reference(const eval::Reference& reference,
                                            std::vector<eval::LoadedTask> data,
                                            const eval::EvaluationSettings& settings,
                                            Progress& progress) {
  std::erase_if(data, [](const eval::LoadedTask& task) { return task.task->is_text(); });
  progress.print(fmt::format("reference {}", reference.name));
  NMM_ASSIGN(auto evaluation,
             eval::evaluate(reference.model, reference.tokenizer, data, settings, progress));
  if (!evaluation.interruption.empty()) return interrupted_error(evaluation.interruption);
  return evaluation;
}

struct EvaluatedPair {
  eval::Evaluation evaluation;
  std::optional<eval::ReferenceResults> reference;
};

Result<EvaluatedPair> evaluate_model(const EvalFlags& flags,
                                     const std::vector<eval::LoadedTask>& data,
                                     const ops::Backend& backend) {
  const eval::EvaluationSettings settings = flags.evaluation.settings();
  NMM_ASSIGN(const auto tokenizer, text::Tokenizer::load(flags.model_dir));
  if (!flags.reference.empty()) NMM_TRY(io::require_folder(flags.reference));
  NMM_ASSIGN(const auto transformer, model::Transformer::load(flags.model_dir, backend));
  Progress progress(stderr);
  EvaluatedPair pair;
  if (flags.reference.empty()) {
    NMM_ASSIGN(pair.evaluation, eval::evaluate(transformer, tokenizer, data, settings, progress));
    return pair;
  }
  NMM_ASSIGN(const auto dense_tokenizer, text::Tokenizer::load(flags.reference));
  NMM_TRY(
      eval::check_same_tokens(dense_tokenizer, flags.reference, tokenizer, flags.model_dir, ""));
  NMM_ASSIGN(const auto dense, model::Transformer::load(flags.reference, backend));
  const eval::Reference reference = {dense, dense_tokenizer, flags.reference};
  NMM_ASSIGN(auto evaluated, evaluate_reference(reference, data, settings, progress));
  pair.reference = {flags.reference, std::move(evaluated.results)};
  NMM_ASSIGN(pair.evaluation,
             eval::evaluate(transformer, tokenizer, data, settings, progress, &reference));
  return pair;
}

Result<int> run_eval(const EvalFlags& flags) {
  NMM_ASSIGN(ReportWriter writer, ReportWriter::open(flags.json));
  NMM_ASSIGN(OutputFile samples, OutputFile::open(flags.log_samples));
  const eval::EvaluationSettings settings = flags.evaluation.settings();
  NMM_ASSIGN(const auto tasks, tasks_with_files(flags.evaluation));
  NMM_ASSIGN(const auto data, eval::read_tasks(tasks, settings));
  NMM_ASSIGN(const auto backend, make_backend(flags.device));
  NMM_ASSIGN(const auto pair, evaluate_model(flags, data, *backend));
  const eval::Evaluation& evaluation = pair.evaluation;
  const eval::ReferenceResults* reference = pair.reference ? &*pair.reference : nullptr;
  note_calibration(flags.model_dir, evaluation.results);
  writer.print("model  {}, {}\n", flags.model_dir, backend->name());
  print_results(writer, evaluation.results);
  if (reference != nullptr) print_differences(writer, evaluation.results, *reference);
  NMM_TRY(writer.write_json_text(eval::to_json(evaluation, settings, flags.model_dir, reference)));
  if (samples.wanted()) NMM_TRY(samples.write(eval::samples_json_lines(evaluation)));
  if (evaluation.interruption.empty()) return 0;
  print_message("neuronmm eval: {}; the tasks above are complete{}\n", evaluation.interruption,
                writer.wants_json() || samples.wanted() ? " and in the files" : "");
  return kInterruptedExit;
}

}  // namespace

void add_eval(Program& program) {
  CLI::App* command =
      program.add(CommandGroup::kModels, "eval",
                  "Measure accuracies and perplexities, as lm-evaluation-harness does",
                  {"neuronmm eval MODEL_DIR --data evaluation_data --tasks piqa,wikitext2",
                   "neuronmm eval small --data evaluation_data --reference MODEL_DIR"});
  auto flags = std::make_shared<EvalFlags>();
  add_flags(command, *flags);
  program.set_run(
      command, [flags] { return run_eval(*flags); }, ProcessMode::kTensorParallel);
}

}  // namespace neuronmm::apps
