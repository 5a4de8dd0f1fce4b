#pragma once
// Packs the documents of a calibration text into token sequences and chooses the sequences to use.
// The caller is calibration_sequences() (calibration_text.h).

#include <cstdint>
#include <vector>

#include "text/tokenizer/tokenizer.h"

namespace neuronmm::compress {

// Packs documents into sequences of at most `longest` tokens. Whole documents follow each other in
// a sequence as long as they fit. A document that is longer than `longest` is cut into equal
// pieces, and each piece is a sequence of its own. So no sequence joins a cut document with another
// one.
std::vector<std::vector<text::TokenId>> packed_documents(
    const std::vector<std::vector<text::TokenId>>& documents, int64_t longest);

// Moves sequences with `share` tokens in all from `all` to the end of `taken`, spread evenly over
// `all`, and the other sequences to the end of `spare`. The last sequence taken may be cut to reach
// `share` exactly, and the part cut off joins `spare`. No sequence is cut to a single token. If
// `all` has fewer tokens than `share`, the function takes all of them.
void take_evenly(std::vector<std::vector<text::TokenId>> all, int64_t share,
                 std::vector<std::vector<text::TokenId>>& taken,
                 std::vector<std::vector<text::TokenId>>& spare);

}  // namespace neuronmm::compress
