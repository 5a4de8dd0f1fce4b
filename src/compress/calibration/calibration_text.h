#pragma once
// Calibration texts as token sequences.

#include <filesystem>
#include <string>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "io/calibration_source.h"
#include "io/model_config.h"
#include "text/tokenizer.h"

namespace neuronmm::compress {

// As SVD-LLM and GPTQ sample: 64 sequences of 2048 tokens are 64 times the hidden size of
// Llama-3.2-1B, beyond which the held-out loss improves by less than 2 %.
inline constexpr int64_t kSequenceTokens = 2048;
inline constexpr int64_t kDefaultCalibrationTokens = 64 * kSequenceTokens;
// Of forms that narrow whole MLPs. Assumed, so that their two passes take about as long as the one
// of two factors; how much more text would gain is not measured.
inline constexpr int64_t kShapeCalibrationTokens = 32 * 1024;

// Few enough to cost little beside the calibration, many enough to tell a model that still works
// from one that does not.
inline constexpr int64_t kMeasuredTokens = 2048;

struct NamedText {
  std::string name, text;  // name: what messages call it
  bool documents = false;  // the text is JSON lines (text/documents.h)

  // A file: NAME.jsonl has documents.
  static NamedText of_file(std::string name, std::string text);
};

// What is asked for.
struct CalibrationText {
  std::vector<NamedText> texts;  // sampled evenly
  int64_t max_tokens = kDefaultCalibrationTokens;
  // In place of texts: so many tokens that the dense model writes (generated_text.h).
  int64_t self_generated = 0;
  uint64_t seed = 0;
};

std::string joined_names(const std::vector<NamedText>& texts);  // "a.txt, b.txt"

// Which texts statistics are of.
struct CalibrationOrigin {
  int64_t tokens = 0;                               // that were used of all texts
  int64_t asked = 0;                                // that were to be used at most; 0: unknown
  std::string text;                                 // names and hashes of the texts
  std::vector<io::CalibrationSource> sources = {};  // one per text, for the record of a model
};

// Every sequence is a fresh context.
struct CalibrationSequences {
  std::vector<std::vector<text::TokenId>> sequences;
  // What the compressed model can be measured on: kMeasuredTokens tokens that no sequence has, in
  // pieces that are spread over the texts, or, where those have fewer to spare, pieces of the
  // sequences themselves.
  std::vector<std::vector<text::TokenId>> measured;
  bool measured_held_out = false;
  // What decisions are taken on: kMeasuredTokens tokens that neither the sequences nor `measured`
  // have, or, where the texts have fewer to spare, pieces of the sequences.
  std::vector<std::vector<text::TokenId>> held_out;
  bool has_held_out = false;  // false: they are pieces of the sequences
  CalibrationOrigin origin;
  bool few = false;  // fewer than ten tokens per dimension of the Gram matrix

  int64_t longest() const;
};

// Encodes every text once and takes at most `max_tokens` tokens from all of them together. Every
// text gives the same number of tokens; one that is too short for its share gives all it has, and
// the others make up for it. What is taken of a text is cut into sequences of one length, as few as
// there can be if none is longer than min(2048, max_position_embeddings), and they are spread
// evenly over the text. Documents are packed into sequences of at most that length
// (document_sequences.h), of which so many are taken.
//
// Refused: fewer tokens than hidden_size in all, since the Gram matrix of so little text cannot
// have full rank.
Result<CalibrationSequences> calibration_sequences(const text::Tokenizer& tokenizer,
                                                   const std::vector<NamedText>& texts,
                                                   int64_t max_tokens,
                                                   const io::ModelConfig& config);

// The same with the tokenizer of a model's folder; says how much it is, and whether that is little.
Result<CalibrationSequences> encoded_calibration(const CalibrationText& text,
                                                 const std::filesystem::path& model,
                                                 const io::ModelConfig& config, Progress& progress);
void warn_of_few(const CalibrationSequences& text, const io::ModelConfig& config,
                 Progress& progress);

// Below so many tokens the calibration is `few`.
int64_t enough_tokens(const io::ModelConfig& config);

// Fills in what the result can be measured on, in pieces of at most `longest` tokens, from `spare`
// or, where that has too little, from the sequences.
void choose_measured(const std::vector<std::vector<text::TokenId>>& spare, int64_t longest,
                     CalibrationSequences& result);

}  // namespace neuronmm::compress
