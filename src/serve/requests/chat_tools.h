#pragma once
// Reads the tools that a model may call, and whether it must call one: the fields tools,
// tool_choice and parallel_tool_calls of OpenAI's APIs. The readers of requests use this file.
// Errors are recorded in the RequestProblem of the request.

#include <memory>
#include <string>
#include <vector>

#include "serve/requests/field_reader.h"

namespace neuronmm::serve {

// A function that the client offers to the model.
struct Tool {
  std::string name;             // "SPACE.NAME" for a tool in a namespace
  Json parameters = {};         // the JSON schema of the arguments, an object
  bool strict = false;          // the client demands arguments that obey the schema
  std::string name_space = {};  // the namespace; empty if there is none
  bool custom = false;          // the client expects a text and not JSON (custom_tools.h)
};

using ToolList = std::shared_ptr<const std::vector<Tool>>;  // never null

// The client's decision whether and what the model calls.
struct ToolChoice {
  enum class Kind {
    kNone,      // the model must not call a tool
    kAuto,      // the model decides
    kRequired,  // the model must call at least one tool
    kNamed,     // the model must call the tool `name`
  };
  Kind kind = Kind::kNone;
  std::string name = {};

  bool forced() const { return kind == Kind::kRequired || kind == Kind::kNamed; }
};

// Limit for the number of tools in one request. Assumed.
inline constexpr size_t kMostTools = 1024;

// The fields of a request that concern tools.
struct ToolFields {
  // The tools as the chat template gets them: the array "tools" of a chat, or null if there are
  // none.
  Json template_tools;
  std::vector<Tool> tools;  // the same tools, for those who parse or constrain calls
  ToolChoice choice;        // kAuto by default if there are tools
  bool parallel = true;     // whether an answer may have several calls
  // "tools.TYPE" for each tool that only OpenAI's servers can run and that is ignored here.
  std::vector<std::string> ignored = {};
};

// The two forms in which the APIs write a function. Chats (kNested) have {"type": "function",
// "function": {"name": ...}}, responses (kFlat) have {"type": "function", "name": ...}.
enum class ToolSpelling { kNested, kFlat };

// Reads the name of a function or tool.
std::string read_tool_name(FieldReader& tool);
// Reads a function's name, description and "strict", and the schema of its arguments from the field
// `schema_key`.
Tool read_function(FieldReader& function, const char* schema_key);
// Returns the fields that read_tool_fields reads. The schemas of tools and tool_choice depend on
// the spelling.
std::vector<RequestField> tool_fields(ToolSpelling spelling);
// Reads the fields tools, tool_choice and parallel_tool_calls of a request's body.
ToolFields read_tool_fields(FieldReader& fields, ToolSpelling spelling);

}  // namespace neuronmm::serve
