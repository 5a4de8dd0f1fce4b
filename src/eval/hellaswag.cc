#include "eval/hellaswag.h"

#include "eval/python_text.h"
#include "text/unicode/letter_case.h"

namespace neuronmm::eval {
namespace {

// Python's str.replace: it goes from left to right and does not look at the inserted text again.
std::string replace(std::string_view text, std::string_view what, std::string_view by) {
  std::string out;
  for (size_t at = text.find(what); at != std::string_view::npos; at = text.find(what)) {
    out.append(text.substr(0, at)).append(by);
    text.remove_prefix(at + what.size());
  }
  return out.append(text);
}

// re.sub(r"\[.*?\]", "", text): removes everything from a '[' to the next ']' on the same line.
std::string without_brackets(std::string_view text) {
  std::string out;
  while (true) {
    const size_t open = text.find('[');
    const size_t close = text.find_first_of("]\n", open);
    if (close == std::string_view::npos) return out.append(text);
    const bool matches = text[close] == ']';
    out.append(text.substr(0, matches ? open : close));
    text.remove_prefix(matches ? close + 1 : close);
  }
}

}  // namespace

// The order matters: "[title]" must be replaced before brackets are removed.
std::string clean_hellaswag(std::string_view text) {
  const std::string titled = replace(strip(text), " [title]", ". ");
  return replace(without_brackets(titled), "  ", " ");
}

std::string hellaswag_context(std::string_view activity, std::string_view ctx_a,
                              std::string_view ctx_b) {
  std::string text(activity);
  return clean_hellaswag(
      text.append(": ").append(ctx_a).append(" ").append(text::capitalize(ctx_b)));
}

}  // namespace neuronmm::eval
