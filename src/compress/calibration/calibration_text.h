#pragma once
// Turns the calibration texts of `compress`, `quantize` and `fit` into token sequences, and sets
// tokens aside on which the result can be measured. The commands and the Python package call
// read_texts(). open_calibration() (statistics/calibration_input.h) and fit() call
// encoded_calibration().
//
// Texts that have fewer tokens than the hidden size are refused; texts that have less than ten
// times as many cause a warning. Files that are not UTF-8 text and broken JSON lines are errors,
// too.

#include <filesystem>
#include <string>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "io/calibration_source.h"
#include "io/model_config.h"
#include "text/tokenizer/tokenizer.h"

namespace neuronmm::compress {

// The length of a sequence and the default number of calibration tokens, as SVD-LLM and GPTQ
// sample. The default is 64 tokens per hidden dimension of Llama-3.2-1B. More tokens would improve
// the held-out loss on synthetic activations by less than 2 %.
inline constexpr int64_t kSequenceTokens = 2048;
inline constexpr int64_t kDefaultCalibrationTokens = 64 * kSequenceTokens;
// The default number of calibration tokens of `quantize`, `fit` and the forms of `compress` that
// narrow whole MLPs. Assumed: their two passes then take about as long as the one pass of form uv.
// More tokens lose less (docs/measurements/quality.md, "More calibration text").
inline constexpr int64_t kShapeCalibrationTokens = 32 * 1024;

// The number of tokens that a compressed model is measured on. Assumed: measuring costs little
// compared with the calibration, and the result tells a model that still works from one that does
// not.
inline constexpr int64_t kMeasuredTokens = 2048;

// A calibration text and its name.
struct NamedText {
  // `name` is what messages call the text.
  std::string name, text;
  // Whether the text is JSON lines with a document or a chat each (text/documents.h).
  bool documents = false;

  // Returns the text of a file. A file named NAME.jsonl holds documents and chats.
  static NamedText of_file(std::string name, std::string text);
};

// The calibration text that a user asks for.
struct CalibrationText {
  // The texts, which all give the same number of tokens if they are long enough.
  std::vector<NamedText> texts;
  int64_t max_tokens = kDefaultCalibrationTokens;
  // The number of tokens that the dense model writes itself (generated_text.h). If it is not 0,
  // `texts` is empty.
  int64_t self_generated = 0;
  uint64_t seed = 0;
};

// Reads the texts from the files that their names say; "-" is standard input. Fails if a file
// cannot be read or is not UTF-8 text (io::read_corpus).
Status read_texts(CalibrationText& calibration);

// Returns the names as a list for messages, such as "a.txt, b.txt".
std::string joined_names(const std::vector<NamedText>& texts);

// The texts that some statistics come from.
struct CalibrationOrigin {
  // The number of tokens that were used, of all texts together.
  int64_t tokens = 0;
  // The largest number of tokens that was asked for; 0 if it is unknown.
  int64_t asked = 0;
  // The names and hashes of the texts.
  std::string text;
  // The identity of each text, for the record in the model folder.
  std::vector<io::CalibrationSource> sources = {};
};

// Calibration tokens as sequences. The model reads each sequence with an empty context.
struct CalibrationSequences {
  std::vector<std::vector<text::TokenId>> sequences;
  // kMeasuredTokens tokens on which the compressed model can be measured. They are in no sequence,
  // and their pieces are spread over the texts. If the texts have too few tokens to spare, the
  // pieces are taken from the sequences, and measured_held_out is false.
  std::vector<std::vector<text::TokenId>> measured;
  bool measured_held_out = false;
  // kMeasuredTokens tokens on which `compress` decides between forms and sizes. They are in no
  // sequence and not in `measured`. If the texts have too few tokens to spare, the pieces are taken
  // from the sequences, and has_held_out is false.
  std::vector<std::vector<text::TokenId>> held_out;
  bool has_held_out = false;
  CalibrationOrigin origin;
  // Whether there are fewer than ten tokens per dimension of the Gram matrix.
  bool few = false;

  int64_t longest() const;
};

// Encodes every text once and takes at most `max_tokens` tokens from all of them together. Every
// text gives the same number of tokens. A text that is too short for its share gives all it has,
// and the others make up for it.
//
// The tokens of a plain text are cut into as few sequences of equal length as possible, spread
// evenly over the text. No sequence is longer than min(2048, max_position_embeddings). Documents
// are packed into sequences of at most that length (document_sequences.h), and sequences that are
// spread evenly over the file are taken until they have the text's share.
//
// Fails if the texts have fewer tokens than hidden_size in all, because the Gram matrix of so
// little text cannot have full rank. Fails also if a document is not valid JSON, if there is a chat
// and the model has no template for it, if the tokenizer cannot encode a text, or if a token id is
// outside the model's vocabulary.
Result<CalibrationSequences> calibration_sequences(const text::Tokenizer& tokenizer,
                                                   const std::vector<NamedText>& texts,
                                                   int64_t max_tokens,
                                                   const io::ModelConfig& config);

// Does the same with the tokenizer in the folder `model`. Prints the number of tokens, and a
// warning if they are few. Fails also if the tokenizer cannot be loaded.
Result<CalibrationSequences> encoded_calibration(const CalibrationText& text,
                                                 const std::filesystem::path& model,
                                                 const io::ModelConfig& config, Progress& progress);
// Prints a warning if the text has few tokens for this model.
void warn_of_few(const CalibrationSequences& text, const io::ModelConfig& config,
                 Progress& progress);

// Returns the number of tokens below which a calibration counts as `few`.
int64_t enough_tokens(const io::ModelConfig& config);

// Fills in `measured` and `held_out` of `result`, in pieces of at most `longest` tokens. The pieces
// come from `spare`, or from the sequences if `spare` has too few tokens.
void choose_measured(const std::vector<std::vector<text::TokenId>>& spare, int64_t longest,
                     CalibrationSequences& result);

}  // namespace neuronmm::compress
