#include "model/serve_flags.h"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "byte_size.h"
#include "flags.h"
#include "model/draft_option.h"
#include "serve/http/api_keys.h"
#include "serve/http/client_identity.h"
#include "serve/http/cross_site.h"

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
  return serve::is_api_key(text) ? "" : "expected visible ASCII characters without spaces";
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

// Returns an empty text if `text` is a host as it stands in a URL, or * for all, else the reason.
std::string check_host(const std::string& text) {
  if (text == "*" || !serve::normalized_host(text).empty()) return "";
  return fmt::format(
      "expected the name or address in a client's URL, without scheme and port, or *, found {:?}",
      text);
}

// Returns an empty text if `text` is an address or a network of proxies, else the reason.
std::string check_proxy(const std::string& text) {
  const auto parsed = serve::TrustedProxies::parse({text});
  return parsed.ok() ? "" : parsed.error().message;
}

void add_address_flags(CLI::App* command, serve::ServeSettings& settings) {
  serve::ServerOptions& server = settings.server;
  command->add_option("--host", server.host, "Listen at this address; 0.0.0.0 is all")
      ->type_name("ADDRESS")
      ->capture_default_str()
      ->group(kInput);
  command->add_option("--port", server.port, "Listen at port N; 0 chooses a free one")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str()
      ->group(kInput);
  command->add_option("--api-key", server.api_keys, "Refuse clients without this key; repeatable")
      ->check(check_visible)
      ->envname("NEURONMM_API_KEY")
      ->type_name("KEY")
      ->allow_extra_args(false)
      ->group(kInput);
  command
      ->add_option("--api-key-file", settings.api_key_file,
                   "Also take a key from each line of FILE")
      ->type_name("FILE")
      ->group(kInput);
}

void add_web_flags(CLI::App* command, serve::ServerOptions& server) {
  command
      ->add_option("--allowed-host", server.allowed_hosts,
                   "Answer to this name, too, without a key on loopback; repeatable")
      ->check(check_host)
      ->type_name("NAME")
      ->allow_extra_args(false)
      ->group(kAdvanced);
  command
      ->add_option("--cors-origin", server.cors_origins,
                   "Serve pages of this origin; repeatable, * is all")
      ->check(check_origin)
      ->type_name("ORIGIN")
      ->allow_extra_args(false)
      ->group(kAdvanced);
  auto* certificate = command
                          ->add_option("--tls-cert", server.tls_certificate,
                                       "Serve https with this certificate chain, in PEM")
                          ->type_name("FILE")
                          ->group(kAdvanced);
  auto* key = command->add_option("--tls-key", server.tls_key, "Private key of --tls-cert, in PEM")
                  ->type_name("FILE")
                  ->group(kAdvanced);
  certificate->needs(key);
  key->needs(certificate);
}

void add_client_flags(CLI::App* command, serve::ServeSettings& settings) {
  command
      ->add_option("--trusted-proxy", settings.server.trusted_proxies,
                   "Believe X-Forwarded-For from this address or network; repeatable")
      ->check(check_proxy)
      ->type_name("ADDRESS")
      ->allow_extra_args(false)
      ->group(kAdvanced);
  command
      ->add_flag("--allow-priority", settings.allow_priority,
                 "Obey the field priority of requests, from every client")
      ->group(kAdvanced);
}

void add_engine_flags(CLI::App* command, serve::EngineOptions& engine, int64_t& memory_bytes) {
  command->add_option("--max-num-seqs", engine.max_sequences, "Compute at most N answers together")
      ->check(CLI::Range(int64_t{1}, int64_t{65536}))
      ->capture_default_str()
      ->group(kSpeed);
  command->add_option("--memory", memory_bytes, "Stay below SIZE in all, mapped files excepted")
      ->transform(byte_size())
      ->check(CLI::Range(int64_t{1}, kMost))
      ->type_name("SIZE")
      ->default_str("90 % of a container's limit")
      ->group(kSpeed);
  command->add_option("--kv-cache-memory", engine.kv_cache_bytes, "Use SIZE for keys and values")
      ->transform(byte_size())
      ->check(CLI::Range(int64_t{1}, kMost))
      ->type_name("SIZE")
      ->default_str(fmt::format("for {} contexts or more", serve::kDefaultKvContexts))
      ->group(kSpeed);
  command->add_option("--prefill-chunk", engine.chunk_tokens, "Read N tokens of prompts per step")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20))
      ->capture_default_str()
      ->group(kSpeed);
  command
      ->add_option("--context-length", engine.context_tokens, "Allow N tokens of prompt and answer")
      ->check(CLI::Range(int64_t{1}, kMost))
      ->default_str("the model's")
      ->group(kQuality);
  command
      ->add_option("--max-queued-tokens", engine.max_queued_tokens,
                   "Refuse requests if N tokens wait")
      ->check(CLI::Range(int64_t{1}, kMost))
      ->capture_default_str()
      ->group(kAdvanced);
  command
      ->add_option("--max-queued-requests", engine.max_queued_requests, "Refuse requests if N wait")
      ->check(CLI::Range(int64_t{1}, kMost))
      ->capture_default_str()
      ->group(kAdvanced);
}

void add_ping_flag(CLI::App* command, serve::ServerLimits& limits) {
  using std::chrono::seconds;
  const auto set = [&limits](int64_t value) { limits.ping = seconds(std::max<int64_t>(value, 0)); };
  command
      ->add_option_function<int64_t>("--sse-ping-interval", set,
                                     "Send pings every S seconds; 0 is off")
      ->check(CLI::Range(int64_t{-1}, int64_t{86400}))
      ->type_name("S")
      ->default_str(std::to_string(std::chrono::duration_cast<seconds>(limits.ping).count()))
      ->group(kRare);
}

void add_pooling_flag(CLI::App* command, serve::Pooling& pooling) {
  const auto set = [&pooling](const std::string& name) {
    pooling = name == "mean" ? serve::Pooling::kMean : serve::Pooling::kLast;
  };
  command
      ->add_option_function<std::string>("--pooling", set,
                                         "Make embeddings of all tokens (mean) or the last (last)")
      ->check(CLI::IsMember({"mean", "last"}))
      ->type_name("KIND")
      ->default_str(pooling == serve::Pooling::kMean ? "mean" : "last")
      ->group(kQuality);
}

void add_server_flags(CLI::App* command, serve::ServeSettings& settings) {
  command
      ->add_option("--shutdown-timeout", settings.shutdown_timeout_s,
                   "Wait S seconds for answers at the end")
      ->check(real_range(0.0, 86400.0))
      ->type_name("S")
      ->capture_default_str()
      ->group(kAdvanced);
  add_ping_flag(command, settings.server.limits);
  command
      ->add_option("--metrics-prefix", settings.metrics_prefix, "Begin names in /metrics with TEXT")
      ->check(check_prefix)
      ->capture_default_str()
      ->group(kRare);
  command
      ->add_option("--access-log", settings.server.access_log,
                   "Append a line of JSON per request to FILE; - is stdout")
      ->type_name("FILE")
      ->group(kOutput);
}

}  // namespace

void add_serve_flags(CLI::App* command, ServeFlags& flags) {
  serve::ServeSettings& settings = flags.settings;
  command->add_option("MODEL_DIR", settings.model_dir, kModelHelp)->required()->group(kInput);
  add_adapter_option(command);
  command
      ->add_option("--served-model-name", settings.served_model_names,
                   "Name of the model in requests; repeatable, answers have the first")
      ->check(check_visible)
      ->type_name("NAME")
      ->allow_extra_args(false)
      ->default_str("the folder's")
      ->group(kInput);
  command
      ->add_flag("--any-model-name", settings.any_model_name,
                 "Serve the model under every name that a request asks for")
      ->group(kAdvanced);
  add_address_flags(command, settings);
  add_web_flags(command, settings.server);
  add_client_flags(command, settings);
  add_engine_flags(command, settings.engine, settings.memory_bytes);
  add_draft_option(command, flags.draft);
  add_pooling_flag(command, settings.pooling);
  add_server_flags(command, settings);
  add_device_options(command, flags.device, Devices::kHostAndSimulated);
  add_numa_option(command, flags.device);
  add_kv_option(command, flags.device);
  command->footer(
      "Clients of llama.cpp's server work as well. A size of 4G or 4GB has 4 x 10^9\n"
      "bytes, 4GiB has 4 x 2^30. A key in the variable NEURONMM_API_KEY is hidden from\n"
      "other users of the machine.");
}

}  // namespace neuronmm::apps
