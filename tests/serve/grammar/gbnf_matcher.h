#pragma once
// A recognizer of grammars in GBNF for tests. It reads the grammar again for every text that it is
// asked about, tries every way, and shares no code with src/serve/grammar. Characters are bytes
// below 128, and the grammar must not have left recursion.

#include <string>
#include <string_view>

namespace neuronmm::grammar {

// Returns whether the grammar's rule `root` can read the whole text. The grammar must be correct.
bool gbnf_accepts(std::string_view grammar, std::string_view text);

}  // namespace neuronmm::grammar
