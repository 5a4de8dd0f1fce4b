#pragma once
// A server whose every byte and delay the test decides: plain sockets, a thread per connection.

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace neuronmm::load {

struct ScriptedRequest {
  int index = 0;     // of all requests of this server
  std::string head;  // the request line and headers
  std::string body;
};

class ScriptedServer {
 public:
  // One connection, as a script sees it.
  class Peer {
   public:
    explicit Peer(int socket) : socket_(socket) {}
    bool send(std::string_view bytes);  // false: the client has gone
    void wait_until_client_closes();
    std::string receive();  // some bytes; empty: the client has gone

   private:
    int socket_;
  };
  // True: the connection waits for the next request; false: it is closed.
  using Script = std::function<bool(const ScriptedRequest&, Peer&)>;

  explicit ScriptedServer(Script script);
  ~ScriptedServer();
  std::string url() const;
  int connections() const { return connections_; }
  int requests() const { return requests_; }

 private:
  void accept_all();
  void serve(int socket);

  const Script script_;
  int listener_ = -1;
  int port_ = 0;
  std::atomic<int> connections_ = 0, requests_ = 0;
  std::mutex mutex_;
  std::vector<int> sockets_;
  std::vector<std::thread> threads_;
  std::thread acceptor_;
};

void sleep_ms(int64_t milliseconds);

// "HTTP/1.1 200 OK" with its headers; a chunk of a body; the chunk that ends one.
std::string stream_head();
std::string chunk(std::string_view bytes);
std::string last_chunk();
std::string response(int status, std::string_view content_type, std::string_view body);

// Events of text completions, with their empty lines.
std::string token_event(std::string_view text);
std::string finish_event();
std::string usage_event(int prompt_tokens, int completion_tokens);
inline const std::string kDoneEvent = "data: [DONE]\n\n";

}  // namespace neuronmm::load
