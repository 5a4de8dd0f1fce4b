#pragma once
// What is wrong with the lines of a request that is not whole yet. The parser waits for the end of
// a head, of a chunk's line and of trailers, which never comes where lines end otherwise than HTTP
// says: this tells at once, and nobody waits for a deadline.

#include <string_view>

namespace neuronmm::serve {

// Each returns the reason for people, or nothing if the lines may go on well. Lines end with CR LF
// alone (RFC 9112, 2.2); a line that goes on with the next (5.2, obsolete) is refused, since other
// servers read it differently.
//
// A head as far as it has come, from the request line on, or without it; what lies behind an empty
// line is not looked at.
std::string_view fault_in_partial_head(std::string_view text, bool with_request_line);
// The line of a chunk's size, or the trailers, as far as they have come.
std::string_view fault_in_partial_lines(std::string_view text);

// What a header Host may say: a name or an address, perhaps a port; or nothing (RFC 9112, 3.2).
bool is_host(std::string_view value);

}  // namespace neuronmm::serve
