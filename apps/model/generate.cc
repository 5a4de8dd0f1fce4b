// The command neuronmm generate: continues a prompt and writes the text while it is made.

#include "model/generate.h"

#include <fmt/format.h>

#include "base/interrupt.h"
#include "commands.h"
#include "io/text_file.h"
#include "message.h"
#include "model/answer_flags.h"
#include "model/streamed_answer.h"
#include "text/chat_template.h"

namespace neuronmm::apps {
namespace {

struct GenerateFlags {
  AnswerFlags answer;
  std::string prompt, prompt_file, system;
  std::optional<int64_t> logprobs;
  bool chat = false, parse_special = true;
};

void add_prompt_flags(CLI::App* command, GenerateFlags& flags) {
  auto* prompt = command->add_option("PROMPT,--prompt", flags.prompt,
                                     "text to continue; - reads standard input");
  command->add_option("--prompt-file", flags.prompt_file, "file with the text to continue")
      ->excludes(prompt);
  auto* chat = command->add_flag("--chat", flags.chat,
                                 "treat the prompt as a user's message to a chat model");
  command
      ->add_flag(
          "--parse-special,!--no-parse-special", flags.parse_special,
          "read special tokens in the prompt, such as <|eot_id|>, as tokens (the default) or "
          "as plain text; in a chat they are always plain text")
      ->excludes(chat);
  command->add_option("--system", flags.system, "system message of the chat")->needs(chat);
  command->parse_complete_callback([prompt, &flags] {
    if (prompt->count() == 0 && flags.prompt_file.empty())
      throw CLI::RequiredError("PROMPT (or --prompt or --prompt-file)");
  });
}

Result<std::string> prompt_text(const GenerateFlags& flags) {
  const bool in_file = !flags.prompt_file.empty();
  std::string text = flags.prompt;
  if (in_file || text == "-") {
    NMM_ASSIGN(text, io::read_user_text(in_file ? flags.prompt_file : "-"));
    if (text.ends_with('\n')) text.pop_back();  // the newline that `echo` and editors add
  }
  if (text.empty())
    return fail("{} is empty: nothing to continue", in_file ? flags.prompt_file : "--prompt");
  return text;
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
  NMM_ASSIGN(auto options, answer_options(answer, tokenizer, transformer.config(), flags.chat));
  options.logprobs = flags.logprobs;
  NMM_ASSIGN(const auto streamed,
             stream_answer(transformer, tokenizer, prompt, options,
                           {.stop = answer.stop, .continues_prompt = !flags.chat}));
  print_logprobs(tokenizer, streamed.generation);
  print_timings(prompt.size(), streamed.generation, answer.device);
  if (streamed.generation.stop == model::Generation::Stop::kInterrupted)
    return interrupted_error("the text so far is complete");
  return 0;
}

}  // namespace

void add_generate(Program& program) {
  CLI::App* command =
      program.add(CommandGroup::kModels, "generate", "Continue a prompt, or answer a chat message");
  auto flags = std::make_shared<GenerateFlags>();
  command->add_option("MODEL_DIR", flags->answer.model_dir, "a Hugging Face model folder")
      ->required();
  add_prompt_flags(command, *flags);
  add_answer_flags(command, flags->answer);
  command
      ->add_option("--logprobs", flags->logprobs,
                   "print the log-probability of each token and of the N most likely ones")
      ->check(CLI::Range(0, 1000));
  program.set_run(
      command, [flags] { return run_generate(*flags); }, ProcessMode::kTensorParallel);
}

}  // namespace neuronmm::apps
