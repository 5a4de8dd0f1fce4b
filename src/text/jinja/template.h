#pragma once
// Jinja templates as chat templates use them. A template gives the same text as Python's jinja2
// with the settings of transformers, or fails where jinja2 fails. The settings are
// ImmutableSandboxedEnvironment with trim_blocks, lstrip_blocks, loop controls and {% generation
// %}. apply_chat_template() (text/chat_template.h) is the caller.
//
// Some parts of Jinja are missing, and templates that use them fail: include, import, extends,
// block, autoescape, integers of more than 64 bits, and a few filters about HTML. See
// docs/reference/chat_templates.md.

#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "text/jinja/budget.h"
#include "text/jinja/text.h"

namespace neuronmm::text::jinja {

// A variable that a template is given.
struct Variable {
  std::string name;
  const nlohmann::ordered_json* value;  // Not null; must stay alive until render() returns.
  // Says which strings and keys of the value come from a message. Such text never becomes special
  // tokens.
  enum class Origin {
    // No string comes from a message.
    kProgram,
    // All strings do.
    kUser,
    // All strings do, except the roles of messages that are plain names.
    kMessages,
  } origin = Origin::kProgram;
};

struct RenderOptions {
  Limits limits = {};  // A rendering that exceeds a limit fails.
  // The time that strftime_now shows, in local time.
  std::time_t now = 0;
};

// A parsed template, which can be rendered many times.
class Template {
 public:
  // Parses a template, which need not outlive the call. Fails for wrong syntax, for the missing
  // tags above, for unknown filters and tests, and for templates nested deeper than 200 levels.
  // Errors of this function and of render() begin with "NAME:LINE:COLUMN: ".
  static Result<Template> parse(std::string_view source, std::string name);
  Template(Template&&) noexcept;
  Template& operator=(Template&&) noexcept;
  ~Template();

  // Returns the text of the template, with the ranges that come from messages. Fails where jinja2
  // raises an exception, beyond options.limits, and if the template calls raise_exception(). A
  // variable whose JSON cannot become a value is also an error, which begins with its name.
  Result<Text> render(const std::vector<Variable>& variables, const RenderOptions& options) const;

 private:
  Template();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace neuronmm::text::jinja
