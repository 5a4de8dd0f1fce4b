// The command neuronmm generate: continues a prompt and writes the text while it is made.

#include "model/generate.h"

#include <fmt/format.h>
#include <unistd.h>

#include "base/interrupt.h"
#include "commands.h"
#include "flags.h"
#include "help.h"
#include "io/text_file.h"
#include "message.h"
#include "model/answer_flags.h"
#include "model/draft_option.h"
#include "model/streamed_answer.h"
#include "text/chat_template.h"

namespace neuronmm::apps {
namespace {

struct GenerateFlags {
  AnswerFlags answer;
  std::string prompt, prompt_file, system, draft;
  std::optional<int64_t> logprobs;
  bool chat = false, parse_special = true, prompt_from_pipe = false;
};

CLI::RequiredError missing_prompt() {
  return {
      "a prompt is required: give TEXT, --prompt-file FILE, or a pipe as in `echo hi | neuronmm "
      "generate MODEL_DIR`",
      CLI::ExitCodes::RequiredError};
}

void add_prompt_flags(CLI::App* command, GenerateFlags& flags) {
  // --prompt has a second use beside the position: a prompt may begin with a dash.
  auto* prompt = command
                     ->add_option("PROMPT,--prompt", flags.prompt,
                                  "Text to continue; - or a pipe gives it on stdin")
                     ->group(kInput);
  command->add_option("--prompt-file", flags.prompt_file, "Read the text to continue, as it is")
      ->type_name("FILE")
      ->excludes(prompt)
      ->group(kInput);
  auto* chat = command->add_flag("--chat", flags.chat, "Take the text as a message to a chat model")
                   ->group(kInput);
  command->add_option("--system", flags.system, "Begin the chat with this system message")
      ->needs(chat)
      ->group(kInput);
  command
      ->add_flag("--parse-special,!--no-parse-special", flags.parse_special,
                 "Read special tokens in the prompt as plain text")
      ->excludes(chat)
      ->group(kRare);
  command->parse_complete_callback([prompt, &flags] {
    if (prompt->count() == 0 && flags.prompt_file.empty()) flags.prompt_from_pipe = true;
    if (flags.prompt_from_pipe && isatty(STDIN_FILENO) == 1) throw missing_prompt();
  });
}

Result<std::string> prompt_of_stdin() {
  NMM_ASSIGN(std::string text, io::read_user_text("-"));
  if (text.empty())
    return fail("standard input is empty: give a prompt as TEXT, with --prompt-file or in a pipe");
  return text;
}

Result<std::string> prompt_of_file(const std::string& path) {
  auto text = io::read_user_text(path);
  if (!text.ok()) return Error{"--prompt-file: " + text.error().message, text.error().kind};
  if (text->empty()) return fail("--prompt-file: {} is empty: nothing to continue", path);
  return text;
}

// Returns the prompt exactly as it was given. Newlines at its end belong to it.
Result<std::string> prompt_text(const GenerateFlags& flags) {
  const std::string& file = flags.prompt_file;
  if (flags.prompt_from_pipe || flags.prompt == "-" || file == "-") return prompt_of_stdin();
  if (!file.empty()) return prompt_of_file(file);
  if (flags.prompt.empty())
    return fail("the prompt is empty: give a text as PROMPT, with --prompt-file or in a pipe");
  return flags.prompt;
}

// Returns the token ids of the prompt. In a chat the template contains the special tokens;
// otherwise the tokenizer adds them.
Result<std::vector<text::TokenId>> prompt_tokens(const GenerateFlags& flags,
                                                 const text::Tokenizer& tokenizer) {
  NMM_ASSIGN(const std::string prompt, prompt_text(flags));
  if (!flags.chat) return tokenizer.encode(prompt, {.parse_added_tokens = flags.parse_special});
  text::Conversation conversation;
  if (!flags.system.empty()) conversation.add_message("system", flags.system);
  conversation.add_message("user", prompt);
  NMM_ASSIGN(const auto chat, text::apply_chat_template(tokenizer, conversation));
  return tokenizer.encode(chat.text, {.add_special_tokens = false, .literal = chat.from_messages});
}

// Prints a line per token with its text, its log-probability and the most likely tokens.
void print_logprobs(const text::Tokenizer& tokenizer, const model::Generation& generation) {
  const auto shown = [&](const model::TokenLogprob& token) {
    return fmt::format("{:?} ({}) {:.4f}", tokenizer.decode_inside(token.id), token.id,
                       token.logprob);
  };
  for (const model::TokenLogprobs& token : generation.logprobs) {
    std::string line = shown(token.chosen);
    for (size_t i = 0; i < token.top.size(); ++i)
      line += (i == 0 ? " of " : ", ") + shown(token.top[i]);
    print_message("logprob {}\n", line);
  }
}

Result<int> run_generate(GenerateFlags& flags) {
  AnswerFlags& answer = flags.answer;
  NMM_ASSIGN(const auto tokenizer, text::Tokenizer::load(answer.model_dir));
  NMM_ASSIGN(const auto prompt, prompt_tokens(flags, tokenizer));
  NMM_ASSIGN(const auto backend, make_backend(answer.device));
  NMM_ASSIGN(const auto transformer, model::Transformer::load(answer.model_dir, *backend));
  NMM_ASSIGN(const auto draft, load_draft(flags.draft, transformer, &tokenizer));
  NMM_TRY(check_draft_context(draft, transformer, "the prompt has", std::ssize(prompt)));
  const auto speculation = make_speculation(draft, transformer);
  NMM_ASSIGN(auto options, answer_options(answer, tokenizer, transformer.config(), flags.chat));
  options.logprobs = flags.logprobs;
  NMM_ASSIGN(const auto streamed, stream_answer(transformer, tokenizer, prompt, options,
                                                {.stop = answer.stop,
                                                 .continues_prompt = !flags.chat,
                                                 .speculation = speculation.get()}));
  if (speculation && speculation->failure())
    print_draft_failure(flags.draft, *speculation->failure());
  print_cut(streamed.generation, transformer.config().max_position_embeddings,
            {.context_full = "a shorter prompt leaves more room",
             .limit = "--max-new-tokens N sets another one"});
  print_logprobs(tokenizer, streamed.generation);
  print_timings(prompt.size(), streamed.generation, answer.device);
  if (streamed.generation.stop == model::Generation::Stop::kInterrupted)
    return interrupted_error("the text so far is complete");
  return 0;
}

}  // namespace

void add_generate(Program& program) {
  CLI::App* command =
      program.add(CommandGroup::kModels, "generate", "Continue a prompt, or answer a chat message",
                  {"neuronmm generate MODEL_DIR \"Once upon a time\" --max-new-tokens 50",
                   "neuronmm generate MODEL_DIR --chat --prompt-file question.txt"});
  auto flags = std::make_shared<GenerateFlags>();
  command->add_option("MODEL_DIR", flags->answer.model_dir, kModelHelp)->required()->group(kInput);
  add_adapter_option(command);
  add_prompt_flags(command, *flags);
  add_answer_flags(command, flags->answer);
  add_draft_option(command, flags->draft);
  command
      ->add_option("--logprobs", flags->logprobs,
                   "Print log-probabilities of each token and the N likeliest")
      ->check(CLI::Range(0, 1000))
      ->group(kOutput);
  program.set_run(
      command, [flags] { return run_generate(*flags); }, ProcessMode::kTensorParallel);
}

}  // namespace neuronmm::apps
