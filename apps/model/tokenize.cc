// neuronmm tokenize: text to token ids and back.

#include <charconv>

#include <fmt/core.h>
#include <fmt/format.h>

#include "commands.h"
#include "text/tokenizer.h"

namespace neuronmm::apps {
namespace {

struct Options {
  std::string model_dir;
  std::string text = "-";
  bool no_bos = false;
  bool ids = false;  // what it does anyway; --ids says so
  bool decode = false;
};

bool is_separator(char c) { return c == ',' || c == ' ' || (c >= '\t' && c <= '\r'); }

// Ids with spaces, newlines or commas between them, each below `vocab_size`.
Result<std::vector<text::TokenId>> parse_ids(std::string_view list, int64_t vocab_size) {
  std::vector<text::TokenId> ids;
  while (true) {
    while (!list.empty() && is_separator(list.front())) list.remove_prefix(1);
    if (list.empty()) return ids;
    size_t length = 0;
    while (length < list.size() && !is_separator(list[length])) ++length;
    const std::string_view word = list.substr(0, length);
    list.remove_prefix(length);
    int64_t id = -1;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (error != std::errc() || end != word.data() + word.size() || id < 0 || id >= vocab_size)
      return fail("--decode: expected token ids from 0 to {}, found {:?}", vocab_size - 1, word);
    ids.push_back(static_cast<text::TokenId>(id));
  }
}

Result<int> run_tokenize(const Options& options) {
  NMM_ASSIGN(const text::Tokenizer tokenizer, text::Tokenizer::load(options.model_dir));
  std::string input = options.text;
  if (input == "-") {
    NMM_ASSIGN(input, read_text_argument("-"));
  }
  if (options.decode) {
    NMM_ASSIGN(const auto ids, parse_ids(input, tokenizer.vocab_size()));
    fmt::print("{}\n", tokenizer.decode(ids));
    return 0;
  }
  NMM_ASSIGN(const auto ids, tokenizer.encode(input, {.add_special_tokens = !options.no_bos}));
  fmt::print("{}\n", fmt::join(ids, " "));
  return 0;
}

}  // namespace

void add_tokenize(Program& program) {
  CLI::App* command = program.add("tokenize", "text to token ids, or ids to text");
  const auto options = std::make_shared<Options>();
  command->add_option("model_dir", options->model_dir, "folder with a tokenizer.json")->required();
  command->add_option("text", options->text, "the text itself (or ids); -: standard input")
      ->capture_default_str();
  command->add_flag("--no-bos", options->no_bos, "add no begin-of-text token");
  CLI::Option* ids =
      command->add_flag("--ids", options->ids, "print ids, one line for the text (the default)");
  command
      ->add_flag("--decode", options->decode,
                 "read ids (spaces or commas between them) and print their text")
      ->excludes(ids);
  program.set_run(command, [options] { return run_tokenize(*options); });
}

}  // namespace neuronmm::apps
