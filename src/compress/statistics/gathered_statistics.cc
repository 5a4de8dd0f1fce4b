#include "compress/statistics/gathered_statistics.h"

#include <system_error>

#include <nlohmann/json.hpp>

#include "base/kept_work.h"
#include "base/notices.h"
#include "compress/statistics/expert_statistics.h"
#include "compress/statistics/output_metric.h"
#include "compress/statistics/work_folder.h"
#include "io/atomic_file.h"
#include "io/file_identity.h"
#include "io/folder_writer.h"
#include "io/mapped_file.h"
#include "io/safetensors.h"

namespace neuronmm::compress {
namespace {

namespace fs = std::filesystem;

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

// Tells the user which experts the text has hardly reached.
Status name_completed_experts(const fs::path& statistics, const io::ModelConfig& config) {
  NMM_ASSIGN(const auto uses, read_expert_uses(statistics, config));
  const std::string experts = completed_experts(uses);
  if (experts.empty()) return {};
  notify(fmt::format(
      "experts that fewer than {} tokens of the text have chosen are judged by all tokens of their "
      "layer, too ({}); more text, or other text, may reach them",
      enough_tokens_of_expert(config), experts));
  return {};
}

class Gathering {
 public:
  Gathering(const CompressionInputs& inputs, const StatisticsRequest& request, const fs::path& work)
      : inputs_(inputs), request_(request), work_(work) {}

  Result<StatisticsFiles> run() const {
    if (request_.folder.empty()) return in_work();
    return inputs_.text == nullptr ? as_they_are() : completed();
  }

 private:
  Result<StatisticsFiles> in_work() const {
    StatisticsFiles files{.statistics = work_, .metric = {}, .losses = work_};
    if (two_sided()) {
      NMM_ASSIGN(files.metric, made_metric(work_));
    }
    NMM_TRY(gather_statistics(inputs_, work_, request_.what));
    return files;
  }

  Result<StatisticsFiles> as_they_are() const {
    NMM_CHECK(request_.saved != nullptr);
    const SavedStatistics& saved = *request_.saved;
    StatisticsFiles files{.statistics = saved.folder(),
                          .metric = {},
                          .losses = losses_folder(saved.folder()),
                          .losses_are_fixed = true};
    if (of_all_linears()) NMM_TRY(check_linear_statistics(saved.folder(), inputs_.config));
    if (two_sided()) files.metric = saved.metric();
    return files;
  }

  Result<StatisticsFiles> completed() const {
    const fs::path& folder = request_.folder;
    if (request_.saved != nullptr) {
      NMM_TRY(complete(*request_.saved));
    } else {
      NMM_TRY(make_or_complete());
    }
    StatisticsFiles files{.statistics = folder, .metric = {}, .losses = losses_folder(folder)};
    if (two_sided()) files.metric = SavedStatistics::metric_path(folder);
    return files;
  }

  // If an earlier run was interrupted after it had made the folder, this function completes the
  // folder.
  Status make_or_complete() const {
    auto output = io::FolderWriter::create(request_.folder, io::FolderWriter::IfExists::kRefuse,
                                           inputs_.checkpoint.folder());
    if (output.ok()) return make_folder(std::move(output).value());
    if (output.error().kind != Error::Kind::kExists) return output.error();
    NMM_ASSIGN(const auto saved,
               SavedStatistics::open(request_.folder, inputs_.checkpoint, inputs_.config));
    NMM_TRY(saved.check_texts(*inputs_.text));
    return complete(saved);
  }

  fs::path losses_folder(const fs::path& folder) const {
    return SavedStatistics::losses_folder(folder, request_.method);
  }
  bool two_sided() const { return request_.method == "two-sided"; }
  bool of_all_linears() const { return request_.what == Gathered::kAllLinears; }

  // Returns the file with the output metric and makes it first if necessary.
  Result<fs::path> made_metric(const fs::path& folder) const {
    const fs::path path = SavedStatistics::metric_path(folder);
    std::error_code ignored;
    if (fs::exists(path, ignored) && io::SafetensorsFile::open_checked(path).ok()) return path;
    NMM_TRY(make_output_metric(
        inputs_, {.sequences = metric_sequences(*inputs_.text), .work = folder, .file = path}));
    return path;
  }

  Status complete(const SavedStatistics& saved) const {
    if (of_all_linears()) NMM_TRY(complete_linears(saved.folder()));
    if (!two_sided() || saved.has_metric()) return {};
    NMM_ASSIGN(const fs::path metric, made_metric(work_));
    return copy_whole(metric, saved.metric());
  }

  // The file of the head is written last, so its presence means that all files are there. One of
  // them that cannot be read is then an error.
  Status complete_linears(const fs::path& folder) const {
    std::error_code error;
    const bool has_all = fs::exists(head_path(folder), error);
    if (error) return fail("{}: cannot be examined: {}", folder.string(), error.message());
    return has_all ? check_linear_statistics(folder, inputs_.config) : add_linears(folder);
  }

  // Adds the statistics of attention and of the LM head to a folder that has only those of MLPs.
  Status add_linears(const fs::path& folder) const {
    NMM_TRY(gather_statistics(inputs_, work_, Gathered::kAllLinears));
    for (int64_t layer = 0; layer < inputs_.config.num_hidden_layers; ++layer) {
      NMM_TRY(copy_whole(attention_path(work_, layer), attention_path(folder, layer)));
    }
    return copy_whole(head_path(work_), head_path(folder));
  }

  Result<std::string> settings() const {
    NMM_ASSIGN(const nlohmann::ordered_json identity,
               io::folder_identity(inputs_.checkpoint.folder()));
    const nlohmann::ordered_json settings = {{"model", identity},
                                             {"text", inputs_.text->origin.text},
                                             {"tokens", inputs_.text->origin.tokens}};
    constexpr auto kReplace = nlohmann::ordered_json::error_handler_t::replace;
    return settings.dump(2, ' ', false, kReplace) + "\n";
  }

  Status make_folder(io::FolderWriter output) const {
    const fs::path work = output.resume_folder();
    NMM_ASSIGN(const std::string all_settings, settings());
    NMM_TRY(open_work_folder(work, all_settings,
                             request_.force ? OtherWork::kDelete : OtherWork::kRefuse,
                             inputs_.progress));
    const KeptWork kept(work.parent_path().string());
    if (two_sided()) {
      NMM_ASSIGN(const fs::path metric, made_metric(work));
    }
    NMM_TRY(gather_statistics(inputs_, work, Gathered::kAllLinears));
    for (int64_t layer = 0; layer < inputs_.config.num_hidden_layers; ++layer) {
      NMM_TRY(move_file(statistics_path(work, layer), statistics_path(output.staging(), layer)));
    }
    for (int64_t layer = 0; layer < inputs_.config.num_hidden_layers; ++layer) {
      NMM_TRY(move_file(attention_path(work, layer), attention_path(output.staging(), layer)));
    }
    NMM_TRY(move_file(head_path(work), head_path(output.staging())));
    if (two_sided()) {
      NMM_TRY(move_file(SavedStatistics::metric_path(work),
                        SavedStatistics::metric_path(output.staging())));
    }
    NMM_TRY(SavedStatistics::describe(output.staging(), inputs_.checkpoint, inputs_.config,
                                      inputs_.text->origin));
    return output.commit();
  }

  const CompressionInputs& inputs_;
  const StatisticsRequest& request_;
  const fs::path& work_;
};

}  // namespace

Result<StatisticsFiles> gathered_statistics(const CompressionInputs& inputs,
                                            const StatisticsRequest& request,
                                            const fs::path& work) {
  NMM_ASSIGN(StatisticsFiles files, Gathering(inputs, request, work).run());
  if (inputs.config.experts) NMM_TRY(name_completed_experts(files.statistics, inputs.config));
  return files;
}

}  // namespace neuronmm::compress
