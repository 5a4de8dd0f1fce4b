// neuronmm generate: text from a prompt, streamed as it is made.

#include "model/generate.h"

#include <cstdio>
#include <numeric>
#include <random>
#include <system_error>

#include <fmt/core.h>

#include "base/interrupt.h"
#include "commands.h"
#include "io/text_file.h"
#include "message.h"
#include "model/generate_flags.h"
#include "text/chat_template.h"
#include "text/stop_strings.h"
#include "text/stream_decoder.h"

namespace neuronmm::apps {
namespace {

Result<std::string> prompt_text(const GenerateFlags& flags) {
  const bool in_file = !flags.prompt_file.empty();
  std::string text = flags.prompt;
  if (in_file || text == "-") {
    NMM_ASSIGN(text, io::read_user_text(in_file ? flags.prompt_file : "-"));
    if (text.ends_with('\n')) text.pop_back();  // the one that `echo` and editors add
  }
  if (text.empty())
    return fail("{} is empty: nothing to continue", in_file ? flags.prompt_file : "--prompt");
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

// What tells two runs apart is said before the text, so that a run that is killed can be repeated.
Result<model::GenerateOptions> options_of(GenerateFlags& flags, const text::Tokenizer& tokenizer,
                                          const io::ModelConfig& config) {
  NMM_ASSIGN(const auto file, io::GenerationConfig::load(flags.model_dir));
  const bool random_seed = !flags.seed;
  if (random_seed) flags.seed = std::random_device()();
  NMM_ASSIGN(auto options, generate_options(flags, file));
  const std::string from_file = settings_of_file(flags, file, options);
  if (!from_file.empty()) print_message("generation_config.json: {}\n", from_file);
  if (random_seed && options.sampling.temperature > 0.0)
    print_message("--seed {} makes this text again\n", *flags.seed);
  // The end of a text is a token like any other with --ignore-eos: what follows it is shown.
  if (!flags.ignore_eos) {
    options.stop_tokens = model::stop_tokens_of(file, config);
    // A base model's config may name only the end of a text, not the end of a chat turn.
    if (flags.chat && tokenizer.eos_id()) options.stop_tokens.push_back(*tokenizer.eos_id());
  }
  return options;
}

// A token's text where it stands behind another: a SentencePiece decoder takes the first one's
// space.
std::string text_of(const text::Tokenizer& tokenizer, text::TokenId id) {
  const text::TokenId ids[] = {id, id};
  const std::string once = tokenizer.decode(std::span(ids, 1)), twice = tokenizer.decode(ids);
  return twice.starts_with(once) ? twice.substr(once.size()) : once;
}

// One line per token: its text, its logarithm, and the most likely ones.
void print_logprobs(const text::Tokenizer& tokenizer, const model::Generation& generation) {
  const auto shown = [&](const model::TokenLogprob& token) {
    return fmt::format("{:?} ({}) {:.4f}", text_of(tokenizer, token.id), token.id, token.logprob);
  };
  for (const model::TokenLogprobs& token : generation.logprobs) {
    std::string line = shown(token.chosen);
    for (size_t i = 0; i < token.top.size(); ++i)
      line += (i == 0 ? " of " : ", ") + shown(token.top[i]);
    print_message("logprob {}\n", line);
  }
}

// Tokens are printed as they come, but never a part of a character, nor what may begin a stop.
Result<model::Generation> print_generation(const GenerateFlags& flags,
                                           const model::GenerateOptions& options,
                                           const text::Tokenizer& tokenizer,
                                           const model::Transformer& transformer,
                                           std::span<const text::TokenId> prompt) {
  text::StreamDecoder decoder(tokenizer);
  if (!flags.chat) decoder.continue_after(prompt);
  text::StopStrings stops(flags.stop);
  NMM_ASSIGN(auto generation, model::generate(transformer, prompt, options, [&](text::TokenId id) {
               write_now(stops.push(decoder.push(id)));
               return !stops.found();
             }));
  const std::string rest = stops.push(decoder.finish());
  write_now(rest + stops.finish() + "\n");
  return generation;
}

Result<int> run_generate(GenerateFlags& flags) {
  NMM_ASSIGN(const auto tokenizer, text::Tokenizer::load(flags.model_dir));
  NMM_ASSIGN(const auto prompt, prompt_tokens(flags, tokenizer));
  NMM_ASSIGN(const auto backend, make_backend(flags.device));
  NMM_ASSIGN(const auto transformer, model::Transformer::load(flags.model_dir, *backend));
  NMM_ASSIGN(const auto options, options_of(flags, tokenizer, transformer.config()));
  NMM_ASSIGN(const auto generation,
             print_generation(flags, options, tokenizer, transformer, prompt));
  print_logprobs(tokenizer, generation);
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
  add_generate_flags(command, *flags);
  program.set_run(command, [flags] { return run_generate(*flags); });
}

}  // namespace neuronmm::apps
