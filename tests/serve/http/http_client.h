#pragma once
// An HTTP client on raw sockets for the tests of the server. It sends exactly the bytes that a test
// gives, so that requests can be wrong or come in pieces, and it reads responses strictly.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace neuronmm::serve {

// A response of the server.
struct HttpResponse {
  int status = 0;                              // 0 if the connection ended before the response did
  std::map<std::string, std::string> headers;  // with names in lower case
  std::string body;                            // with chunks joined
  bool complete = false;

  std::string header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? "" : found->second;
  }
};

// A connection to a server on this machine.
class HttpClient {
 public:
  explicit HttpClient(int port, int receive_buffer_bytes = 0);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  bool send(std::string_view text);  // returns false if the server has closed the connection
  HttpResponse read_response();
  // Returns the next bytes; empty at the end, or if nothing arrives for 20 s.
  std::string read_some();
  // Returns whether the server closes the connection, after skipping all bytes before that.
  bool closed_by_server();
  void close();
  // Send a request and return its response.
  HttpResponse get(const std::string& path, const std::string& headers = "");
  HttpResponse post(const std::string& path, const std::string& body,
                    const std::string& headers = "");

 private:
  bool fill();

  int socket_ = -1;
  std::string buffer_;
};

// Return the text of a request.
std::string get_text(const std::string& path, const std::string& headers = "");
std::string post_text(const std::string& path, const std::string& body,
                      const std::string& headers = "");

}  // namespace neuronmm::serve
