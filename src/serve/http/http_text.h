#pragma once
// The text of HTTP that is not read from a socket: which endpoint a request means, and the head of
// the response to it.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "serve/protocol/api_error.h"

namespace neuronmm::serve {

enum class Endpoint {
  kPage,
  kHealth,
  kReady,
  kMetrics,
  kVersion,
  kOpenApi,
  kModels,
  kModelByName,
  kModelDetails,
  kTokenizerInfo,
  kChatCompletions,
  kResponses,
  kAnthropicMessages,
  kCountTokens,
  kTextCompletions,
  kTokenize,
  kDetokenize,
  kApplyTemplate,
};

struct Route {
  std::string_view method, path;
  Endpoint endpoint;
  bool open;  // needs no API key
};

std::span<const Route> routes();
// Errors: 404, and 405 where the path has another method. HEAD is GET.
ApiResult<Route> find_route(std::string_view method, std::string_view path);
// "GET, HEAD, OPTIONS", for the header Allow; empty for a path that nobody knows.
std::string allowed_methods(std::string_view path);
// A request's target without its query, and without the server's own address before it. Addresses
// are put together by people: slashes that follow another or end the path are left out, and what
// needs no escape has none.
std::string path_of(std::string_view target);
// Which model a path of kModelByName means.
std::string model_in_path(std::string_view path);

using Headers = std::vector<std::pair<std::string, std::string>>;

struct HttpReply {
  int status = 200;
  std::string content_type = "application/json";
  std::string body = {};
  Headers headers = {};
};
HttpReply error_reply(const ApiError& error);
// In the shape that clients of this path know.
HttpReply error_reply(const ApiError& error, std::string_view path);

// How the body's end is told.
enum class Framing { kLength, kChunked, kClose };

// Status line and headers, up to the empty line. `length`: of the body, with kLength. Values must
// be one line: they are ours, or were checked.
std::string response_head(int status, const Headers& headers, Framing framing, size_t length,
                          bool keep_alive);
std::string chunk(std::string_view data);  // not empty
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

// What a client calls its request, where that can go into a header and a log: up to 128 letters,
// digits, and -_.:
bool is_request_id(std::string_view id);

// Texts as the value of a header: separated by "; ", bytes that are no printable ASCII as %XX, and
// no longer than a proxy takes.
std::string header_text(const std::vector<std::string>& texts);

// The headers by which a browser lets a page of `origin` see the response; none where the origin is
// not allowed. `allowed` has origins, or "*".
Headers cors_headers(const std::vector<std::string>& allowed, std::string_view origin);
// What comes beside them where a browser asks beforehand.
Headers preflight_headers(const std::vector<std::string>& allowed, std::string_view origin,
                          std::string_view path);

}  // namespace neuronmm::serve
