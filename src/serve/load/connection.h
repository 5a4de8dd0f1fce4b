#pragma once
// HTTP/1.1 to one server, over TCP or TLS. Asio is seen by the files of this folder alone.

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>

#include "serve/load/answer_recorder.h"
#include "serve/load/server_url.h"

namespace neuronmm::load {

// What a response is given to as it arrives.
class ResponseSink {
 public:
  virtual ~ResponseSink() = default;
  // False: nothing of what follows matters.
  virtual bool body(const ResponseHead& head, std::string_view bytes) = 0;
  // What came is all that is needed: the rest is read for the connection's sake only.
  virtual bool satisfied() const { return false; }
};

struct HttpRequest {
  std::string_view method, path;  // the path behind that of the URL
  std::string_view body;          // JSON; empty: none
};

// The server's addresses and how it is spoken to. Outlives its connections.
class HttpClient {
 public:
  HttpClient(boost::asio::io_context& context, ServerUrl url, std::string api_key);
  ~HttpClient();

  // Looks the host up, once for all connections.
  boost::asio::awaitable<std::optional<RequestFailure>> resolve();

 private:
  friend class HttpConnection;
  struct State;
  std::unique_ptr<State> state_;
};

class HttpConnection {
 public:
  explicit HttpConnection(const HttpClient& client);
  ~HttpConnection();

  // One request and its response; connects where it is not connected. A server may have closed a
  // connection that waited for the next request: then it is made anew, once. `head` has a status
  // once the server has answered at all.
  boost::asio::awaitable<std::optional<RequestFailure>> exchange(HttpRequest request,
                                                                 LoadClock::time_point deadline,
                                                                 ResponseHead& head,
                                                                 ResponseSink& sink);
  bool reusable() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace neuronmm::load
