// Tests that a loop frees the values that it has seen, however it ends.

#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "text/jinja/analysis.h"
#include "text/jinja/evaluator.h"
#include "text/jinja/parser.h"

namespace neuronmm::text::jinja {
namespace {

class Witness final : public Object {
 public:
  std::string_view type_name() const override { return "witness"; }
};

// Renders the template with a variable `witness`. `rendered` tells whether it had no error. Returns
// whether the witness is freed with the objects of the rendering.
bool frees_witness(const std::string& source, bool& rendered) {
  std::weak_ptr<Object> seen;
  {
    auto statements = parse_template(source);
    EXPECT_TRUE(statements.ok()) << source;
    const auto scope = analyze(*statements);
    EXPECT_TRUE(scope.ok()) << source;
    Variables variables;
    const ObjectPtr witness = std::make_shared<Witness>();
    seen = witness;
    variables.emplace("witness", Value(witness));
    Runtime runtime(Limits{}, 0);
    const std::string name = "template";
    Evaluator evaluator(runtime, variables, name);
    rendered = evaluator.render(*statements, *scope).ok();
  }
  return seen.expired();
}

// loop.changed() keeps its arguments, among them the loop itself.
TEST(Loop, FreesWhatChangedKeepsIfItEnds) {
  for (const char* body : {"", "{% break %}", "{% continue %}"}) {
    bool rendered = false;
    EXPECT_TRUE(
        frees_witness(std::string("{% for i in [1, 2] %}{{ loop.changed(loop, witness) }}") + body +
                          "{% endfor %}",
                      rendered))
        << body;
    EXPECT_TRUE(rendered) << body;
  }
}

TEST(Loop, FreesWhatChangedKeepsAfterAnError) {
  for (const char* source :
       {// in the body
        "{% for i in [1, 0] %}{{ loop.changed(loop, witness) }}{{ 1 // i }}{% endfor %}",
        // in an inner loop
        "{% for i in [1] %}{{ loop.changed(loop, witness) }}"
        "{% for j in [0] %}{{ loop.changed(loop, witness) }}{{ 1 // j }}{% endfor %}{% endfor %}",
        // where an item is assigned
        "{% for a, b in [[1, 2], [3]] %}{{ loop.changed(loop, witness) }}{% endfor %}",
        // where the next item is computed
        "{% for i in [1, 0] if 1 // i %}{{ loop.changed(loop, witness) }}{% endfor %}"}) {
    bool rendered = true;
    EXPECT_TRUE(frees_witness(source, rendered)) << source;
    EXPECT_FALSE(rendered) << source;
  }
}

}  // namespace
}  // namespace neuronmm::text::jinja
