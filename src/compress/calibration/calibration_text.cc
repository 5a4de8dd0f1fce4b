#include "compress/calibration/calibration_text.h"

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <span>

#include "base/fnv1a.h"
#include "compress/calibration/document_sequences.h"
#include "io/checksum.h"
#include "io/text_file.h"
#include "model/transformer.h"
#include "text/documents.h"

namespace neuronmm::compress {
namespace {

// The number of tokens per dimension of the Gram matrix that counts as enough. Measured on
// synthetic activations of 160 dimensions at rank 64: with fewer tokens the held-out loss is more
// than 4 % above the optimum. Real tokens are correlated and need more.
constexpr int64_t kEnoughTokensPerDimension = 10;

using Tokens = std::vector<text::TokenId>;

// Returns the name of a text for records and model cards. It is the file's name without its folder,
// because folder names are private and the model may be published.
std::string public_name(const NamedText& text) {
  return text.name == "-" ? "standard input" : std::filesystem::path(text.name).filename().string();
}

// Returns the record of a text for the compressed model.
io::CalibrationSource source_of(const NamedText& text, std::span<const Tokens> sequences) {
  io::CalibrationSource source;
  source.name = public_name(text);
  source.xxh3 = io::checksum(text.text);
  source.bytes = std::ssize(text.text);
  for (const Tokens& sequence : sequences) source.tokens += std::ssize(sequence);
  return source;
}

// Divides `total` tokens equally among the texts. A text that is shorter than its share gives all
// of its tokens. The shortest texts are served first, so that the longer ones share what the short
// ones cannot give.
std::vector<int64_t> even_shares(const std::vector<int64_t>& sizes, int64_t total) {
  std::vector<size_t> shortest_first(sizes.size());
  std::iota(shortest_first.begin(), shortest_first.end(), size_t{0});
  std::ranges::stable_sort(shortest_first, {}, [&](size_t text) { return sizes[text]; });
  std::vector<int64_t> shares(sizes.size());
  for (size_t i = 0; i < sizes.size(); ++i) {
    const size_t text = shortest_first[i];
    const auto left = static_cast<int64_t>(sizes.size() - i);
    shares[text] = std::min(sizes[text], total / left);
    total -= shares[text];
  }
  return shares;
}

// Cuts `share` tokens from the text as sequences of equal length, at most `longest`, spread evenly
// over the text. Appends the tokens between the sequences to `spare`.
void add_sequences(const Tokens& tokens, int64_t share, int64_t longest,
                   std::vector<Tokens>& sequences, std::vector<Tokens>& spare) {
  if (share == 0) return;
  // The text has places for `available` sequences of this length, and the loop takes `count` of
  // them at equal distances.
  const int64_t count = (share + longest - 1) / longest, length = share / count;
  const int64_t available = static_cast<int64_t>(tokens.size()) / length;
  auto end = tokens.begin();  // the end of the previous sequence
  for (int64_t i = 0; i < count; ++i) {
    const auto first = tokens.begin() + (i * available / count) * length;
    if (first > end) spare.emplace_back(end, first);
    end = first + length;
    sequences.emplace_back(first, end);
  }
  if (end < tokens.end()) spare.emplace_back(end, tokens.end());
}

// Cuts sequences into pieces of `length` tokens and drops the rest of each. A sequence that is
// shorter than `length` becomes a piece by itself if it has two tokens or more, unless `whole_only`
// is set.
std::vector<Tokens> pieces_of(const std::vector<Tokens>& sequences, int64_t length,
                              bool whole_only) {
  std::vector<Tokens> pieces;
  for (const Tokens& sequence : sequences) {
    const int64_t size = std::ssize(sequence);
    if (size < length && size >= 2 && !whole_only) pieces.push_back(sequence);
    for (int64_t first = 0; first + length <= size; first += length) {
      pieces.emplace_back(sequence.begin() + first, sequence.begin() + first + length);
    }
  }
  return pieces;
}

// Moves pieces with kMeasuredTokens tokens in all out of `pieces` and returns them. The chosen
// pieces are spread evenly, and the last one is cut to the exact number. If `pieces` has fewer
// tokens, the function takes all of them.
std::vector<Tokens> take_spread(std::vector<Tokens>& pieces) {
  int64_t tokens = 0;
  for (const Tokens& piece : pieces) tokens += std::ssize(piece);
  if (tokens <= kMeasuredTokens) return std::exchange(pieces, {});
  const int64_t available = std::ssize(pieces);
  const int64_t count = (kMeasuredTokens * available + tokens - 1) / tokens;
  std::vector<Tokens> chosen;
  int64_t left = kMeasuredTokens;
  for (int64_t i = 0; i < count; ++i) {
    chosen.push_back(std::exchange(pieces[static_cast<size_t>(i * available / count)], {}));
    left -= std::ssize(chosen.back());
  }
  std::erase_if(pieces, [](const Tokens& piece) { return piece.empty(); });
  const int64_t rest = std::ssize(chosen.back()) + left;
  if (left < 0 && rest >= 2) chosen.back().resize(static_cast<size_t>(rest));
  return chosen;
}

// Returns the tokens of a text: one run for each document, or a single run for plain text.
Result<std::vector<Tokens>> encoded_runs(const text::Tokenizer& tokenizer, const NamedText& text,
                                         const io::ModelConfig& config) {
  std::vector<Tokens> runs;
  if (text.documents) {
    NMM_ASSIGN(runs, text::encode_records(tokenizer, text.text, text.name));
  } else {
    auto tokens = tokenizer.encode(text.text);
    if (!tokens.ok()) return fail("{}: {}", text.name, tokens.error().message);
    runs.push_back(std::move(tokens).value());
  }
  for (const Tokens& run : runs) {
    const Status ids = model::check_token_ids(run, config);
    if (!ids.ok()) return fail("{}: {}", text.name, ids.error().message);
  }
  return runs;
}

int64_t count_tokens(const std::vector<Tokens>& runs) {
  int64_t count = 0;
  for (const Tokens& run : runs) count += std::ssize(run);
  return count;
}

}  // namespace

NamedText NamedText::of_file(std::string name, std::string text) {
  const bool documents = name.ends_with(".jsonl");
  return {std::move(name), std::move(text), documents};
}

int64_t enough_tokens(const io::ModelConfig& config) {
  return kEnoughTokensPerDimension * config.hidden_size;
}

void choose_measured(const std::vector<Tokens>& spare, int64_t longest,
                     CalibrationSequences& result) {
  // The length of a piece. Assumed: it is short enough for kMeasuredTokens tokens to come from
  // several places of a text, and long enough for most tokens to have a context.
  constexpr int64_t kPieceTokens = 512;
  const int64_t length = std::min(longest, kPieceTokens);
  std::vector<Tokens> pieces = pieces_of(spare, length, /*whole_only=*/true);
  const auto enough = [&] { return std::ssize(pieces) * length >= kMeasuredTokens; };
  const std::vector<Tokens> of_sequences = pieces_of(result.sequences, length, false);
  std::vector<Tokens> seen = of_sequences;
  result.measured_held_out = enough();
  result.measured = take_spread(enough() ? pieces : seen);
  seen = of_sequences;
  result.has_held_out = enough();
  result.held_out = take_spread(enough() ? pieces : seen);
}

Status read_texts(CalibrationText& calibration) {
  for (NamedText& text : calibration.texts) {
    NMM_ASSIGN(text.text, io::read_corpus(text.name));
  }
  return {};
}

std::string joined_names(const std::vector<NamedText>& texts) {
  std::string names;
  for (const NamedText& text : texts) names += (names.empty() ? "" : ", ") + text.name;
  return names;
}

int64_t CalibrationSequences::longest() const {
  size_t longest = 0;
  for (const Tokens& sequence : sequences) longest = std::max(longest, sequence.size());
  return static_cast<int64_t>(longest);
}

Result<CalibrationSequences> calibration_sequences(const text::Tokenizer& tokenizer,
                                                   const std::vector<NamedText>& texts,
                                                   int64_t max_tokens,
                                                   const io::ModelConfig& config) {
  CalibrationSequences result;
  std::vector<std::vector<Tokens>> encoded;
  std::vector<int64_t> sizes;
  for (const NamedText& text : texts) {
    NMM_ASSIGN(encoded.emplace_back(), encoded_runs(tokenizer, text, config));
    sizes.push_back(count_tokens(encoded.back()));
    // The origin names every text with its hash, so that a later run notices Gram matrices of
    // another text.
    result.origin.text += fmt::format("{}{} fnv1a:{:016x}", result.origin.text.empty() ? "" : ", ",
                                      public_name(text), fnv1a(text.text));
  }
  const int64_t longest = std::min(kSequenceTokens, config.max_position_embeddings);
  const std::vector<int64_t> shares = even_shares(sizes, max_tokens);
  std::vector<Tokens> spare;
  for (size_t i = 0; i < encoded.size(); ++i) {
    const size_t before = result.sequences.size();
    if (texts[i].documents) {
      take_evenly(packed_documents(encoded[i], longest), shares[i], result.sequences, spare);
    } else {
      add_sequences(encoded[i].front(), shares[i], longest, result.sequences, spare);
    }
    result.origin.sources.push_back(
        source_of(texts[i], std::span(result.sequences).subspan(before)));
    result.origin.tokens += result.origin.sources.back().tokens;
  }
  result.origin.asked = max_tokens;
  const int64_t used = result.origin.tokens;
  const int64_t enough = enough_tokens(config);
  if (used < config.hidden_size) {
    return fail(
        "{}: expected at least {} calibration tokens (the model's hidden_size; {} are enough), "
        "found {} tokens and used {}",
        joined_names(texts), config.hidden_size, enough,
        std::accumulate(sizes.begin(), sizes.end(), int64_t{0}), used);
  }
  result.few = used < enough;
  choose_measured(spare, longest, result);
  return result;
}

Result<CalibrationSequences> encoded_calibration(const CalibrationText& text,
                                                 const std::filesystem::path& model,
                                                 const io::ModelConfig& config,
                                                 Progress& progress) {
  NMM_ASSIGN(const auto tokenizer, text::Tokenizer::load(model));
  NMM_ASSIGN(auto encoded, calibration_sequences(tokenizer, text.texts, text.max_tokens, config));
  progress.print(fmt::format("calibration: {} tokens of {} ({} sequences of at most {})",
                             encoded.origin.tokens, joined_names(text.texts),
                             encoded.sequences.size(), encoded.longest()));
  warn_of_few(encoded, config, progress);
  return encoded;
}

void warn_of_few(const CalibrationSequences& text, const io::ModelConfig& config,
                 Progress& progress) {
  if (!text.few) return;
  progress.print(
      fmt::format("warning: {} calibration tokens are few for hidden_size {}; use at least {}",
                  text.origin.tokens, config.hidden_size, enough_tokens(config)));
}

}  // namespace neuronmm::compress
