#include "serve/http/http_text.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <optional>

#include <fmt/format.h>

namespace neuronmm::serve {
namespace {

constexpr std::array kRoutes = {
    Route{"GET", "/", Endpoint::kPage, true},
    Route{"GET", "/health", Endpoint::kHealth, true},
    Route{"GET", "/ready", Endpoint::kReady, true},
    Route{"GET", "/metrics", Endpoint::kMetrics, true},
    Route{"GET", "/version", Endpoint::kVersion, false},
    Route{"GET", "/openapi.json", Endpoint::kOpenApi, true},
    Route{"GET", "/v1/models", Endpoint::kModels, false},
    Route{"GET", "/v1/models/{model}", Endpoint::kModelByName, false},
    Route{"GET", "/v1/model", Endpoint::kModelDetails, false},
    Route{"POST", "/v1/chat/completions", Endpoint::kChatCompletions, false},
    Route{"POST", "/v1/responses", Endpoint::kResponses, false},
    Route{"POST", "/v1/messages", Endpoint::kAnthropicMessages, false},
    Route{"POST", "/v1/messages/count_tokens", Endpoint::kCountTokens, false},
    Route{"POST", "/v1/completions", Endpoint::kTextCompletions, false},
    Route{"POST", "/tokenize", Endpoint::kTokenize, false},
    Route{"POST", "/detokenize", Endpoint::kDetokenize, false},
    Route{"POST", "/apply-template", Endpoint::kApplyTemplate, false},
    Route{"GET", "/tokenizer_info", Endpoint::kTokenizerInfo, false},
    Route{"POST", "/v1/embeddings", Endpoint::kEmbeddings, false},
    Route{"POST", "/embeddings", Endpoint::kEmbeddingsOfEither, false},
    Route{"POST", "/embedding", Endpoint::kLlamaEmbedding, false},
    Route{"POST", "/api/chat", Endpoint::kOllamaChat, false},
    Route{"POST", "/api/generate", Endpoint::kOllamaGenerate, false},
    Route{"POST", "/api/embed", Endpoint::kOllamaEmbed, false},
    Route{"POST", "/api/embeddings", Endpoint::kOllamaEmbeddings, false},
    Route{"POST", "/api/show", Endpoint::kOllamaShow, false},
    Route{"GET", "/api/tags", Endpoint::kOllamaTags, false},
    Route{"GET", "/api/ps", Endpoint::kOllamaPs, false},
    Route{"GET", "/api/version", Endpoint::kOllamaVersion, false},
    Route{"POST", "/completion", Endpoint::kLlamaCppCompletion, false},
    Route{"POST", "/completions", Endpoint::kEitherCompletion, false},
    Route{"POST", "/infill", Endpoint::kLlamaCppInfill, false},
    Route{"GET", "/props", Endpoint::kLlamaCppProps, false},
    Route{"GET", "/slots", Endpoint::kLlamaCppSlots, false},
    Route{"GET", "/lora-adapters", Endpoint::kLlamaCppAdapters, false},
};

// Paths of Ollama's server that manage models or accounts.
constexpr std::array<std::string_view, 10> kOllamaOnlyPaths = {
    "/api/pull", "/api/push",   "/api/create",  "/api/copy",   "/api/delete",
    "/api/me",   "/api/signin", "/api/signout", "/api/status", "/api/blobs"};

constexpr std::string_view kVersionPrefix = "/v1", kModelsPrefix = "/v1/models/";

bool is_ollama_only(std::string_view path) {
  return std::ranges::find(kOllamaOnlyPaths, path) != kOllamaOnlyPaths.end() ||
         path.starts_with("/api/blobs/") || path.starts_with("/api/experimental/");
}

ApiError has_no_meaning(std::string_view path) {
  return {.status = 501,
          .message = fmt::format("{}: not supported: this server has the one model that it was "
                                 "started with, and GET /api/tags names it. To serve another "
                                 "model, start `neuronmm serve` with its folder",
                                 path.substr(0, 200)),
          .code = "not_supported"};
}

const Route* route_as_written(std::string_view path) {
  const bool names_model = path.starts_with(kModelsPrefix) && path.size() > kModelsPrefix.size();
  const std::string_view wanted = names_model ? "/v1/models/{model}" : path;
  const auto found = std::ranges::find(kRoutes, wanted, &Route::path);
  return found == kRoutes.end() ? nullptr : &*found;
}

// Finds the route of a path, also without its "/v1": clients that were given the server's address
// without "/v1" leave it out in every path. Clients that were given it with "/v1" put it before
// paths that have none.
const Route* route_of(std::string_view path) {
  const Route* route = route_as_written(path);
  if (route == nullptr) route = route_as_written(std::string(kVersionPrefix) + std::string(path));
  if (route != nullptr || !path.starts_with(kVersionPrefix)) return route;
  route = route_as_written(path.substr(kVersionPrefix.size()));
  return route == nullptr || route->path.starts_with(kVersionPrefix) ? nullptr : route;
}

std::optional<char> decoded_octet(std::string_view escape) {
  unsigned value = 0;
  const auto [end, error] =
      std::from_chars(escape.data(), escape.data() + escape.size(), value, 16);
  if (escape.size() != 2 || error != std::errc() || end != escape.data() + 2) return std::nullopt;
  return static_cast<char>(value);
}

// Returns whether a character means the same with and without an escape (RFC 3986, section 2.3).
bool is_unreserved(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
         std::string_view("-._~").find(c) != std::string_view::npos;
}

std::string_view reason_phrase(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    default:
      return "Status";
  }
}

}  // namespace

std::span<const Route> routes() { return kRoutes; }

std::string normalized_path(std::string_view target) {
  if (const size_t scheme = target.find("://"); scheme < target.find_first_of("/?")) {
    const size_t path = target.find_first_of("/?", scheme + std::string_view("://").size());
    target = path == std::string_view::npos || target[path] == '?' ? "/" : target.substr(path);
  }
  target = target.substr(0, target.find('?'));
  std::string path;
  for (size_t i = 0; i < target.size(); ++i) {
    if (target[i] == '/' && path.ends_with('/')) continue;
    const auto octet =
        target[i] == '%' ? decoded_octet(target.substr(i + 1, 2)) : std::optional<char>();
    const bool plain = octet && is_unreserved(*octet);
    path += plain ? *octet : target[i];
    if (plain) i += 2;
  }
  if (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

std::string model_in_path(std::string_view path) {
  std::string_view rest = path.substr(path.find("/models/") + std::string_view("/models/").size());
  std::string name;
  for (size_t i = 0; i < rest.size(); ++i) {
    const auto octet =
        rest[i] == '%' ? decoded_octet(rest.substr(i + 1, 2)) : std::optional<char>();
    name += octet.value_or(rest[i]);
    if (octet) i += 2;
  }
  return name;
}

ApiResult<Route> find_route(std::string_view method, std::string_view path) {
  const Route* route = route_of(path);
  if (route == nullptr && is_ollama_only(path)) return has_no_meaning(path);
  if (route == nullptr)
    return ApiError{.status = 404,
                    .message = fmt::format("{} {:?}: there is no such endpoint; GET "
                                           "/openapi.json lists what there is",
                                           method.substr(0, 32), path.substr(0, 200)),
                    .code = "not_found"};
  if (method == route->method || (method == "HEAD" && route->method == "GET")) return *route;
  return ApiError{.status = 405,
                  .message = fmt::format("{}: expected {}, found {}", path, route->method,
                                         method.substr(0, 32)),
                  .code = "method_not_allowed"};
}

std::string allowed_methods(std::string_view path) {
  const Route* route = route_of(path);
  if (route == nullptr) return "";
  return route->method == "GET" ? "GET, HEAD, OPTIONS" : "POST, OPTIONS";
}

HttpReply error_reply(const ApiError& error) {
  HttpReply reply{.status = error.status, .body = openai_error_json(error)};
  if (error.retry_after_s)
    reply.headers.emplace_back("Retry-After", std::to_string(*error.retry_after_s));
  if (error.status == 401) reply.headers.emplace_back("WWW-Authenticate", "Bearer");
  return reply;
}

namespace {

bool is_anthropic(std::string_view path) {
  return path.starts_with("/v1/messages") || path.starts_with("/messages");
}

bool is_ollama(std::string_view path) { return path.starts_with("/api/"); }
bool is_llama_cpp(std::string_view path) {
  constexpr std::array kPaths = {"/completion", "/infill", "/props", "/slots", "/lora-adapters"};
  return std::ranges::count(kPaths, path) > 0;
}

}  // namespace

HttpReply error_reply(const ApiError& error, std::string_view path) {
  HttpReply reply = error_reply(error);
  if (is_anthropic(path)) reply.body = anthropic_error_json(error);
  if (is_ollama(path)) reply.body = ollama_error_json(error);
  if (is_llama_cpp(path)) reply.body = llama_cpp_error_json(error);
  return reply;
}

std::string_view out_of_memory_response(std::string_view path) {
  const auto make = [](std::string_view example) {
    const HttpReply reply = error_reply(out_of_memory(), example);
    Headers headers = {{"Content-Type", reply.content_type}};
    headers.insert(headers.end(), reply.headers.begin(), reply.headers.end());
    return response_head(reply.status, headers, Framing::kLength, reply.body.size(), false) +
           reply.body;
  };
  static const std::string openai = make("/v1"), anthropic = make("/v1/messages"),
                           ollama = make("/api/chat"), llama_cpp = make("/completion");
  if (is_llama_cpp(path)) return llama_cpp;
  return is_anthropic(path) ? anthropic : is_ollama(path) ? ollama : openai;
}

std::string response_head(int status, const Headers& headers, Framing framing, size_t length,
                          bool keep_alive) {
  std::string head = fmt::format("HTTP/1.1 {} {}\r\n", status, reason_phrase(status));
  for (const auto& [name, value] : headers) head += fmt::format("{}: {}\r\n", name, value);
  if (framing == Framing::kLength && status != 204)
    head += fmt::format("Content-Length: {}\r\n", length);
  if (framing == Framing::kChunked) head += "Transfer-Encoding: chunked\r\n";
  head += keep_alive ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n";
  return head;
}

std::string chunk(std::string_view data) {
  return fmt::format("{:x}\r\n{}\r\n", data.size(), data);
}

bool is_request_id(std::string_view id) {
  constexpr size_t kLongest = 128;
  return !id.empty() && id.size() <= kLongest && std::ranges::all_of(id, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("-_.:").find(c) != std::string_view::npos;
  });
}

std::string header_text(const std::vector<std::string>& texts) {
  // In bytes. Assumed: proxies allow 4 or 8 KiB for all headers together.
  constexpr size_t kLongest = 2000;
  std::string value;
  for (const std::string& text : texts) {
    if (!value.empty()) value += "; ";
    for (const char c : text) {
      if (c >= ' ' && c <= '~') {
        value += c;
      } else {
        value += fmt::format("%{:02X}", static_cast<uint8_t>(c));
      }
    }
    if (value.size() > kLongest) return value.substr(0, kLongest) + "...";
  }
  return value;
}

bool is_allowed_origin(const std::vector<std::string>& allowed, std::string_view origin) {
  return !origin.empty() && (std::ranges::count(allowed, "*") > 0 ||
                             std::ranges::find(allowed, origin) != allowed.end());
}

Headers cors_headers(const std::vector<std::string>& allowed, std::string_view origin) {
  if (allowed.empty()) return {};
  if (!is_allowed_origin(allowed, origin)) return {{"Vary", "Origin"}};
  const bool any = std::ranges::count(allowed, "*") > 0;
  return {{"Access-Control-Allow-Origin", any ? "*" : std::string(origin)},
          {"Access-Control-Expose-Headers",
           "X-Request-Id, Retry-After, X-Predicted-Device, X-Predicted-First-Token-Seconds, "
           "X-Predicted-Total-Seconds, X-Schema-Notes, X-Unknown-Fields"},
          {"Vary", "Origin"}};
}

Headers preflight_headers(const std::vector<std::string>& allowed, std::string_view origin,
                          std::string_view path) {
  if (!is_allowed_origin(allowed, origin)) return {};
  Headers headers;
  headers.emplace_back("Access-Control-Allow-Methods", allowed_methods(path));
  // "*" covers the X-Stainless-... headers of OpenAI's clients, whose names are not all known.
  headers.emplace_back("Access-Control-Allow-Headers",
                       "Authorization, Content-Type, X-Request-Id, *");
  headers.emplace_back("Access-Control-Max-Age", "600");
  return headers;
}

}  // namespace neuronmm::serve
