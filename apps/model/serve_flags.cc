#include "model/serve_flags.h"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <string_view>

#include "flags.h"

namespace neuronmm::apps {
namespace {

// The largest value of flags that have no natural limit.
constexpr int64_t kMost = int64_t{1} << 40;

// Returns an empty text if `text` is a valid beginning of Prometheus metric names, else the reason.
std::string check_prefix(const std::string& text) {
  const bool good = std::ranges::all_of(text, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == ':';
  });
  const bool digit = !text.empty() && std::isdigit(static_cast<unsigned char>(text[0])) != 0;
  return good && !digit ? "" : "expected letters, digits, _ and :, and no digit first";
}

// Returns an empty text if `text` has only visible characters, else the reason. API keys and model
// names appear in headers, which allow nothing else.
std::string check_visible(const std::string& text) {
  const bool good = !text.empty() && std::ranges::all_of(text, [](char c) {
    return std::isgraph(static_cast<unsigned char>(c)) != 0;
  });
  return good ? "" : "expected visible ASCII characters without spaces";
}

bool only_of(std::string_view allowed, std::string_view text) {
  return !text.empty() && text.find_first_not_of(allowed) == std::string_view::npos;
}

// Returns whether `text` is an origin as browsers write it: scheme://host:port in lower case,
// without the port if it is the scheme's default.
bool is_origin(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789";
  constexpr std::string_view kNames = "0123456789abcdefghijklmnopqrstuvwxyz.-_";
  const size_t end = text.find("://");
  if (end == std::string_view::npos) return false;
  const std::string_view scheme = text.substr(0, end), place = text.substr(end + 3);
  const bool v6 = place.starts_with('[');
  const size_t colon = place.find(':', v6 ? place.find(']') : 0);
  const std::string_view host = place.substr(0, colon);
  if (colon < place.size()) {
    const std::string_view port = place.substr(colon + 1), own = scheme == "https" ? "443" : "80";
    if (!only_of(kDigits, port) || (scheme.starts_with("http") && port == own)) return false;
  }
  if (!only_of(kNames, scheme)) return false;
  if (!v6) return only_of(kNames, host);
  return host.ends_with(']') && only_of("0123456789abcdef:.", host.substr(1, host.size() - 2));
}

// Returns an empty text if a browser can send `text` as its origin, else the reason. A flag with
// another value would have no effect.
std::string check_origin(const std::string& text) {
  if (text == "*" || text == "null" || is_origin(text)) return "";
  return fmt::format(
      "expected *, null, or an origin as browsers send it, http://localhost:3000 or "
      "https://example.org (in lower case, without a path, a slash at its end or the port that the "
      "scheme has anyway), found {:?}",
      text);
}

void add_address_flags(CLI::App* command, serve::ServerOptions& server) {
  command->add_option("--host", server.host, "the address to listen at; 0.0.0.0: all of IPv4")
      ->capture_default_str();
  command->add_option("--port", server.port, "0: any that is free, which is printed")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  command
      ->add_option("--api-key", server.api_keys,
                   "who shows none of these keys is refused; repeatable, or NEURONMM_API_KEY, "
                   "which other users of the machine do not see")
      ->check(check_visible)
      ->envname("NEURONMM_API_KEY")
      ->allow_extra_args(false);
  command
      ->add_option(
          "--cors-origin", server.cors_origins,
          "web pages of this origin may ask, as https://example.org; * for all; repeatable")
      ->check(check_origin)
      ->allow_extra_args(false);
  auto* certificate = command->add_option("--tls-cert", server.tls_certificate,
                                          "serve https: the certificate and its chain, in PEM");
  auto* key = command->add_option("--tls-key", server.tls_key, "its private key, in PEM");
  certificate->needs(key);
  key->needs(certificate);
}

void add_engine_flags(CLI::App* command, serve::EngineOptions& engine) {
  command->add_option("--max-num-seqs", engine.max_sequences, "answers that are computed together")
      ->check(CLI::Range(int64_t{1}, int64_t{65536}))
      ->capture_default_str();
  command
      ->add_option("--max-queued-tokens", engine.max_queued_tokens,
                   "of prompts that wait; beyond it requests are refused with 429")
      ->check(CLI::Range(int64_t{1}, kMost))
      ->capture_default_str();
  command
      ->add_option("--max-queued-requests", engine.max_queued_requests,
                   "that wait; beyond it they are refused with 429")
      ->check(CLI::Range(int64_t{1}, kMost))
      ->capture_default_str();
  command
      ->add_option("--kv-cache-memory", engine.kv_cache_bytes,
                   "for the keys and values of all answers, as 4G; default: four contexts, or "
                   "1,024 positions for each of --max-num-seqs, within half of the memory")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/false))
      ->check(CLI::Range(int64_t{1}, kMost));
  command
      ->add_option("--prefill-chunk", engine.chunk_tokens,
                   "tokens of prompts in one step; the answers that run wait for them")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20))
      ->capture_default_str();
  command
      ->add_option("--context-length", engine.context_tokens,
                   "tokens of prompt and answer; default: the model's")
      ->check(CLI::Range(int64_t{1}, kMost));
}

}  // namespace

void add_serve_flags(CLI::App* command, ServeFlags& flags) {
  command->add_option("MODEL_DIR", flags.model_dir, "a Hugging Face model folder")->required();
  command
      ->add_option("--model-name", flags.model_name,
                   "what requests call the model; default: the folder's name")
      ->check(check_visible);
  add_address_flags(command, flags.server);
  add_engine_flags(command, flags.engine);
  command
      ->add_option("--shutdown-timeout", flags.shutdown_timeout_s,
                   "seconds that running answers have after SIGTERM or Ctrl-C")
      ->check(real_range(0.0, 86400.0))
      ->capture_default_str();
  command
      ->add_option("--sse-ping-interval", flags.ping_interval_s,
                   "seconds without an event after which a stream has a comment, so that proxies "
                   "keep it open; -1 or 0: never, for clients that read no comments")
      ->check(CLI::Range(int64_t{-1}, int64_t{86400}))
      ->capture_default_str();
  command->add_option("--metrics-prefix", flags.metrics_prefix, "of the names in /metrics")
      ->check(check_prefix)
      ->capture_default_str();
  command
      ->add_option("--access-log", flags.server.access_log,
                   "a line of JSON per request goes to the end of this file; -: standard output")
      ->type_name("PATH");
  add_device_options(command, flags.device, Devices::kHostAndSimulated);
}

}  // namespace neuronmm::apps
