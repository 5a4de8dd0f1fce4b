#pragma once
// Jinja templates as chat templates use them: a template of a model folder gives the same text as
// with Python's jinja2 the way transformers sets it up (ImmutableSandboxedEnvironment with
// trim_blocks, lstrip_blocks, loop controls and {% generation %}), or an error where that has one.
//
// Not here, and an error: include, import, extends, block, autoescape, integers of more than 64
// bits, a few filters about HTML. See docs/chat_templates.md.

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

// What a template is given by one name.
struct Variable {
  std::string name;
  const nlohmann::ordered_json* value;
  // Where strings of the value (keys too) came from a message. A function of the path to the
  // string: see said_by_default.
  enum class Origin {
    kProgram,   // none did
    kUser,      // all did
    kMessages,  // all but the roles of messages that are plain names
  } origin = Origin::kProgram;
};

struct RenderOptions {
  Limits limits = {};
  std::time_t now = 0;  // what strftime_now shows, in local time
};

class Template {
 public:
  // `name` is what error messages call the source. An error names the line and column.
  static Result<Template> parse(std::string_view source, std::string name);
  Template(Template&&) noexcept;
  Template& operator=(Template&&) noexcept;
  ~Template();

  Result<Text> render(const std::vector<Variable>& variables, const RenderOptions& options) const;

 private:
  Template();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace neuronmm::text::jinja
