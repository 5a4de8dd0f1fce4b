#pragma once
// Finds left recursion in a grammar: a rule that may call itself before it has read a byte. An
// automaton would follow such calls without end. The compiler of GBNF (gbnf.h) refuses it.

#include <vector>

#include "serve/grammar/grammar.h"

namespace neuronmm::grammar {

// Returns rules of which each may call the next one, and the last one the first, before it reads a
// byte. Rules that may read nothing can come before such a call. Returns an empty list if the
// grammar has no left recursion. The time is linear in the size of the grammar.
std::vector<RuleId> find_left_recursion(const Grammar& grammar);

}  // namespace neuronmm::grammar
