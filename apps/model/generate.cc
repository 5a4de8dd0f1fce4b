// neuronmm generate: text from a prompt, streamed as it is made.

#include "model/generate.h"

#include <cstdio>
#include <numeric>
#include <system_error>

#include <fmt/core.h>

#include "base/interrupt.h"
#include "commands.h"
#include "flags.h"
#include "io/text_file.h"
#include "message.h"
#include "text/chat_template.h"
#include "text/stream_decoder.h"

namespace neuronmm::apps {
namespace {

struct GenerateFlags {
  std::string model_dir, prompt, system;
  model::GenerateOptions options;
  bool chat = false, ignore_eos = false, parse_special = true;
  DeviceOptions device;
};

// Both ends included, like CLI::Range, which however lets NaN through.
CLI::Validator real_range(double lowest, double highest) {
  const auto check = [lowest, highest](const std::string& text) {
    double value = 0.0;
    if (CLI::detail::lexical_cast(text, value) && value >= lowest && value <= highest)
      return std::string();
    return fmt::format("expected a number from {} to {}, found {}", lowest, highest, text);
  };
  return {check, fmt::format("[{} - {}]", lowest, highest)};
}

void add_flags(CLI::App* command, GenerateFlags& flags) {
  model::SamplingOptions& sampling = flags.options.sampling;
  command->add_option("MODEL_DIR", flags.model_dir, "a Hugging Face model folder")->required();
  command->add_option("--prompt", flags.prompt, "what to continue; - reads standard input")
      ->required();
  command->add_option("--max-new-tokens", flags.options.max_new_tokens, "tokens to make at most")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 30))
      ->capture_default_str();
  command->add_option("--temperature", sampling.temperature, "0: always the most likely token")
      ->check(real_range(0.0, 100.0))
      ->capture_default_str();
  command->add_option("--top-k", sampling.top_k, "draw among the K most likely tokens; 0: all")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 30))
      ->capture_default_str();
  command
      ->add_option("--top-p", sampling.top_p,
                   "draw among the most likely tokens that reach this probability; 1: all")
      ->check(real_range(0.0, 1.0))
      ->capture_default_str();
  command
      ->add_option("--repetition-penalty", sampling.repetition_penalty,
                   "above 1: tokens already seen become less likely")
      ->check(real_range(0.01, 100.0))
      ->capture_default_str();
  command->add_option("--seed", sampling.seed, "of the random draws")
      ->check(whole_number())
      ->capture_default_str();
  auto* chat = command->add_flag("--chat", flags.chat, "the prompt is a user's message");
  command
      ->add_flag("--parse-special,!--no-parse-special", flags.parse_special,
                 "special tokens in the prompt, as <|eot_id|>, are tokens (the default), or plain "
                 "text; in a chat they are always plain text")
      ->excludes(chat);
  command->add_option("--system", flags.system, "system message of the chat")->needs(chat);
  command->add_flag("--ignore-eos", flags.ignore_eos, "do not stop at an end-of-text token");
  add_device_options(command, flags.device, Devices::kHostAndSimulated);
}

Result<std::string> prompt_text(const GenerateFlags& flags) {
  std::string text = flags.prompt;
  if (text == "-") {
    NMM_ASSIGN(text, io::read_user_text("-"));
    if (text.ends_with('\n')) text.pop_back();  // the one that `echo` adds
  }
  if (text.empty()) return fail("--prompt is empty: nothing to continue");
  return text;
}

// In a chat the template brings the special tokens along; elsewhere the tokenizer adds its own.
Result<std::vector<text::TokenId>> prompt_tokens(const GenerateFlags& flags,
                                                 const text::Tokenizer& tokenizer) {
  NMM_ASSIGN(const std::string prompt, prompt_text(flags));
  if (!flags.chat) return tokenizer.encode(prompt, {.parse_added_tokens = flags.parse_special});
  text::Conversation conversation;
  if (!flags.system.empty()) conversation.say("system", flags.system);
  conversation.say("user", prompt);
  NMM_ASSIGN(const auto chat, text::apply_chat_template(tokenizer, conversation));
  return tokenizer.encode(chat.text, {.add_special_tokens = false, .literal = chat.said});
}

// Text is shown as it is made, also where stdout is a pipe.
void write_now(const std::string& text) {
  fmt::print("{}", text);
  if (std::fflush(stdout) != 0) throw std::system_error(errno, std::generic_category());
}

// To stderr: stdout holds nothing but the text.
void print_timings(size_t prompt_tokens, const model::Generation& generation,
                   const std::string& note) {
  const auto& latencies = generation.decode_latencies_s;
  const double decode_s = std::accumulate(latencies.begin(), latencies.end(), 0.0);
  print_message("prompt tokens {}, new tokens {}, {}time to first token {:.1f} ms", prompt_tokens,
                generation.tokens.size(), note, generation.time_to_first_token_s * 1e3);
  if (!latencies.empty())
    print_message(", decode {:.2f} tokens/s", static_cast<double>(latencies.size()) / decode_s);
  if (generation.stop == model::Generation::Stop::kContextFull)
    print_message(", stopped: the context is full");
  print_message("\n");
}

Result<int> run_generate(GenerateFlags& flags) {
  NMM_ASSIGN(const auto tokenizer, text::Tokenizer::load(flags.model_dir));
  NMM_ASSIGN(const auto prompt, prompt_tokens(flags, tokenizer));
  NMM_ASSIGN(const auto backend, make_backend(flags.device));
  NMM_ASSIGN(const auto transformer, model::Transformer::load(flags.model_dir, *backend));
  // The end of a text is a token like any other with --ignore-eos: what follows it is shown.
  if (!flags.ignore_eos) {
    auto& stops = flags.options.stop_tokens;
    NMM_ASSIGN(stops, model::stop_tokens_of(flags.model_dir, transformer.config()));
    // A base model's config may name only the end of a text, not the end of a chat turn.
    if (flags.chat && tokenizer.eos_id()) stops.push_back(*tokenizer.eos_id());
  }

  // Tokens are printed as they come, but never a part of a character.
  text::StreamDecoder decoder(tokenizer);
  if (!flags.chat) decoder.continue_after(prompt);
  NMM_ASSIGN(const auto generation,
             model::generate(transformer, prompt, flags.options,
                             [&](text::TokenId token) { write_now(decoder.push(token)); }));
  write_now(decoder.finish() + "\n");
  print_timings(prompt.size(), generation,
                flags.device.simulated()
                    ? fmt::format("predicted for {} (simulated): ", flags.device.device)
                    : "");
  if (generation.stop == model::Generation::Stop::kInterrupted)
    return interrupted_error("the text so far is complete");
  return 0;
}

}  // namespace

void add_generate(Program& program) {
  CLI::App* command =
      program.add(CommandGroup::kModels, "generate", "Continue a prompt, or answer a chat message");
  auto flags = std::make_shared<GenerateFlags>();
  add_flags(command, *flags);
  program.set_run(command, [flags] { return run_generate(*flags); });
}

}  // namespace neuronmm::apps
