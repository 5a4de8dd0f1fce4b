#pragma once
// The parts of HTTP that are only text: which endpoint a request means, the head of its response,
// and the headers for browsers (CORS). connection.h and server.cc use these functions. None of them
// touches a socket.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "serve/requests/api_error.h"

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
  kEmbeddings,          // OpenAI's
  kEmbeddingsOfEither,  // OpenAI's or llama.cpp's
  kLlamaEmbedding,
  kOllamaChat,
  kOllamaGenerate,
  kOllamaEmbed,
  kOllamaEmbeddings,
  kOllamaShow,
  kOllamaTags,
  kOllamaPs,
  kOllamaVersion,
  kLlamaCppCompletion,
  kLlamaCppInfill,
  kEitherCompletion,
  kLlamaCppProps,
  kLlamaCppSlots,
  kLlamaCppAdapters,
};

struct Route {
  std::string_view method, path;
  Endpoint endpoint;
  bool open;  // may be used without an API key
};

std::span<const Route> routes();
// Returns the route of a request. HEAD counts as GET. The error is 404 for an unknown path, 405 for
// a known path with another method, and 501 for a path of Ollama's server that has no meaning here.
ApiResult<Route> find_route(std::string_view method, std::string_view path);
// Returns the value of the header Allow, for example "GET, HEAD, OPTIONS"; empty for an unknown
// path.
std::string allowed_methods(std::string_view path);
// Returns the path of a request's target: without the query, and without "http://HOST" if the
// target begins with the server's own address. People put such addresses together by hand, so the
// function is lenient. It removes repeated slashes and a slash at the end, and decodes escapes of
// characters that need none.
std::string normalized_path(std::string_view target);
// Returns the name of the model in a path of Endpoint::kModelByName, with escapes decoded.
std::string model_in_path(std::string_view path);

using Headers = std::vector<std::pair<std::string, std::string>>;

struct HttpReply {
  int status = 200;
  std::string content_type = "application/json";
  std::string body = {};
  Headers headers = {};
};
// Returns the response for an error, with a body in OpenAI's format.
HttpReply error_reply(const ApiError& error);
// Returns the response in the format that clients of `path` know: Anthropic's for the Messages API,
// Ollama's below /api/, llama.cpp's for /completion, /infill, /props, /slots and /lora-adapters,
// else OpenAI's.
HttpReply error_reply(const ApiError& error, std::string_view path);

// Returns the whole response to a request that memory did not suffice for, in the format that
// clients of `path` know. The connection ends after it. Only the first call allocates memory.
std::string_view out_of_memory_response(std::string_view path);

// How a response tells the client where its body ends: by Content-Length, by chunks, or by closing
// the connection.
enum class Framing { kLength, kChunked, kClose };

// Returns the status line and the headers, with the empty line at their end. `length` is the size
// of the body in bytes for Framing::kLength. The values of the headers must not contain line ends:
// the server writes them itself, or has checked them.
std::string response_head(int status, const Headers& headers, Framing framing, size_t length,
                          bool keep_alive);
// Returns one chunk of a chunked body. `data` must not be empty, because an empty chunk ends the
// body.
std::string chunk(std::string_view data);
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

// Returns whether a client's name for its request is safe in a header and in a log: 1 to 128
// letters, digits and characters of "-_.:".
bool is_request_id(std::string_view id);

// Returns `texts` as the value of one header, separated by "; ". Bytes that are not printable ASCII
// become %XX. The value is cut to a length that proxies accept.
std::string header_text(const std::vector<std::string>& texts);

// Returns whether pages of `origin` may use the server. `allowed` has origins, or "*" for all.
bool is_allowed_origin(const std::vector<std::string>& allowed, std::string_view origin);
// Returns the headers that allow a browser to show the response to a page of `origin`. If the
// origin is not allowed, the only header is Vary. The result is empty if `allowed` is.
Headers cors_headers(const std::vector<std::string>& allowed, std::string_view origin);
// Returns the additional headers for the preflight request (OPTIONS) by which a browser asks
// beforehand.
Headers preflight_headers(const std::vector<std::string>& allowed, std::string_view origin,
                          std::string_view path);

}  // namespace neuronmm::serve
