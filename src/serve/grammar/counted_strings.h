#pragma once
// Limits the length of a language's strings by counting their characters. An exact count needs
// every state of the language once per length. For email addresses of 255 characters these are too
// many states. The count is then rounded up in places: no string is too long, but some that would
// be allowed are left out. string_language_or_subset() in schema_shapes.h uses both functions.

#include <cstdint>

#include "serve/grammar/string_language.h"

namespace neuronmm::grammar {

// Returns whether an automaton that counts exactly up to `maximum` has at most kMaxStates states.
// Returns false, too, if the budget is exceeded.
bool can_count(const StringLanguage& language, int64_t maximum, Budget& budget);
// Returns a part of the strings of at most `maximum` characters. Its automaton has about `states`
// states for the language's states in loops, and as many for all others. The result may be empty
// even if there are such strings. Returns an error if the budget is exceeded.
Result<StringLanguage> subset_up_to(const StringLanguage& language, int64_t maximum, int64_t states,
                                    Budget& budget);

}  // namespace neuronmm::grammar
