#pragma once
// The tags of calls that write each argument as text between tags. The parser
// (tagged_call_parser.cc) and the choice of the syntax (template_traits.h) use them.

#include <memory>
#include <optional>
#include <string>

#include "serve/output/template_traits.h"
#include "serve/requests/chat_tools.h"

namespace neuronmm::serve {

class ToolCallParser;

// The tags of one syntax, in their order:
//
//   begin (name_begin NAME name_end (key_begin KEY key_end value_begin VALUE value_end)* call_end)*
//   end
//
// White space may stand between them. NAME and KEY end at a quotation mark; attributes may follow.
struct CallTags {
  std::string begin = {};       // empty if calls stand alone
  std::string name_begin = {};  // empty if the name follows `begin`
  // Empty if the name ends with its line, or before the next tag.
  std::string name_end = ">";
  std::string key_begin, key_end = ">";
  std::string value_begin = {};  // empty if the value follows the key
  std::string value_end, call_end, end = {};
  bool values_have_lines = false;  // a line end stands before the value, and one after it
  bool has_cdata = false;          // a value may stand in <![CDATA[...]]>
};

// Returns the tags of a syntax, or nothing if it has none.
std::optional<CallTags> call_tags(ToolSyntax syntax);
std::unique_ptr<ToolCallParser> make_tagged_call_parser(CallTags tags, ToolList tools);

}  // namespace neuronmm::serve
