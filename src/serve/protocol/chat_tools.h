#pragma once
// The tools that a model may call, and whether it must.

#include <memory>
#include <string>
#include <vector>

#include "serve/protocol/field_reader.h"

namespace neuronmm::serve {

struct Tool {
  std::string name;      // of a tool in a namespace "SPACE.NAME"
  Json parameters = {};  // a JSON schema of an object
  bool strict = false;   // the client asks for arguments that obey the schema
  std::string space = {};
};

using ToolList = std::shared_ptr<const std::vector<Tool>>;  // never null

struct ToolChoice {
  enum class Kind {
    kNone,      // no call
    kAuto,      // as the model likes
    kRequired,  // at least one call
    kNamed,     // one call of `name`
  };
  Kind kind = Kind::kNone;
  std::string name = {};

  bool forced() const { return kind == Kind::kRequired || kind == Kind::kNamed; }
};

inline constexpr size_t kMostTools = 1024;

struct ToolFields {
  Json shown;               // what the template is given: the array of a chat; null: no tools
  std::vector<Tool> tools;  // the same, to call
  ToolChoice choice;        // kAuto where there are tools and nothing is said
  bool parallel = true;     // more than one call in an answer
  std::vector<std::string> left_out = {};  // "tools.TYPE" of those that OpenAI's servers would run
};

// Where the name of a function is: chats have {"type": "function", "function": {"name": ...}},
// responses {"type": "function", "name": ...}.
enum class ToolSpelling { kNested, kFlat };

// A function's name, description and strict, and under `schema_key` what its arguments are.
Tool read_function(FieldReader& function, const char* schema_key);
// The fields that read_tool_fields reads. The schemas of tools and tool_choice depend on the
// spelling.
std::vector<RequestField> tool_fields(ToolSpelling spelling);
// tools, tool_choice and parallel_tool_calls.
ToolFields read_tool_fields(FieldReader& fields, ToolSpelling spelling);

}  // namespace neuronmm::serve
