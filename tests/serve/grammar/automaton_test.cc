// Tests of the pushdown automaton on small grammars: its stack, its depth limit, and the number of
// its states.

#include "serve/grammar/automaton.h"

#include <gtest/gtest.h>

#include "accepts.h"

namespace neuronmm::grammar {
namespace {

// Returns the grammar of a^n b^n, which no finite automaton can read.
Grammar balanced() {
  Grammar grammar;
  const RuleId rule = grammar.add_rule();
  grammar.set_root(rule);
  const auto [start, end] = grammar.rule(rule);
  const PositionId inside = grammar.add_position(), after = grammar.add_position();
  grammar.add_text(start, "ab", end);
  grammar.add_text(start, "a", inside);
  grammar.add_call(inside, rule, after);
  grammar.add_text(after, "b", end);
  return grammar;
}

TEST(Automaton, CountsWithItsStack) {
  const Grammar grammar = balanced();
  Automaton automaton(grammar, ByteSet().set());
  for (int n = 1; n <= 200; ++n) {
    const std::string a(static_cast<size_t>(n), 'a'), b(static_cast<size_t>(n), 'b');
    EXPECT_TRUE(accepts(automaton, a + b)) << n;
    EXPECT_FALSE(accepts(automaton, a + "b" + b)) << n;
    EXPECT_FALSE(accepts(automaton, "a" + a + b)) << n;
  }
}

TEST(Automaton, AllowsNoCallBeyondItsLargestDepth) {
  const Grammar grammar = balanced();
  Automaton automaton(grammar, ByteSet().set());
  StateId state = automaton.start();
  int depth = 0;
  for (StateId next; (next = automaton.step(state, 'a')) != Automaton::kDead; ++depth) state = next;
  EXPECT_EQ(depth, Automaton::kMaxDepth + 1);
  for (; depth > 0; --depth) state = automaton.step(state, 'b');
  EXPECT_TRUE(automaton.is_final(state));
}

// Two calls of the same rule start at the same position, so there are 2^n stacks after n letters.
TEST(Automaton, ManyStacksTakeFewStates) {
  Grammar grammar;
  const RuleId rule = grammar.add_rule();
  grammar.set_root(rule);
  const auto [start, end] = grammar.rule(rule);
  grammar.add_text(start, ".", end);
  for (const char* close : {"xy", "xz"}) {
    const PositionId inside = grammar.add_position(), after = grammar.add_position();
    grammar.add_text(start, "(", inside);
    grammar.add_call(inside, rule, after);
    grammar.add_text(after, close, end);
  }
  Automaton automaton(grammar, ByteSet().set());
  std::string text(200, '(');
  text += '.';
  for (int i = 0; i < 200; ++i) text += i % 3 == 0 ? "xy" : "xz";
  EXPECT_TRUE(accepts(automaton, text));
  EXPECT_FALSE(accepts(automaton, text + "x"));
  EXPECT_LT(automaton.states(), 2000);
}

TEST(Automaton, IsEmptyIfItsBytesSpellNoText) {
  const Grammar grammar = balanced();
  EXPECT_TRUE(Automaton(grammar, ByteSet().set('a')).empty());
  EXPECT_FALSE(Automaton(grammar, ByteSet().set('a').set('b')).empty());
}

}  // namespace
}  // namespace neuronmm::grammar
