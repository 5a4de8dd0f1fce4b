#pragma once
// Makes schemas and patterns that are short and describe large automata, or that take an engine of
// regular expressions long (ReDoS). Tests and hostile_suite.cc use them. The same seed always gives
// the same ones.

#include <cstdint>
#include <string>
#include <vector>

#include "serve/schema/schema_compiler.h"

namespace neuronmm::grammar {

struct HostileFormat {
  std::string kind;  // what is large about it
  bool is_pattern;   // else it is a schema
  std::string text;
};

// Returns the known patterns (known_patterns.h), and as many others, of all kinds in turn, as make
// `count`.
std::vector<HostileFormat> hostile_formats(int count, uint32_t seed);

// Compiles one within a budget. `source` is the name of its field, for messages.
Result<CompiledGrammar> compile(const HostileFormat& format, const std::string& source,
                                Budget& budget);

}  // namespace neuronmm::grammar
