#pragma once
// The kinds of bytes that the parsers of tool calls distinguish.

namespace neuronmm::serve {

inline bool is_call_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

inline bool is_call_digit(char c) { return c >= '0' && c <= '9'; }

inline bool is_call_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

inline bool is_hex_digit(char c) {
  return is_call_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

// Returns whether names of functions may have this byte.
inline bool is_name_byte(char c) {
  return is_call_letter(c) || is_call_digit(c) || c == '_' || c == '-' || c == '.';
}

}  // namespace neuronmm::serve
