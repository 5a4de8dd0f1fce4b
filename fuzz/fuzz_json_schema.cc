// Reads any text as a JSON Schema. The result must be an error, or a grammar in which a greedy walk
// towards the end never gets stuck.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "serve/grammar/automaton.h"
#include "serve/grammar/unique_strings.h"
#include "serve/schema/schema_compiler.h"

namespace {

using namespace neuronmm::grammar;

// Closes what is open as soon as possible. Some next byte must always be allowed, even where
// strings must differ.
void check_no_dead_end(const Grammar& grammar) {
  Automaton automaton(grammar, ByteSet().set());
  UniqueStrings strings;
  StateId state = automaton.start();
  NMM_CHECK(state != Automaton::kDead);
  const auto step = [&](char byte) {
    const auto is_marked_unique = [&](size_t) { return automaton.is_marked_unique(state); };
    const bool repeats =
        grammar.has_unique_marks() && strings.would_repeat({&byte, 1}, is_marked_unique);
    return repeats ? Automaton::kDead : automaton.step(state, static_cast<uint8_t>(byte));
  };
  for (int i = 0; i < 300 && !automaton.is_complete(state); ++i) {
    StateId next = Automaton::kDead;
    char read = 0;
    const auto try_byte = [&](char byte) {
      if (next != Automaton::kDead) return;
      next = step(byte);
      read = byte;
    };
    for (const char preferred : {'"', ']', '}', '0', ','}) try_byte(preferred);
    for (int byte = 255; byte >= 0; --byte) try_byte(static_cast<char>(byte));
    NMM_CHECK(next != Automaton::kDead);
    state = next;
    strings.push({&read, 1});
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto schema = SchemaDocument::parse(text, "input");
  if (!schema.ok()) return 0;
  for (const bool closed : {false, true}) {
    const auto compiled = compile_schema(*schema, "input", {.closed_objects = closed});
    if (compiled.ok()) check_no_dead_end(compiled->grammar);
    if (!compiled.ok()) NMM_CHECK(!compiled.error().message.empty());
  }
  return 0;
}
