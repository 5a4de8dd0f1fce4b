#include "compress/calibration/document_sequences.h"

#include <utility>

namespace neuronmm::compress {
namespace {

using DocumentTokens = std::vector<text::TokenId>;

void add_equal_pieces(const DocumentTokens& document, int64_t longest,
                      std::vector<DocumentTokens>& pieces) {
  const int64_t size = std::ssize(document), count = (size + longest - 1) / longest;
  for (int64_t i = 0; i < count; ++i) {
    pieces.emplace_back(document.begin() + size * i / count,
                        document.begin() + size * (i + 1) / count);
  }
}

}  // namespace

std::vector<DocumentTokens> packed_documents(const std::vector<DocumentTokens>& documents,
                                             int64_t longest) {
  std::vector<DocumentTokens> sequences;
  DocumentTokens open;
  const auto close = [&] {
    if (!open.empty()) sequences.push_back(std::exchange(open, {}));
  };
  for (const DocumentTokens& document : documents) {
    const int64_t size = std::ssize(document);
    if (std::ssize(open) + size > longest) close();
    if (size > longest) {
      add_equal_pieces(document, longest, sequences);
    } else {
      open.insert(open.end(), document.begin(), document.end());
    }
  }
  close();
  return sequences;
}

// A sequence is taken if the tokens taken so far are fewer than the part of `share` that belongs to
// all tokens up to the sequence's end.
void take_evenly(std::vector<DocumentTokens> all, int64_t share, std::vector<DocumentTokens>& taken,
                 std::vector<DocumentTokens>& spare) {
  int64_t total = 0, seen = 0, count = 0;
  for (const DocumentTokens& sequence : all) total += std::ssize(sequence);
  for (DocumentTokens& sequence : all) {
    const int64_t size = std::ssize(sequence), left = share - count;
    seen += size;
    const bool due = static_cast<double>(count) * static_cast<double>(total) <
                     static_cast<double>(share) * static_cast<double>(seen);
    if (!due || left < 2) {
      spare.push_back(std::move(sequence));
      continue;
    }
    if (size > left) {
      spare.emplace_back(sequence.begin() + left, sequence.end());
      sequence.resize(static_cast<size_t>(left));
    }
    count += std::ssize(sequence);
    taken.push_back(std::move(sequence));
  }
}

}  // namespace neuronmm::compress
