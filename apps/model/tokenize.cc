// The command neuronmm tokenize: converts text to token ids and back.

#include <charconv>
#include <ctime>

#include <fmt/core.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "help.h"
#include "io/text_file.h"
#include "report_writer.h"
#include "text/chat_template.h"
#include "text/tokenizer/tokenizer.h"

namespace neuronmm::apps {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::string model_dir, json;
  std::string text = "-";
  bool no_bos = false;
  bool decode = false;
  std::string messages, tools;
  bool show_text = false, no_generation_prompt = false;
};

bool is_separator(char c) { return c == ',' || c == ' ' || (c >= '\t' && c <= '\r'); }

// Parses ids that are separated by spaces, newlines or commas. Error: an id that is not below
// `vocab_size`.
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

Result<text::Conversation> read_conversation(const Options& options) {
  NMM_ASSIGN(const std::string messages, io::read_user_text(options.messages));
  NMM_ASSIGN(auto conversation, text::parse_conversation(messages, options.messages));
  if (!options.tools.empty()) {
    NMM_ASSIGN(const std::string tools, io::read_user_text(options.tools));
    NMM_ASSIGN(conversation.tools, text::parse_tools(tools, options.tools));
  }
  if (options.no_generation_prompt) conversation.add_generation_prompt = false;
  return conversation;
}

// Prints a conversation as its chat template writes it, as text or as ids. The text is printed
// without loading the tokenizer, which may be of a kind that the program does not support.
Result<int> run_conversation(const Options& options, ReportWriter& report) {
  NMM_ASSIGN(const auto conversation, read_conversation(options));
  NMM_ASSIGN(const auto config, text::load_tokenizer_config(options.model_dir));
  NMM_ASSIGN(const auto prompt,
             text::apply_chat_template(config, conversation, std::time(nullptr)));
  if (options.show_text) {
    report.print("{}", prompt.text);
    NMM_TRY(report.write_json(Json{{"text", prompt.text}}));
    return 0;
  }
  NMM_ASSIGN(const text::Tokenizer tokenizer, text::Tokenizer::load(options.model_dir));
  NMM_ASSIGN(const auto ids, tokenizer.encode(prompt.text, {.add_special_tokens = false,
                                                            .literal = prompt.from_messages}));
  report.print("{}\n", fmt::join(ids, " "));
  NMM_TRY(report.write_json(Json{{"ids", ids}, {"text", prompt.text}}));
  return 0;
}

Result<int> run_tokenize(const Options& options) {
  NMM_ASSIGN(ReportWriter report, ReportWriter::open(options.json));
  if (!options.messages.empty()) return run_conversation(options, report);
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
      program.add(CommandGroup::kModels, "tokenize", "Turn text into token ids, or ids into text",
                  {"neuronmm tokenize MODEL_DIR \"The cat sat.\"",
                   "neuronmm tokenize MODEL_DIR --decode \"450 6635 3290\""});
  const auto options = std::make_shared<Options>();
  command->add_option("MODEL_DIR", options->model_dir, kModelHelp)->required()->group(kInput);
  auto* text = command->add_option("TEXT", options->text, "Text or ids; - reads standard input")
                   ->capture_default_str()
                   ->group(kInput);
  auto* decode = command->add_flag("--decode", options->decode, "Read ids and print their text")
                     ->group(kInput);
  auto* no_bos =
      command->add_flag("--no-bos", options->no_bos, "Add no begin-of-text token")->group(kInput);
  auto* messages = command
                       ->add_option("--messages", options->messages,
                                    "Tokenize the conversation in this JSON file")
                       ->type_name("FILE")
                       ->excludes(text)
                       ->excludes(no_bos)
                       ->excludes(decode)
                       ->group(kInput);
  command
      ->add_option("--tools", options->tools, "Take the conversation's tools from this JSON file")
      ->type_name("FILE")
      ->needs(messages)
      ->group(kAdvanced);
  command
      ->add_flag("--no-generation-prompt", options->no_generation_prompt,
                 "Leave out the beginning of an answer at the end")
      ->needs(messages)
      ->group(kAdvanced);
  command->add_flag("--text", options->show_text, "Print the conversation's text instead of ids")
      ->needs(messages)
      ->group(kOutput);
  add_json_option(command, options->json, "ids and text");
  program.set_run(command, [options] { return run_tokenize(*options); });
}

}  // namespace neuronmm::apps
