#pragma once
// Tells whether an answer may be written byte by byte. The automaton must accept it, and strings
// that must be unique in their array must not repeat. Tests and schema_suite.cc use it.

#include <string_view>

#include "serve/grammar/automaton.h"
#include "serve/grammar/unique_strings.h"

namespace neuronmm::grammar {

inline bool accepts(Automaton& automaton, std::string_view text) {
  if (automaton.empty()) return false;
  const StateId end = automaton.step(automaton.start(), text);
  if (end == Automaton::kDead || !automaton.is_complete(end)) return false;
  UniqueStrings strings;
  StateId state = automaton.start();
  for (size_t i = 0; i < text.size(); ++i) {
    const std::string_view byte = text.substr(i, 1);
    if (strings.would_repeat(byte, [&](size_t) { return automaton.is_marked_unique(state); }))
      return false;
    strings.push(byte);
    state = automaton.step(state, byte);
  }
  return true;
}

}  // namespace neuronmm::grammar
