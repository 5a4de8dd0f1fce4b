// Binds text generation: for several prompts at once, or for one prompt as a stream.

#include <deque>
#include <string>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "base/interrupt.h"
#include "job.h"
#include "language_model.h"
#include "model/generate.h"
#include "text/stop_strings.h"
#include "text/stream_decoder.h"

namespace neuronmm::python {
namespace {

using namespace nb::literals;
using model::Generation;
using text::TokenId;
using Prompt = std::vector<TokenId>;

// The largest number of sequences that are decoded together. One pass over the weights serves all
// of them, but beyond some tens the arithmetic takes longer than reading the weights.
constexpr size_t kMostAtOnce = 32;

// The settings of a SamplingParams object for this model.
struct Settings {
  model::GenerateOptions options;
  std::vector<std::string> stop;
};

template <typename T>
T field(nb::handle params, const char* name) {
  return nb::cast<T>(params.attr(name));
}

// Converts SamplingParams like the flags of `neuronmm generate`: a setting that is not given comes
// from the model folder, or else is the default.
model::GenerateOptions options_of(nb::handle params, io::GenerationConfig settings) {
  io::GenerationConfig given;
  const auto take = [&](auto& setting, const char* name) {
    setting = field<std::remove_reference_t<decltype(setting)>>(params, name);
  };
  take(given.temperature, "temperature");
  take(given.top_k, "top_k");
  take(given.top_p, "top_p");
  take(given.min_p, "min_p");
  take(given.repetition_penalty, "repetition_penalty");
  take(given.max_new_tokens, "max_tokens");
  settings.override_with(given);
  model::GenerateOptions options;
  model::apply_generation_config(settings, options);
  options.sampling.frequency_penalty = field<double>(params, "frequency_penalty");
  options.sampling.presence_penalty = field<double>(params, "presence_penalty");
  for (const auto [id, bias] : nb::cast<nb::dict>(params.attr("logit_bias")))
    options.sampling.logit_bias.push_back({nb::cast<TokenId>(id), nb::cast<double>(bias)});
  options.logprobs = field<std::optional<int64_t>>(params, "logprobs");
  return options;
}

Settings settings_of(const LoadedModel& model, nb::handle params, uint64_t seed, bool chat) {
  Settings settings{options_of(params, model.generation_config),
                    field<std::vector<std::string>>(params, "stop")};
  settings.options.sampling.seed = seed;
  std::vector<TokenId>& stops = settings.options.stop_tokens;
  if (!field<bool>(params, "ignore_eos")) {
    stops = model::stop_tokens_of(model.generation_config, model.transformer->config(),
                                  *model.tokenizer);
    // A base model's config may name only the end of a text, not the end of a chat turn.
    const auto end = model.tokenizer->eos_id();
    if (chat && end && *end < model.transformer->config().vocab_size) stops.push_back(*end);
  }
  for (const TokenId id : field<std::vector<TokenId>>(params, "stop_token_ids"))
    stops.push_back(id);
  return settings;
}

// The text of one sequence, as whole characters and up to a stop string.
class Continuation {
 public:
  Continuation(const text::Tokenizer& tokenizer, const Prompt& prompt,
               const std::vector<std::string>& stops, bool chat)
      : decoder_(tokenizer), stops_(stops) {
    if (!chat) decoder_.continue_after(prompt);
  }
  std::string push(TokenId id) { return stops_.push(decoder_.push(id)); }
  std::string finish() {
    const std::string rest = stops_.push(decoder_.finish());
    return rest + stops_.finish();
  }
  bool stopped() const { return stops_.found(); }

 private:
  text::StreamDecoder decoder_;
  text::StopStrings stops_;
};

struct Token {
  TokenId id = 0;
  double logprob = 0.0;
  std::string text;
};

// The data of a CompletionOutput in Python.
struct Completion {
  std::string text;
  Prompt token_ids;
  std::string finish_reason;
  std::vector<std::vector<Token>> logprobs;  // per position, the chosen token first
};

// Returns the text of one token. Incomplete characters are replaced, because Python's strings
// cannot hold them.
std::string text_of(const text::Tokenizer& tokenizer, TokenId id) {
  text::Utf8Stream characters;
  const std::string text = characters.push(tokenizer.decode_inside(id));
  return text + characters.finish();
}

std::vector<Token> tokens_of(const text::Tokenizer& tokenizer, const model::TokenLogprobs& token) {
  std::vector<Token> tokens;
  const auto add = [&](const model::TokenLogprob& one) {
    tokens.push_back({one.id, one.logprob, text_of(tokenizer, one.id)});
  };
  add(token.chosen);
  for (const model::TokenLogprob& one : token.top) add(one);
  return tokens;
}

Completion completion_of(const text::Tokenizer& tokenizer, Generation generation, std::string text,
                         bool stopped) {
  const bool stop = stopped || generation.stop == Generation::Stop::kStopToken;
  Completion completion{
      std::move(text), std::move(generation.tokens), stop ? "stop" : "length", {}};
  for (const model::TokenLogprobs& token : generation.logprobs)
    completion.logprobs.push_back(tokens_of(tokenizer, token));
  return completion;
}

Result<std::vector<Completion>> complete(const LoadedModel& model, std::span<const Prompt> prompts,
                                         const Settings& settings, bool chat) {
  std::vector<Continuation> continuations;
  for (const Prompt& prompt : prompts)
    continuations.emplace_back(*model.tokenizer, prompt, settings.stop, chat);
  std::vector<std::string> texts(prompts.size());
  NMM_ASSIGN(auto generations, model::generate_batch(*model.transformer, prompts, settings.options,
                                                     [&](int64_t i, TokenId id) {
                                                       const auto at = static_cast<size_t>(i);
                                                       texts[at] += continuations[at].push(id);
                                                       return !continuations[at].stopped();
                                                     }));
  std::vector<Completion> completions;
  for (size_t i = 0; i < prompts.size(); ++i) {
    texts[i] += continuations[i].finish();
    completions.push_back(completion_of(*model.tokenizer, std::move(generations[i]),
                                        std::move(texts[i]), continuations[i].stopped()));
  }
  return completions;
}

// Completes all prompts in groups. The groups do not change the texts, because prompt i is drawn
// with seed + i.
Result<std::vector<Completion>> complete_all(const LoadedModel& model,
                                             std::span<const Prompt> prompts, Settings settings,
                                             bool chat) {
  std::vector<Completion> all;
  for (size_t first = 0; first < prompts.size(); first += kMostAtOnce) {
    if (interrupted()) return interrupted_error("nothing is kept");
    const auto group = prompts.subspan(first, std::min(kMostAtOnce, prompts.size() - first));
    NMM_ASSIGN(auto completions, complete(model, group, settings, chat));
    std::ranges::move(completions, std::back_inserter(all));
    settings.options.sampling.seed += group.size();
  }
  return all;
}

std::vector<Completion> generate(const LanguageModel& self, std::vector<Prompt> prompts,
                                 nb::handle params, uint64_t seed, bool chat) {
  return run_job(self.threads, [model = self.model, prompts = std::move(prompts),
                                settings = settings_of(*self.model, params, seed, chat),
                                chat] { return complete_all(*model, prompts, settings, chat); });
}

// Passes text from the work to whoever asks for it. The work does not wait to be asked, so that two
// streams of one thread cannot wait for each other.
class Stream {
 public:
  Stream(const LanguageModel& self, Prompt prompt, nb::handle params, uint64_t seed, bool chat)
      : mailbox_(std::make_shared<Mailbox>()) {
    job_ = Job::start(
        self.threads, [mailbox = mailbox_, model = self.model, prompt = std::move(prompt),
                       settings = settings_of(*self.model, params, seed, chat), chat](Job& job) {
          mailbox->result = write(*model, prompt, settings, chat, job, mailbox->pieces);
        });
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() { close(); }

  // Returns the next piece of text, or nothing at the end.
  std::optional<std::string> next() {
    std::deque<std::string>& pieces = mailbox_->pieces;
    job_->wait_until([&] { return !pieces.empty(); });
    std::optional<std::string> piece;
    job_->update([&] {
      if (pieces.empty()) return;
      piece = std::move(pieces.front());
      pieces.pop_front();
    });
    if (piece) return piece;
    job_->wait();
    if (!mailbox_->result.ok()) throw Failure(mailbox_->result.error());
    return {};
  }
  void close() { job_->interrupt(); }

 private:
  struct Mailbox {
    std::deque<std::string> pieces;  // guarded by the lock of the job
    Status result;                   // set when the job is over
  };

  static Status write(const LoadedModel& model, const Prompt& prompt, const Settings& settings,
                      bool chat, Job& job, std::deque<std::string>& pieces) {
    Continuation continuation(*model.tokenizer, prompt, settings.stop, chat);
    const auto give = [&](std::string piece) {
      if (!piece.empty()) job.update([&] { pieces.push_back(std::move(piece)); });
    };
    NMM_TRY(model::generate(*model.transformer, prompt, settings.options, [&](TokenId id) {
      give(continuation.push(id));
      return !continuation.stopped();
    }));
    give(continuation.finish());
    return {};
  }

  std::shared_ptr<Mailbox> mailbox_;
  std::shared_ptr<Job> job_;
};

}  // namespace

void bind_generation(nb::module_& m, nb::class_<LanguageModel>& type) {
  nb::class_<Token>(m, "Token")
      .def_ro("id", &Token::id)
      .def_ro("logprob", &Token::logprob)
      .def_ro("text", &Token::text);
  nb::class_<Completion>(m, "Completion")
      .def_ro("text", &Completion::text)
      .def_ro("token_ids", &Completion::token_ids)
      .def_ro("finish_reason", &Completion::finish_reason)
      .def_ro("logprobs", &Completion::logprobs);
  nb::class_<Stream>(m, "Stream")
      .def(nb::init<const LanguageModel&, Prompt, nb::handle, uint64_t, bool>(), "model"_a,
           "prompt"_a, "params"_a, "seed"_a, "chat"_a)
      .def("next", &Stream::next)
      .def("close", &Stream::close);
  type.def("generate", &generate, "prompts"_a, "params"_a, "seed"_a, "chat"_a);
}

}  // namespace neuronmm::python
