#pragma once
// Runs a compression on several processes. Process 0 runs the command, writes all files and asks
// the other processes for parts of the work. The other processes run help_first_process()
// (helper_process.h). They have the model's folder, but no text, no output and no state that a
// later run would need. Three kinds of work are divided:
//
// * Passes over the text. Each process has some groups of the text's sequences (sequence_groups.h)
//   and their hidden states. The processes work in rounds of one group each, and process 0 adds up
//   the sums of a round in the order of the groups.
// * The output metric (output_metric.h), in rounds of one group for each process.
// * Jobs, which work on one layer each (layer_job.h). Job i belongs to process i modulo the number
//   of processes.
//
// The results are the same bits for any number of processes on one kind of CPU. The other processes
// sleep between requests. A process that dies ends all the others.

#include <filesystem>
#include <functional>
#include <memory>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"
#include "compress/statistics/layer_job.h"
#include "compress/statistics/sequence_visit.h"
#include "parallel/communicator.h"
#include "text/tokenizer/token_id.h"

namespace neuronmm::compress {

// The kinds of work that process 0 asks the other processes for. Every message begins with a
// request.
enum class Request : int32_t { kEnd, kOpenPass, kVisit, kHiddenStates, kJobs, kMetric };

// Returns whether process `process` has a group in the round that begins with group
// `first_of_round`. Round r consists of the groups from r times the number of processes on, one for
// each process.
inline bool has_group(size_t first_of_round, int process, size_t groups) {
  return first_of_round + static_cast<size_t>(process) < groups;
}

// The number of doubles in one message of sums, which makes 8 MiB. Assumed: sending that much costs
// far more than the message itself.
inline constexpr int64_t kSumPiece = int64_t{1} << 20;

// Process 0's connection to the other processes.
class DataParallel {
 public:
  // Starts the work with the other processes, which must be in help_first_process(). `communicator`
  // has at least two processes and must outlive the object. Fails if a process cannot read the
  // model, or has another model or another backend.
  static Result<std::unique_ptr<DataParallel>> start(parallel::Communicator& communicator,
                                                     const std::filesystem::path& model,
                                                     const ops::Backend& backend);
  // Lets help_first_process() return in the other processes.
  ~DataParallel();
  DataParallel(const DataParallel&) = delete;
  DataParallel& operator=(const DataParallel&) = delete;

  int processes() const { return communicator_.processes(); }

  // The start of a pass over the text. `hidden` holds the hidden states [tokens, H] to begin with.
  // If it is null, each process embeds its sequences. `sums` holds the shapes of the sums that
  // visits gather.
  struct Pass {
    const std::vector<std::vector<text::TokenId>>* sequences = nullptr;
    const Matrix* hidden = nullptr;
    std::vector<Shape> sums;
  };
  // Sends the sequences of a pass to the other processes.
  void open_pass(const Pass& pass);
  // Begins the visit of a layer. `own` says whether process 0 can do the visit. Fails if process 0
  // or another process cannot.
  Status begin_visit(const LayerVisit& visit, const Status& own);
  // Begins the next round of the visit. `go_on` is false if process 0 stops the visit.
  void begin_round(bool go_on);
  // Adds what the other processes have gathered in this round to `sums`. The round begins with
  // group `first` of `groups`. Groups below `known` are left out.
  void add_sums(size_t first, size_t groups, std::vector<DoubleMatrix>& sums, size_t known = 0);
  // Fetches the hidden states of the sequences that other processes have. `first_row` has the first
  // row of each sequence in `hidden`, and the end.
  void collect_hidden(const std::vector<int64_t>& first_row, Matrix& hidden);

  // Sends the sequences of the output metric to the other processes, which then work on the groups
  // from `first_group` on.
  void open_metric(const std::vector<std::vector<text::TokenId>>& sequences, uint64_t seed,
                   size_t first_group);
  // Returns ok if the status of every process is ok. The others call first_error_of_all() then.
  Status agree(const Status& own);

  // Runs jobs on all processes and passes the results to `take` in the order of the jobs. Process 0
  // runs its own jobs by `run`; the other processes choose the function by the kind of the job. If
  // `at_once` is 1, each process runs its jobs one after the other, each on all threads. Otherwise
  // each process runs all of its jobs at the same time, so there should be at most `at_once` of
  // them. After the first error `take` is not called again, and the error is returned when all jobs
  // have ended.
  Status run_jobs(const JobContext& context, const RunJob& run, const std::vector<LayerJob>& jobs,
                  int64_t at_once,
                  const std::function<Status(int64_t layer, MessageReader& result)>& take);

 private:
  explicit DataParallel(parallel::Communicator& communicator) : communicator_(communicator) {}
  void ask(Request request, MessageWriter message);

  parallel::Communicator& communicator_;
  // The sequences of the open pass that each process has.
  std::vector<std::vector<int64_t>> rows_of_;
};

// Compares the models of all processes. Fails unless all of them have the same model and compute
// the same bits.
Status agree_on_model(parallel::Communicator& communicator, const std::filesystem::path& model,
                      const ops::Backend& backend);

}  // namespace neuronmm::compress
