#pragma once
// A compression on several processes: process 0 runs it, writes all files and asks the others for
// parts of the work. They have the model's folder and nothing else: no text, no output, no state
// that a later run would need. Two kinds of work are split:
//
//   passes   each process has some groups of the text's sequences (sequence_groups.h) with their
//            hidden states; the sums of a round of groups are added in the groups' order
//   jobs     what is done to each layer on its own (layer_job.h), dealt out in rounds
//
// Either result is the same bits for any number of processes of one kind of CPU. Between requests
// the others sleep.

#include <filesystem>
#include <functional>
#include <memory>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"
#include "compress/layer_job.h"
#include "compress/sequence_visit.h"
#include "parallel/communicator.h"
#include "text/token_id.h"

namespace neuronmm::compress {

// What a process is asked for next.
enum class Request : int32_t { kEnd, kOpenPass, kVisit, kHiddenStates, kJobs };

// A group of a round for process `process`, if there is one: round r has the groups from
// r·processes on.
inline bool has_group(size_t first_of_round, int process, size_t groups) {
  return first_of_round + static_cast<size_t>(process) < groups;
}

// Doubles in one message of sums: 8 MiB, much more than a message's own cost. Assumed.
inline constexpr int64_t kSumPiece = int64_t{1} << 20;

// Process 0's view of the others.
class DataParallel {
 public:
  // `communicator` has two processes or more and must outlive it; the others are in
  // help_first_process(). Error: a process that cannot read the model, or that has another one or
  // another backend.
  static Result<std::unique_ptr<DataParallel>> start(parallel::Communicator& communicator,
                                                     const std::filesystem::path& model,
                                                     const ops::Backend& backend);
  ~DataParallel();  // the others return
  DataParallel(const DataParallel&) = delete;
  DataParallel& operator=(const DataParallel&) = delete;

  int processes() const { return communicator_.processes(); }

  // A pass over these sequences begins at the embedding, or where `hidden` says.
  struct Pass {
    const std::vector<std::vector<text::TokenId>>* sequences = nullptr;
    const Matrix* hidden = nullptr;  // [tokens, H]; null: the embedding
    std::vector<Shape> sums;
  };
  void open_pass(const Pass& pass);
  // `own`: whether process 0 is ready. Error: its own, or another's.
  Status begin_visit(const LayerVisit& visit, const Status& own);
  // Another round, of the group `first` and those after it; false: the layer is given up.
  void begin_round(bool go_on);
  // Adds what the others have gathered in this round.
  void add_sums(size_t first, size_t groups, std::vector<DoubleMatrix>& sums);
  // Fills in the rows of the others.
  void collect_hidden(const std::vector<int64_t>& first_row, Matrix& hidden);

  // Gives `take` the results in the order of the jobs. Process 0 runs its own jobs by `run`, the
  // others by the kind of the job. At most `at_once` of a process run side by side; 1: one, on all
  // threads. The first error ends it, after the round.
  Status run_jobs(const JobContext& context, const RunJob& run, const std::vector<LayerJob>& jobs,
                  int64_t at_once,
                  const std::function<Status(int64_t layer, MessageReader& result)>& take);

 private:
  explicit DataParallel(parallel::Communicator& communicator) : communicator_(communicator) {}
  void ask(Request request, MessageWriter message);

  parallel::Communicator& communicator_;
  std::vector<std::vector<int64_t>> rows_of_;  // [process]: sequences of the open pass
};

// Whether all processes have the same model and compute the same bits.
Status agree_on_model(parallel::Communicator& communicator, const std::filesystem::path& model,
                      const ops::Backend& backend);

}  // namespace neuronmm::compress
