#include "compress/statistics/data_parallel.h"

#include <algorithm>
#include <cstring>

#include "base/parallel.h"
#include "base/threads.h"
#include "compress/statistics/sequence_groups.h"
#include "io/checksum.h"
#include "io/text_file.h"
#include "parallel/agreement.h"

namespace neuronmm::compress {
namespace {

// Adds the values in a message of another process to `values`.
void add_piece(const Bytes& theirs, std::span<double> values) {
  NMM_CHECK(theirs.size() == values.size_bytes());
  const auto* const added = reinterpret_cast<const double*>(theirs.data());
  parallel_ranges(std::ssize(values), [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) values[static_cast<size_t>(i)] += added[i];
  });
}

}  // namespace

// The modification times of a file can differ between machines. The processes therefore compare the
// checksum of config.json and the size of the weights.
Status agree_on_model(parallel::Communicator& communicator, const std::filesystem::path& model,
                      const ops::Backend& backend) {
  const auto config = io::read_text_file(model / "config.json", io::kMaxConfigBytes);
  NMM_TRY(
      parallel::first_error_of_all(communicator, config.ok() ? Status() : Status(config.error())));
  const auto checkpoint = io::Checkpoint::open(model);
  NMM_TRY(parallel::first_error_of_all(communicator,
                                       checkpoint.ok() ? Status() : Status(checkpoint.error())));
  const parallel::Fact facts[] = {
      {"the checksum of config.json", io::checksum(*config)},
      {"the bytes of the model's weights", std::to_string(checkpoint->size_bytes())},
      {"what computes", backend.name()}};
  return parallel::agree(communicator, facts);
}

Result<std::unique_ptr<DataParallel>> DataParallel::start(parallel::Communicator& communicator,
                                                          const std::filesystem::path& model,
                                                          const ops::Backend& backend) {
  NMM_TRY(agree_on_model(communicator, model, backend));
  return std::unique_ptr<DataParallel>(new DataParallel(communicator));
}

// If a process is lost, the others have ended already.
DataParallel::~DataParallel() {
  try {
    ask(Request::kEnd, {});
  } catch (const parallel::ProcessLost&) {
    return;
  }
}

void DataParallel::ask(Request request, MessageWriter message) {
  MessageWriter out;
  out.put(request);
  out.append(message.take());
  Bytes bytes = out.take();
  communicator_.broadcast(bytes);
}

void DataParallel::open_pass(const Pass& pass) {
  MessageWriter out;
  out.put(std::ssize(pass.sums));
  for (const Shape& shape : pass.sums) out.put(shape);
  out.put(std::ssize(*pass.sequences));
  for (const auto& sequence : *pass.sequences) out.put(sequence);
  out.put(pass.hidden != nullptr);
  ask(Request::kOpenPass, std::move(out));
  const auto groups = sequence_groups(*pass.sequences);
  rows_of_.assign(static_cast<size_t>(processes()), {});
  for (size_t group = 0; group < groups.size(); ++group) {
    for (size_t s = groups[group].first; s < groups[group].end; ++s) {
      rows_of_[group % rows_of_.size()].push_back(static_cast<int64_t>(s));
    }
  }
  if (pass.hidden == nullptr) return;
  int64_t row = 0;
  for (const auto& sequence : *pass.sequences) {
    const auto count = static_cast<size_t>(std::ssize(sequence) * pass.hidden->columns());
    const auto values = std::as_bytes(std::span(pass.hidden->row(row), count));
    Bytes bytes(values.begin(), values.end());
    communicator_.broadcast(bytes);
    row += std::ssize(sequence);
  }
}

Status DataParallel::begin_visit(const LayerVisit& visit, const Status& own) {
  MessageWriter out;
  out.put(visit.kind);
  out.put(visit.layer);
  out.put(visit.arguments);
  ask(Request::kVisit, std::move(out));
  return parallel::first_error_of_all(communicator_, own);
}

void DataParallel::begin_round(bool go_on) {
  Bytes bytes = {static_cast<std::byte>(go_on ? 1 : 0)};
  communicator_.broadcast(bytes);
}

// Sums travel piece by piece, so that the sums of the other processes are never in memory as a
// whole.
void DataParallel::add_sums(size_t first, size_t groups, std::vector<DoubleMatrix>& sums,
                            size_t known) {
  for (DoubleMatrix& sum : sums) {
    for (int64_t at = 0; at < sum.size(); at += kSumPiece) {
      const int64_t count = std::min(kSumPiece, sum.size() - at);
      const auto all = communicator_.gather({});
      for (int process = 1; process < processes(); ++process) {
        if (!has_group(first, process, groups)) continue;
        if (first + static_cast<size_t>(process) < known) continue;
        add_piece(all[static_cast<size_t>(process)],
                  std::span(sum.data() + at, static_cast<size_t>(count)));
      }
    }
  }
}

void DataParallel::collect_hidden(const std::vector<int64_t>& first_row, Matrix& hidden) {
  ask(Request::kHiddenStates, {});
  size_t longest = 0;
  for (const auto& rows : rows_of_) longest = std::max(longest, rows.size());
  for (size_t i = 0; i < longest; ++i) {
    const auto all = communicator_.gather({});
    for (size_t process = 1; process < all.size(); ++process) {
      if (i >= rows_of_[process].size()) continue;
      const auto sequence = static_cast<size_t>(rows_of_[process][i]);
      const int64_t rows = first_row[sequence + 1] - first_row[sequence];
      NMM_CHECK(all[process].size() == static_cast<size_t>(rows * hidden.columns()) * 4);
      std::memcpy(hidden.row(first_row[sequence]), all[process].data(), all[process].size());
    }
  }
}

void DataParallel::open_metric(const std::vector<std::vector<text::TokenId>>& sequences,
                               uint64_t seed, size_t first_group) {
  MessageWriter out;
  out.put(seed);
  out.put(static_cast<int64_t>(first_group));
  out.put(std::ssize(sequences));
  for (const auto& sequence : sequences) out.put(sequence);
  ask(Request::kMetric, std::move(out));
}

Status DataParallel::agree(const Status& own) {
  return parallel::first_error_of_all(communicator_, own);
}

Status DataParallel::run_jobs(
    const JobContext& context, const RunJob& run, const std::vector<LayerJob>& jobs,
    int64_t at_once, const std::function<Status(int64_t layer, MessageReader& result)>& take) {
  MessageWriter header;
  header.put(std::ssize(jobs));
  header.put(at_once);
  ask(Request::kJobs, std::move(header));
  std::vector<const LayerJob*> own;
  for (size_t i = 0; i < jobs.size(); ++i) {
    MessageWriter out;
    out.put(jobs[i].kind);
    out.put(jobs[i].layer);
    out.put(jobs[i].arguments);
    Bytes bytes = out.take();
    communicator_.broadcast(bytes);
    if (i % static_cast<size_t>(processes()) == 0) own.push_back(&jobs[i]);
  }
  std::vector<Bytes> results(own.size());
  const auto answer = [&](int64_t i) {
    results[static_cast<size_t>(i)] = job_answer(run, context, *own[static_cast<size_t>(i)]);
  };
  if (at_once == 1) {
    for (int64_t i = 0; i < std::ssize(own); ++i) answer(i);
  } else {
    run_on_threads(std::ssize(own), answer);
  }
  Status status;
  for (size_t first = 0; first < jobs.size(); first += static_cast<size_t>(processes())) {
    auto all = communicator_.gather({});
    all[0] = std::move(results[first / static_cast<size_t>(processes())]);
    for (size_t i = 0; i < all.size() && first + i < jobs.size(); ++i) {
      MessageReader in(all[i]);
      const bool good = in.value<bool>();
      if (!status.ok()) continue;
      status = good ? take(jobs[first + i].layer, in) : Status(fail("{}", in.text()));
    }
  }
  return status;
}

}  // namespace neuronmm::compress
