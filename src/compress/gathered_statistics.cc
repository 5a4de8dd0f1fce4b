#include "compress/gathered_statistics.h"

#include <algorithm>
#include <system_error>

#include <nlohmann/json.hpp>

#include "compress/losses_file.h"
#include "compress/staged_work.h"
#include "io/atomic_file.h"
#include "io/file_identity.h"
#include "io/folder_writer.h"
#include "io/mapped_file.h"
#include "io/safetensors.h"

namespace neuronmm::compress {
namespace {

namespace fs = std::filesystem;

// Few and long enough for one backward pass to cost about what the calibration does.
constexpr size_t kMetricSequences = 6;
constexpr size_t kMetricTokens = 1024;

// Spread over the calibration text.
std::vector<std::vector<text::TokenId>> metric_sequences(const CalibrationSequences& text) {
  std::vector<std::vector<text::TokenId>> out;
  const size_t count = std::min(kMetricSequences, text.sequences.size());
  for (size_t i = 0; i < count; ++i) {
    const auto& sequence = text.sequences[i * text.sequences.size() / count];
    out.emplace_back(sequence.begin(), sequence.begin() + std::min(sequence.size(), kMetricTokens));
  }
  return out;
}

Status copy_whole(const fs::path& from, const fs::path& to) {
  NMM_ASSIGN(const auto file, io::MappedFile::open(from));
  NMM_ASSIGN(auto copy, io::AtomicFile::create(to));
  NMM_TRY(copy.append(file->bytes()));
  return copy.finish();
}

Status move_file(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (!error) return {};
  return fail("{}: cannot be renamed to {}: {}", from.string(), to.string(), error.message());
}

class Gathering {
 public:
  Gathering(const CompressionInputs& inputs, const StatisticsRequest& request, const fs::path& work,
            const MakeMetric& make_metric)
      : inputs_(inputs), request_(request), work_(work), make_metric_(make_metric) {}

  Result<StatisticsFiles> from_saved(const SavedStatistics& saved) const {
    StatisticsFiles files{saved.folder(), {}, work_};
    if (of_all_linears()) NMM_TRY(check_linear_statistics(saved.folder(), inputs_.config));
    if (two_sided()) {
      files.metric = saved.metric();
      if (!saved.has_metric()) {
        NMM_ASSIGN(files.metric, made_metric(work_));
        return files;
      }
    }
    const fs::path losses = SavedStatistics::losses_folder(saved.folder(), request_.method);
    if (has_all_losses(losses)) files.losses = losses;
    return files;
  }

  Result<StatisticsFiles> saved_at(const fs::path& folder) const {
    auto output = io::FolderWriter::create(folder, io::FolderWriter::IfExists::kRefuse,
                                           inputs_.checkpoint.folder());
    if (!output.ok() && output.error().kind == Error::Kind::kExists) {
      NMM_TRY(complete(folder));
    } else {
      if (!output.ok()) return output.error();
      NMM_TRY(make_folder(std::move(output).value()));
    }
    StatisticsFiles files{folder, {}, SavedStatistics::losses_folder(folder, request_.method)};
    if (two_sided()) files.metric = SavedStatistics::metric_path(folder);
    std::error_code error;
    fs::create_directory(files.losses, error);
    if (error) return fail("{}: cannot be created: {}", files.losses.string(), error.message());
    return files;
  }

  Result<StatisticsFiles> in_work() const {
    StatisticsFiles files{work_, {}, work_};
    if (two_sided()) {
      NMM_ASSIGN(files.metric, made_metric(work_));
    }
    NMM_TRY(gather_statistics(pass_inputs(inputs_), work_, request_.what));
    return files;
  }

 private:
  bool two_sided() const { return request_.method == "two-sided"; }
  bool of_all_linears() const { return request_.what == Gathered::kAllLinears; }

  bool has_all_losses(const fs::path& folder) const {
    for (int64_t layer = 0; layer < inputs_.config.num_hidden_layers; ++layer) {
      if (!read_losses(folder, layer, inputs_.config)) return false;
    }
    return true;
  }

  // The metric comes first: it is the one step that another program makes, and may be missing.
  Result<fs::path> made_metric(const fs::path& folder) const {
    const fs::path path = SavedStatistics::metric_path(folder);
    std::error_code ignored;
    if (fs::exists(path, ignored) && io::SafetensorsFile::open_checked(path).ok()) return path;
    if (!make_metric_) return fail("method two-sided needs somebody who makes the metric");
    NMM_TRY(make_metric_(metric_sequences(*inputs_.text), path));
    return path;
  }

  // Of another run, or of this one before it was interrupted.
  Status complete(const fs::path& folder) const {
    NMM_ASSIGN(const auto saved, SavedStatistics::open(folder, inputs_.checkpoint, inputs_.config));
    NMM_TRY(saved.check_texts(*inputs_.text));
    if (saved.origin().tokens != inputs_.text->origin.tokens) {
      return fail("{}: its statistics are of {} tokens of the text, wanted are those of {}",
                  folder.string(), saved.origin().tokens, inputs_.text->origin.tokens);
    }
    inputs_.progress.print(fmt::format("statistics: {} has them already", folder.string()));
    if (of_all_linears() && !check_linear_statistics(folder, inputs_.config).ok()) {
      NMM_TRY(add_linears(folder));
    }
    if (!two_sided() || saved.has_metric()) return {};
    NMM_ASSIGN(const fs::path metric, made_metric(work_));
    return copy_whole(metric, saved.metric());
  }

  // To a folder of old, which has those of MLPs alone. The head's come last: with them all are
  // there.
  Status add_linears(const fs::path& folder) const {
    NMM_TRY(gather_statistics(pass_inputs(inputs_), work_, Gathered::kAllLinears));
    for (int64_t layer = 0; layer < inputs_.config.num_hidden_layers; ++layer) {
      NMM_TRY(copy_whole(attention_path(work_, layer), attention_path(folder, layer)));
    }
    return copy_whole(head_path(work_), head_path(folder));
  }

  std::string settings() const {
    const auto identity = io::folder_identity(inputs_.checkpoint.folder());
    const nlohmann::ordered_json settings = {
        {"model", identity.ok() ? *identity : nlohmann::ordered_json()},
        {"text", inputs_.text->origin.text},
        {"tokens", inputs_.text->origin.tokens}};
    constexpr auto kReplace = nlohmann::ordered_json::error_handler_t::replace;
    return settings.dump(2, ' ', false, kReplace) + "\n";
  }

  Status make_folder(io::FolderWriter output) const {
    NMM_ASSIGN(const auto work, StagedWork::open(output.resume_folder(), settings()));
    if (two_sided()) {
      NMM_ASSIGN(const fs::path metric, made_metric(work.path()));
    }
    NMM_TRY(gather_statistics(pass_inputs(inputs_), work.path(), Gathered::kAllLinears));
    for (int64_t layer = 0; layer < inputs_.config.num_hidden_layers; ++layer) {
      NMM_TRY(
          move_file(statistics_path(work.path(), layer), statistics_path(output.staging(), layer)));
    }
    for (int64_t layer = 0; layer < inputs_.config.num_hidden_layers; ++layer) {
      NMM_TRY(
          move_file(attention_path(work.path(), layer), attention_path(output.staging(), layer)));
    }
    NMM_TRY(move_file(head_path(work.path()), head_path(output.staging())));
    if (two_sided()) {
      NMM_TRY(move_file(SavedStatistics::metric_path(work.path()),
                        SavedStatistics::metric_path(output.staging())));
    }
    NMM_TRY(SavedStatistics::describe(output.staging(), inputs_.checkpoint, inputs_.config,
                                      inputs_.text->origin));
    return output.commit();
  }

  const CompressionInputs& inputs_;
  const StatisticsRequest& request_;
  const fs::path& work_;
  const MakeMetric& make_metric_;
};

}  // namespace

Result<StatisticsFiles> gathered_statistics(const CompressionInputs& inputs,
                                            const StatisticsRequest& request, const fs::path& work,
                                            const MakeMetric& make_metric) {
  const Gathering gathering(inputs, request, work, make_metric);
  if (request.saved != nullptr) return gathering.from_saved(*request.saved);
  return request.save.empty() ? gathering.in_work() : gathering.saved_at(request.save);
}

}  // namespace neuronmm::compress
