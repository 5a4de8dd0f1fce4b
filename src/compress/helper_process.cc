#include "compress/helper_process.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/threads.h"
#include "compress/factors/factor_jobs.h"
#include "compress/linear_algebra/blas.h"
#include "compress/sizes/loss_job.h"
#include "compress/statistics/data_parallel.h"
#include "compress/statistics/output_metric.h"
#include "compress/statistics/sequence_groups.h"
#include "io/model_folder.h"
#include "model/rope.h"
#include "model/transformer.h"
#include "parallel/agreement.h"

namespace neuronmm::compress {
namespace {

// Runs a job of any kind.
Result<Bytes> run_job(const JobContext& context, const LayerJob& job) {
  switch (job.kind) {
    case JobKind::kLosses:
      return run_losses_job(context, job);
    case JobKind::kNarrow:
      return run_narrow_job(context, job);
    case JobKind::kFactors:
      return run_factors_job(context, job);
  }
  return fail("no such job");
}

// The sequences and hidden states of this process in one pass over the calibration text.
class HelperPass {
 public:
  HelperPass(MessageReader& in, const parallel::Communicator& communicator,
             const io::ModelConfig& config, const ops::Backend& backend)
      : process_(communicator.process()),
        processes_(static_cast<size_t>(communicator.processes())) {
    const auto sums = in.value<int64_t>();
    for (int64_t i = 0; i < sums; ++i) sum_shapes_.push_back(in.values<int64_t>());
    const auto count = in.value<int64_t>();
    for (int64_t i = 0; i < count; ++i) sequences_.push_back(in.values<text::TokenId>());
    groups_ = sequence_groups(sequences_);
    int64_t longest = 0;
    for (size_t group = first_group(); group < groups_.size(); group += processes_) {
      for (size_t s = groups_[group].first; s < groups_[group].end; ++s) {
        own_.push_back(s);
        longest = std::max(longest, std::ssize(sequences_[s]));
      }
    }
    for (const size_t s : own_) {
      hidden_.emplace_back(std::ssize(sequences_[s]), config.hidden_size);
    }
    cache_ = backend.make_kv_cache(
        {1, config.num_key_value_heads, config.head_dim, std::max<int64_t>(longest, 1)});
  }

  // Sets the hidden states to the embeddings of the tokens. `table` is [vocab_size, H].
  void embed(const TensorView& table, double scale) {
    for (size_t i = 0; i < own_.size(); ++i) {
      model::embed(table, sequences_[own_[i]], scale, hidden_[i].view());
    }
  }

  // Receives the hidden states that process 0 sends for all sequences, and keeps those of its own.
  void receive_hidden(parallel::Communicator& communicator) {
    size_t i = 0;
    for (size_t s = 0; s < sequences_.size(); ++s) {
      Bytes bytes;
      communicator.broadcast(bytes);
      if (i == own_.size() || own_[i] != s) continue;
      NMM_CHECK(bytes.size() == bytes_of(hidden_[i]).size());
      std::memcpy(hidden_[i].data(), bytes.data(), bytes.size());
      ++i;
    }
  }

  // Sends the hidden states of its own sequences to process 0.
  void send_hidden(parallel::Communicator& communicator) const {
    std::vector<size_t> counts(processes_);
    for (size_t group = 0; group < groups_.size(); ++group) {
      counts[group % processes_] += groups_[group].end - groups_[group].first;
    }
    const size_t longest = *std::ranges::max_element(counts);
    for (size_t i = 0; i < longest; ++i) {
      communicator.gather(i < hidden_.size() ? bytes_of(hidden_[i]) : std::span<const std::byte>());
    }
  }

  // Visits its own groups round by round and sends the sums of each round. Ends when process 0 says
  // so or all groups are visited.
  void visit_all(SequenceVisit& visit, parallel::Communicator& communicator) {
    size_t next = 0;  // index in own_
    for (size_t first = 0; first < groups_.size(); first += processes_) {
      Bytes go_on;
      communicator.broadcast(go_on);
      if (go_on.at(0) == std::byte{0}) return;
      const bool has = has_group(first, process_, groups_.size());
      clear_sums(has);
      if (has) {
        const SequenceGroup& group = groups_[first + static_cast<size_t>(process_)];
        for (size_t s = group.first; s < group.end; ++s) visit_one(visit, next++);
      }
      send_sums(has, communicator);
    }
    sums_.clear();
  }

  ops::KvCache& cache() { return *cache_; }

 private:
  size_t first_group() const { return static_cast<size_t>(process_); }
  static std::span<const std::byte> bytes_of(const Matrix& rows) {
    return std::as_bytes(std::span(rows.data(), static_cast<size_t>(rows.rows() * rows.columns())));
  }

  void visit_one(SequenceVisit& visit, size_t own) { visit.visit({hidden_[own].view(), sums_}); }

  void clear_sums(bool wanted) {
    sums_.clear();
    if (!wanted) return;
    for (const Shape& shape : sum_shapes_) sums_.emplace_back(shape.at(0), shape.at(1));
  }

  void send_sums(bool has, parallel::Communicator& communicator) const {
    for (size_t i = 0; i < sum_shapes_.size(); ++i) {
      const int64_t size = sum_shapes_[i].at(0) * sum_shapes_[i].at(1);
      for (int64_t at = 0; at < size; at += kSumPiece) {
        const auto count = static_cast<size_t>(std::min(kSumPiece, size - at));
        communicator.gather(has ? std::as_bytes(std::span(sums_[i].data() + at, count))
                                : std::span<const std::byte>());
      }
    }
  }

  int process_;
  size_t processes_;
  std::vector<Shape> sum_shapes_;
  std::vector<std::vector<text::TokenId>> sequences_;  // of all processes
  std::vector<SequenceGroup> groups_;
  std::vector<size_t> own_;         // the sequences of this process
  std::vector<Matrix> hidden_;      // the hidden states of own_
  std::vector<DoubleMatrix> sums_;  // of one group
  std::unique_ptr<ops::KvCache> cache_;
};

// Serves the requests of process 0.
class HelperProcess {
 public:
  HelperProcess(parallel::Communicator& communicator, const io::Checkpoint& checkpoint,
                const io::ModelConfig& config, const ops::Backend& backend)
      : communicator_(communicator),
        checkpoint_(checkpoint),
        config_(config),
        backend_(backend),
        rotary_(config) {}

  Status run() {
    while (true) {
      Bytes bytes;
      communicator_.broadcast(bytes);
      MessageReader in(bytes);
      switch (in.value<Request>()) {
        case Request::kEnd:
          return {};
        case Request::kOpenPass:
          NMM_TRY(open_pass(in));
          break;
        case Request::kVisit:
          visit_layer(in);
          break;
        case Request::kHiddenStates:
          pass_->send_hidden(communicator_);
          break;
        case Request::kJobs:
          run_jobs(in);
          break;
        case Request::kMetric:
          help_with_metric(communicator_, checkpoint_.folder(), in);
          break;
      }
      checkpoint_.release_pages();
    }
  }

 private:
  Status open_pass(MessageReader& in) {
    pass_.emplace(in, communicator_, config_, backend_);
    if (in.value<bool>()) {
      pass_->receive_hidden(communicator_);
      return {};
    }
    NMM_ASSIGN(const TensorView table,
               checkpoint_.require(model::tensor_prefix(checkpoint_) + "embed_tokens.weight",
                                   {config_.vocab_size, config_.hidden_size}));
    pass_->embed(table, config_.embedding_scale);
    return {};
  }

  // Visits a layer. If this process cannot prepare the visit, the visit ends on all processes.
  void visit_layer(MessageReader& in) {
    LayerVisit layer_visit;
    layer_visit.kind = in.value<VisitKind>();
    layer_visit.layer = in.value<int64_t>();
    layer_visit.arguments = in.values<std::byte>();
    const VisitContext context = {checkpoint_, config_, backend_, rotary_, pass_->cache()};
    const auto visit = make_visit(context, layer_visit);
    const Status own = visit.ok() ? Status() : Status(visit.error());
    if (!parallel::first_error_of_all(communicator_, own).ok()) return;
    pass_->visit_all(**visit, communicator_);
  }

  // Runs its own share of some jobs and sends the answers.
  void run_jobs(MessageReader& in) {
    const auto count = in.value<int64_t>(), at_once = in.value<int64_t>();
    const int64_t processes = communicator_.processes(), process = communicator_.process();
    std::vector<LayerJob> own;
    for (int64_t i = 0; i < count; ++i) {
      Bytes bytes;
      communicator_.broadcast(bytes);
      if (i % processes != process) continue;
      MessageReader job(bytes);
      const auto kind = job.value<JobKind>();
      const auto layer = job.value<int64_t>();
      own.push_back({kind, layer, job.values<std::byte>()});
    }
    std::vector<Bytes> answers(own.size());
    const JobContext context = {checkpoint_, config_};
    const auto run = [&](int64_t i) {
      answers[static_cast<size_t>(i)] = job_answer(run_job, context, own[static_cast<size_t>(i)]);
    };
    if (at_once == 1) {
      for (int64_t i = 0; i < std::ssize(own); ++i) run(i);
    } else {
      run_on_threads(std::ssize(own), run);
    }
    for (int64_t round = 0; round * processes < count; ++round) {
      const auto at = static_cast<size_t>(round);
      communicator_.gather(at < answers.size() ? std::span<const std::byte>(answers[at])
                                               : std::span<const std::byte>());
    }
  }

  parallel::Communicator& communicator_;
  const io::Checkpoint& checkpoint_;
  const io::ModelConfig& config_;
  const ops::Backend& backend_;
  const model::RotaryTables rotary_;
  std::optional<HelperPass> pass_;
};

}  // namespace

Status help_first_process(parallel::Communicator& communicator, const std::filesystem::path& model,
                          const ops::Backend& backend) {
  NMM_TRY(agree_on_model(communicator, model, backend));
  NMM_TRY(load_blas());
  NMM_ASSIGN(const io::ModelFolder opened, io::open_model(model));
  return HelperProcess(communicator, opened.checkpoint, opened.config, backend).run();
}

}  // namespace neuronmm::compress
