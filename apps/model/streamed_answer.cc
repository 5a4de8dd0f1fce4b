#include "model/streamed_answer.h"

#include <cstdio>
#include <numeric>
#include <system_error>

#include <fmt/format.h>

#include "base/parallel.h"
#include "message.h"
#include "text/stop_strings.h"
#include "text/stream_decoder.h"

namespace neuronmm::apps {
namespace {

// Writes the text and flushes standard output, which is buffered if it is a pipe.
void write_and_flush(const std::string& text) {
  fmt::print("{}", text);
  if (std::fflush(stdout) != 0) throw std::system_error(errno, std::generic_category());
}

}  // namespace

Result<StreamedAnswer> stream_answer(const model::Transformer& transformer,
                                     const text::Tokenizer& tokenizer,
                                     std::span<const text::TokenId> prompt,
                                     const model::GenerateOptions& options,
                                     const StreamOptions& stream_options) {
  text::StreamDecoder decoder(tokenizer);
  if (stream_options.continues_prompt) decoder.continue_after(prompt);
  text::StopStrings stops(stream_options.stop);
  StreamedAnswer answer;
  const auto show = [&](const std::string& text) {
    answer.text += text;
    write_and_flush(text);
  };
  const auto on_token = [&](text::TokenId id) {
    show(stops.push(decoder.push(id)));
    return !stops.found();
  };
  try {
    NMM_ASSIGN(answer.generation,
               model::generate(transformer, prompt, options, on_token, stream_options.cache,
                               stream_options.speculation));
  } catch (const LoopsStopped&) {
    answer.generation.stop = model::Generation::Stop::kInterrupted;
  }
  const std::string rest = stops.push(decoder.finish());
  show(rest + stops.finish());
  write_and_flush("\n");
  return answer;
}

void print_cut(const model::Generation& generation, int64_t context_tokens, const NextSteps& next) {
  using Stop = model::Generation::Stop;
  if (generation.stop == Stop::kContextFull)
    print_message("the answer ends here because the context of {} tokens is full: {}\n",
                  context_tokens, next.context_full);
  if (generation.stop == Stop::kLimit)
    print_message("the answer ends here at its limit of {} token{}: {}\n", generation.tokens.size(),
                  generation.tokens.size() == 1 ? "" : "s", next.limit);
}

void print_timings(size_t prompt_tokens, const model::Generation& generation,
                   const DeviceOptions& device) {
  const auto& latencies = generation.decode_latencies_s;
  const double decode_s = std::accumulate(latencies.begin(), latencies.end(), 0.0);
  const std::string reused =
      generation.reused_tokens > 0 ? fmt::format(" ({} kept)", generation.reused_tokens) : "";
  const std::string predicted =
      device.simulated() ? fmt::format("predicted for {} (simulated): ", device.device) : "";
  print_message("prompt tokens {}{}, new tokens {}, {}time to first token {:.1f} ms", prompt_tokens,
                reused, generation.tokens.size(), predicted,
                generation.time_to_first_token_s * 1e3);
  if (!latencies.empty())
    print_message(", decode {:.2f} tokens/s", static_cast<double>(latencies.size()) / decode_s);
  const model::DraftCounts& draft = generation.draft;
  if (draft.drafts > 0)
    print_message(", accepted {} of {} proposed tokens", draft.accepted, draft.proposed);
  print_message("\n");
}

}  // namespace neuronmm::apps
