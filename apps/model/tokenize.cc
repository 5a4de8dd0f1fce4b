// neuronmm tokenize: text to token ids and back.

#include <charconv>

#include <fmt/core.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "io/text_file.h"
#include "report_writer.h"
#include "text/tokenizer.h"

namespace neuronmm::apps {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::string model_dir, json;
  std::string text = "-";
  bool no_bos = false;
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
  NMM_ASSIGN(ReportWriter report, ReportWriter::open(options.json));
  NMM_ASSIGN(const text::Tokenizer tokenizer, text::Tokenizer::load(options.model_dir));
  std::string input = options.text;
  if (input == "-") {
    NMM_ASSIGN(input, io::read_user_text("-"));
  }
  if (options.decode) {
    NMM_ASSIGN(const auto ids, parse_ids(input, tokenizer.vocab_size()));
    const std::string text = tokenizer.decode(ids);
    report.print("{}\n", text);
    NMM_TRY(report.write_json(Json{{"ids", ids}, {"text", text}}));
    return 0;
  }
  NMM_ASSIGN(const auto ids, tokenizer.encode(input, {.add_special_tokens = !options.no_bos}));
  report.print("{}\n", fmt::join(ids, " "));
  NMM_TRY(report.write_json(Json{{"ids", ids}, {"text", input}}));
  return 0;
}

}  // namespace

void add_tokenize(Program& program) {
  CLI::App* command =
      program.add(CommandGroup::kModels, "tokenize", "Text to token ids, or ids to text");
  const auto options = std::make_shared<Options>();
  command->add_option("MODEL_DIR", options->model_dir, "folder with a tokenizer.json")->required();
  command->add_option("TEXT", options->text, "the text itself (or ids); -: standard input")
      ->capture_default_str();
  command->add_flag("--no-bos", options->no_bos, "add no begin-of-text token");
  command->add_flag("--decode", options->decode,
                    "read ids (spaces or commas between them) and print their text");
  add_json_option(command, options->json, "ids and text");
  program.set_run(command, [options] { return run_tokenize(*options); });
}

}  // namespace neuronmm::apps
