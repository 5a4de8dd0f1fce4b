#include "compress/calibration_input.h"

#include <system_error>

#include "compress/generated_text.h"

namespace neuronmm::compress {

const CalibrationOrigin* CalibrationInput::origin() const {
  if (statistics) return &statistics->origin();
  return text ? &text->origin : nullptr;
}

Result<CalibrationInput> open_calibration(const std::optional<CalibrationText>& text,
                                          const std::filesystem::path& statistics,
                                          const io::Checkpoint& checkpoint,
                                          const io::ModelConfig& config, Progress& progress) {
  CalibrationInput input;
  if (text && text->self_generated > 0) {
    if (!text->texts.empty()) {
      return fail("a calibration text and one that the model writes exclude each other");
    }
    NMM_TRY(check_generated({checkpoint.folder(), text->self_generated, text->seed}, config));
  } else if (text) {
    NMM_ASSIGN(input.text, encoded_calibration(*text, checkpoint.folder(), config, progress));
  }
  std::error_code ignored;
  if (statistics.empty() || (text && !std::filesystem::exists(statistics, ignored))) return input;
  NMM_ASSIGN(input.statistics, SavedStatistics::open(statistics, checkpoint, config));
  if (input.text) NMM_TRY(input.statistics->check_texts(*input.text));
  progress.print(fmt::format("statistics: {} tokens, saved in {}",
                             input.statistics->origin().tokens, statistics.string()));
  return input;
}

}  // namespace neuronmm::compress
