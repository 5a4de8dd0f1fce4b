#pragma once
// Finds faults in the lines of a request that has not fully arrived. Boost's parser waits for the
// end of a head, of a chunk's line or of the trailers. That end never comes if the client ends its
// lines otherwise than HTTP demands. These functions find the fault at once, so that the client
// need not wait until its request times out. connection.h calls them.

#include <string_view>

namespace neuronmm::serve {

// The two functions below return the fault as text for people, or an empty text if the lines are
// good so far. Lines must end with CR LF (RFC 9112, 2.2). A line that continues on the next one
// (obsolete folding, 5.2) is refused, because other servers read it differently.
//
// Checks a head as far as it has arrived. `with_request_line` says whether `text` begins with the
// request line, whose version is then checked too. Text after an empty line is ignored.
std::string_view find_fault_in_partial_head(std::string_view text, bool with_request_line);
// Checks the line with a chunk's size, or the trailers, as far as they have arrived.
std::string_view find_fault_in_partial_lines(std::string_view text);

// Returns how many bytes of a faultless text need not be checked again when more bytes follow. A
// client that sends its head byte by byte would otherwise have it checked as often.
size_t count_checked(std::string_view text);

// Returns whether `value` is valid for the header Host: a name or an address, perhaps with a port,
// or empty (RFC 9112, 3.2).
bool is_host(std::string_view value);

}  // namespace neuronmm::serve
