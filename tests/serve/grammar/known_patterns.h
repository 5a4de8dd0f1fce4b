#pragma once
// Regular expressions that take backtracking engines very long (ReDoS), or that describe large
// automata. They follow the cases that textbooks, vulnerability reports and accounts of outages
// tell of.

#include <string>
#include <vector>

namespace neuronmm::grammar {

const std::vector<std::string>& known_hostile_patterns();

}  // namespace neuronmm::grammar
