#include "model/serve_flags.h"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdint>
#include <string>
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
  command
      ->add_option("--host", server.host, "listen at this address; 0.0.0.0 is every IPv4 address")
      ->capture_default_str();
  command
      ->add_option("--port", server.port,
                   "listen at this port; 0 chooses a free port, which is printed")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  command
      ->add_option("--api-key", server.api_keys,
                   "refuse clients that show none of these keys; repeatable. Other users of the "
                   "machine cannot see a key in NEURONMM_API_KEY")
      ->check(check_visible)
      ->envname("NEURONMM_API_KEY")
      ->allow_extra_args(false);
  command
      ->add_option("--cors-origin", server.cors_origins,
                   "let web pages of this origin send requests, for example https://example.org; "
                   "* for all origins; repeatable")
      ->check(check_origin)
      ->allow_extra_args(false);
  auto* certificate =
      command->add_option("--tls-cert", server.tls_certificate,
                          "serve https with this certificate and its chain, in PEM");
  auto* key =
      command->add_option("--tls-key", server.tls_key, "the private key of --tls-cert, in PEM");
  certificate->needs(key);
  key->needs(certificate);
}

std::string kv_memory_help() {
  return fmt::format(
      "memory for the keys and values of all answers in bytes, for example 4G; default: {} "
      "contexts, or {} positions for each of --max-num-seqs if that is more, within {} % of the "
      "machine's memory",
      serve::kDefaultKvContexts, serve::kDefaultKvPositions, 100.0 * serve::kDefaultKvMemoryShare);
}

void add_engine_flags(CLI::App* command, serve::EngineOptions& engine) {
  command
      ->add_option("--max-num-seqs", engine.max_sequences,
                   "compute at most this many answers together")
      ->check(CLI::Range(int64_t{1}, int64_t{65536}))
      ->capture_default_str();
  command
      ->add_option("--max-queued-tokens", engine.max_queued_tokens,
                   "refuse requests with 429 if the waiting prompts have more tokens than this")
      ->check(CLI::Range(int64_t{1}, kMost))
      ->capture_default_str();
  command
      ->add_option("--max-queued-requests", engine.max_queued_requests,
                   "refuse requests with 429 if this many wait")
      ->check(CLI::Range(int64_t{1}, kMost))
      ->capture_default_str();
  command->add_option("--kv-cache-memory", engine.kv_cache_bytes, kv_memory_help())
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/false))
      ->check(CLI::Range(int64_t{1}, kMost));
  command
      ->add_option("--prefill-chunk", engine.chunk_tokens,
                   "compute at most this many tokens of prompts in one step; running answers wait "
                   "for the step")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20))
      ->capture_default_str();
  command
      ->add_option("--context-length", engine.context_tokens,
                   "let a prompt and its answer have at most this many tokens; default: the "
                   "model's limit")
      ->check(CLI::Range(int64_t{1}, kMost));
}

void add_ping_flag(CLI::App* command, serve::ServerLimits& limits) {
  using std::chrono::seconds;
  const auto set = [&limits](int64_t value) { limits.ping = seconds(std::max<int64_t>(value, 0)); };
  command
      ->add_option_function<int64_t>(
          "--sse-ping-interval", set,
          "send a comment on a stream after so many seconds without an event, so that proxies keep "
          "it open; 0 or -1 sends none, for clients that cannot read comments")
      ->check(CLI::Range(int64_t{-1}, int64_t{86400}))
      ->default_str(std::to_string(std::chrono::duration_cast<seconds>(limits.ping).count()));
}

void add_server_flags(CLI::App* command, serve::ServeSettings& settings) {
  command
      ->add_option("--shutdown-timeout", settings.shutdown_timeout_s,
                   "give running answers this many seconds after SIGTERM or Ctrl-C")
      ->check(real_range(0.0, 86400.0))
      ->capture_default_str();
  add_ping_flag(command, settings.server.limits);
  command
      ->add_option("--metrics-prefix", settings.metrics_prefix,
                   "begin the names in /metrics with this prefix")
      ->check(check_prefix)
      ->capture_default_str();
  command
      ->add_option("--access-log", settings.server.access_log,
                   "append a line of JSON per request to this file; - is standard output")
      ->type_name("PATH");
}

}  // namespace

void add_serve_flags(CLI::App* command, ServeFlags& flags) {
  serve::ServeSettings& settings = flags.settings;
  command->add_option("MODEL_DIR", settings.model_dir, "a Hugging Face model folder")->required();
  command
      ->add_option("--model-name", settings.model_name,
                   "name of the model in requests; default: the folder's name")
      ->check(check_visible);
  add_address_flags(command, settings.server);
  add_engine_flags(command, settings.engine);
  add_server_flags(command, settings);
  add_device_options(command, flags.device, Devices::kHostAndSimulated);
}

}  // namespace neuronmm::apps
