#include "fit/unfinished_output.h"

#include <system_error>

#include <nlohmann/json.hpp>

#include "io/checksum.h"
#include "io/folder_writer.h"
#include "io/text_file.h"
#include "io/unfinished_work.h"

namespace neuronmm::fit {
namespace {

namespace fs = std::filesystem;

fs::path note_path(const FitRequest& request) { return request.sensitivities / "output.json"; }

// Returns the settings on which the choice of a model depends. The output stands there as a
// checksum, because several outputs may share a folder of sensitivities.
std::string note_of(const FitRequest& request, const fs::path& work) {
  const auto value = [](const std::optional<double>& number) {
    return number ? nlohmann::ordered_json(*number) : nlohmann::ordered_json();
  };
  const auto embedding_bits = request.embedding_bits
                                  ? nlohmann::ordered_json(*request.embedding_bits)
                                  : nlohmann::ordered_json();
  const nlohmann::ordered_json note = {{"bytes", value(request.budget.bytes)},
                                       {"decode", value(request.budget.decode)},
                                       {"prefill", value(request.budget.prefill)},
                                       {"max_kl", value(request.budget.divergence)},
                                       {"method", "two-sided"},
                                       {"block", request.block},
                                       {"embedding_bits", embedding_bits},
                                       {"output_xxh3", io::checksum(work.string())}};
  return note.dump() + "\n";
}

}  // namespace

Status claim_output(const FitRequest& request) {
  NMM_ASSIGN(const fs::path work, io::resume_folder_of(request.out));
  const std::string note = note_of(request, work);
  const auto before = io::read_text_file(note_path(request), io::kMaxConfigBytes);
  const bool own = before.ok() && *before == note;
  if (io::has_unfinished_work(work) && !own && !request.force) {
    return io::other_work_error(work, "it was made by another command or for another budget");
  }
  return io::write_text_file(note_path(request), note);
}

void release_output(const FitRequest& request) {
  std::error_code ignored;
  fs::remove(note_path(request), ignored);
}

}  // namespace neuronmm::fit
