#include "model/answer_flags.h"

#include <charconv>
#include <cmath>
#include <random>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "flags.h"
#include "message.h"
#include "text/unicode/utf8.h"

namespace neuronmm::apps {
namespace {

constexpr int64_t kMaxTokens = int64_t{1} << 30;

Result<model::LogitBias> parse_bias(const std::string& text) {
  const size_t equals = text.find('=');
  const char* const id_end = text.data() + std::min(equals, text.size());
  model::LogitBias bias;
  const auto [end, error] = std::from_chars(text.data(), id_end, bias.id);
  const bool valid =
      equals != std::string::npos && error == std::errc() && end == id_end && bias.id >= 0 &&
      CLI::detail::lexical_cast(text.substr(equals + 1), bias.bias) && std::isfinite(bias.bias);
  if (!valid) return fail("expected ID=BIAS, a token id and a number, found \"{}\"", text);
  return bias;
}

std::string check_bias(const std::string& text) {
  const auto bias = parse_bias(text);
  return bias.ok() ? "" : bias.error().message;
}

std::string check_stop(const std::string& text) {
  if (text.empty()) return "expected a text that is not empty";
  return text::valid_utf8_length(text) == std::ssize(text) ? "" : "expected UTF-8";
}

void add_end_flags(CLI::App* command, AnswerFlags& flags) {
  command
      ->add_option("--max-new-tokens", flags.settings.max_new_tokens, "Generate at most N tokens")
      ->check(CLI::Range(int64_t{1}, kMaxTokens))
      ->default_str("the model's, or 128")
      ->group(kOutput);
  command->add_option("--stop", flags.stop, "End the answer before this text; repeatable")
      ->check(check_stop)
      ->allow_extra_args(false)
      ->group(kOutput);
  command->add_flag("--ignore-eos", flags.ignore_eos, "Go on after an end-of-text token")
      ->group(kRare);
}

// The defaults of these flags are those of the model's generation_config.json. A model without
// that file draws nothing.
void add_sampling_flags(CLI::App* command, AnswerFlags& flags) {
  io::GenerationConfig& settings = flags.settings;
  auto* temperature = command
                          ->add_option("--temperature", settings.temperature,
                                       "Draw at temperature X; 0 never draws")
                          ->check(real_range(0.0, 100.0))
                          ->default_str("the model's")
                          ->group(kQuality);
  command->add_option("--top-k", settings.top_k, "Draw among the N likeliest tokens; 0 means all")
      ->check(CLI::Range(int64_t{0}, kMaxTokens))
      ->group(kQuality);
  command
      ->add_option("--top-p", settings.top_p, "Draw among the likeliest tokens of this total share")
      ->check(real_range(0.0, 1.0))
      ->group(kQuality);
  command->add_flag("--greedy", flags.greedy, "Take the likeliest token, as --temperature 0 does")
      ->excludes(temperature)
      ->group(kQuality);
  command->add_option("--seed", flags.seed, "Seed of the random draws")
      ->check(whole_number())
      ->type_name("N")
      ->default_str("a random one")
      ->group(kQuality);
  command->add_option("--min-p", settings.min_p, "Draw among tokens X times as likely as the first")
      ->check(real_range(0.0, 1.0))
      ->group(kRare);
  command
      ->add_option("--repetition-penalty", settings.repetition_penalty,
                   "Make tokens seen before less likely; 1 is off")
      ->check(real_range(0.01, 100.0))
      ->group(kRare);
}

void add_logit_flags(CLI::App* command, AnswerFlags& flags) {
  command
      ->add_option("--frequency-penalty", flags.frequency_penalty,
                   "Lower a logit by X per use of its token")
      ->check(real_range(-2.0, 2.0))
      ->capture_default_str()
      ->group(kRare);
  command
      ->add_option("--presence-penalty", flags.presence_penalty,
                   "Lower a logit by X once its token is used")
      ->check(real_range(-2.0, 2.0))
      ->capture_default_str()
      ->group(kRare);
  command
      ->add_option("--logit-bias", flags.logit_bias,
                   "Add BIAS to the logit of the token ID; repeatable")
      ->check(check_bias)
      ->type_name("ID=BIAS")
      ->allow_extra_args(false)
      ->group(kRare);
}

Result<model::GenerateOptions> generate_options(const AnswerFlags& flags,
                                                const io::GenerationConfig& file,
                                                model::GenerateOptions options) {
  io::GenerationConfig settings = file;
  settings.override_with(flags.settings);
  if (flags.greedy) settings.do_sample = false;
  model::apply_generation_config(settings, options);
  model::SamplingOptions& sampling = options.sampling;
  sampling.frequency_penalty = flags.frequency_penalty;
  sampling.presence_penalty = flags.presence_penalty;
  for (const std::string& text : flags.logit_bias) {
    NMM_ASSIGN(const model::LogitBias bias, parse_bias(text));
    sampling.logit_bias.push_back(bias);
  }
  sampling.seed = flags.seed.value_or(sampling.seed);
  return options;
}

// Returns the settings in `options` that come from the file and not from a flag, for example
// "temperature 0.6, top_p 0.9". Settings that have no effect are left out.
std::string settings_of_file(const AnswerFlags& flags, const io::GenerationConfig& file,
                             const model::GenerateOptions& options) {
  const io::GenerationConfig& given = flags.settings;
  const model::SamplingOptions& used = options.sampling;
  std::vector<std::string> settings;
  const auto add = [&](bool changes, const char* name, const auto& from_flag, const auto& from_file,
                       auto value) {
    if (changes && from_file && !from_flag) settings.push_back(fmt::format("{} {}", name, value));
  };
  const bool samples = used.temperature > 0.0;
  add(samples, "temperature", given.temperature, file.do_sample, used.temperature);
  add(samples && used.top_k > 0, "top_k", given.top_k, file.top_k, used.top_k);
  add(samples && used.top_p < 1.0, "top_p", given.top_p, file.top_p, used.top_p);
  add(samples && used.min_p > 0.0, "min_p", given.min_p, file.min_p, used.min_p);
  add(used.repetition_penalty != 1.0, "repetition_penalty", given.repetition_penalty,
      file.repetition_penalty, used.repetition_penalty);
  add(true, "max_new_tokens", given.max_new_tokens, file.max_new_tokens, options.max_new_tokens);
  return fmt::format("{}", fmt::join(settings, ", "));
}

// Says which settings come from no flag and not from the model either.
void print_conversation_defaults(const AnswerFlags& flags, const io::GenerationConfig& file,
                                 const io::GenerationConfig& defaults,
                                 const model::GenerateOptions& options) {
  if (file.recommends_sampling() == defaults.recommends_sampling()) return;
  if (options.sampling.temperature == 0.0) return;
  std::vector<std::string> settings;
  if (!flags.settings.temperature) {
    settings.push_back(fmt::format("temperature {}", options.sampling.temperature));
  }
  if (!flags.settings.top_p) settings.push_back(fmt::format("top_p {}", options.sampling.top_p));
  if (settings.empty()) return;
  print_message("{}, because the model's generation_config.json recommends nothing\n",
                fmt::join(settings, ", "));
}

}  // namespace

void add_answer_flags(CLI::App* command, AnswerFlags& flags) {
  add_end_flags(command, flags);
  add_sampling_flags(command, flags);
  add_logit_flags(command, flags);
  add_device_options(command, flags.device, Devices::kHostAndSimulated);
  add_numa_option(command, flags.device);
  add_kv_option(command, flags.device);
}

Result<model::GenerateOptions> answer_options(AnswerFlags& flags, const text::Tokenizer& tokenizer,
                                              const io::ModelConfig& config, bool chat,
                                              model::GenerateOptions options) {
  NMM_ASSIGN(const auto file, io::GenerationConfig::load(flags.model_dir));
  const auto defaults = flags.conversation ? file.for_conversation() : file;
  const bool random_seed = !flags.seed;
  if (random_seed) flags.seed = std::random_device()();
  NMM_ASSIGN(options, generate_options(flags, defaults, std::move(options)));
  const std::string from_file = settings_of_file(flags, file, options);
  if (!from_file.empty()) print_message("generation_config.json: {}\n", from_file);
  print_conversation_defaults(flags, file, defaults, options);
  if (random_seed && options.sampling.temperature > 0.0)
    print_message("--seed {} makes this text again\n", *flags.seed);
  // With --ignore-eos the end-of-text token does not stop the answer, and the text after it is
  // shown.
  if (!flags.ignore_eos) {
    options.stop_tokens = model::stop_tokens_of(file, config, tokenizer);
    // The config of a base model may name the end-of-text token but not the token that ends a turn.
    const auto end = tokenizer.eos_id();
    if (chat && end && *end < config.vocab_size) options.stop_tokens.push_back(*end);
  }
  return options;
}

}  // namespace neuronmm::apps
