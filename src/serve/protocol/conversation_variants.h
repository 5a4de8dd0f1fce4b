#pragma once
// Other forms of the same conversation, for chat templates that refuse some forms: templates that
// show one call per message, that demand ids of nine characters, that know no system message, or
// whose turns must alternate. accepted_prompt.cc tries them.
//
// The messages are those of a chat request (requests/chat_messages.h): each has a "role" and a
// "content" that is a text.

#include "serve/requests/json_body.h"

namespace neuronmm::serve {

// Returns the messages with arguments of calls as objects. A text that is not the JSON of an
// object, for example because an answer was cut off, becomes an object of its whole members.
Json with_object_arguments(Json messages);

// Returns the messages with at most one call in each. A message with several calls becomes several
// ones, and each is followed by the result of its call.
Json with_single_calls(const Json& messages);

// Returns the messages with ids of nine letters and digits for all calls and results. A result
// without an id belongs to the first call before it that has none.
Json with_short_ids(Json messages);

// Returns the messages with consecutive turns of one role merged. Empty answers are left out,
// except at the end. If the assistant speaks first, an empty turn of the user comes before.
Json with_merged_turns(const Json& messages);

// Returns the messages with the system's text at the beginning of the user's next turn.
Json with_system_as_user(const Json& messages);

}  // namespace neuronmm::serve
