#pragma once
// Strings of at most so many characters. An automaton that counts them all has every state of the
// language once per length: too many for an email address of 255. Then it counts with less care,
// never too few, and so has fewer strings than there are.

#include <cstdint>

#include "serve/grammar/string_language.h"

namespace neuronmm::grammar {

// Whether an automaton that counts all characters up to `maximum` has at most kMaxStates.
bool can_count(const StringLanguage& language, int64_t maximum);
// Strings of the language that have at most `maximum` characters, by an automaton of about `states`
// within loops and as many between them; perhaps none though there are.
StringLanguage some_up_to(const StringLanguage& language, int64_t maximum, int64_t states);

}  // namespace neuronmm::grammar
