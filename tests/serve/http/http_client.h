#pragma once
// A client of raw sockets: it sends what a test says, byte by byte if need be, and reads responses
// strictly.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace neuronmm::serve {

struct HttpResponse {
  int status = 0;  // 0: the connection ended before there was a whole response
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;                            // chunks put together
  bool complete = false;

  std::string header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? "" : found->second;
  }
};

class HttpClient {
 public:
  explicit HttpClient(int port, int receive_buffer_bytes = 0);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  bool send(std::string_view text);  // false: the server has closed
  HttpResponse read_response();
  std::string read_some();  // what comes next; empty: the end, or nothing for 20 s
  bool closed_by_server();  // waits for the end, and skips what comes before it
  void close();
  // send() and read_response().
  HttpResponse get(const std::string& path, const std::string& headers = "");
  HttpResponse post(const std::string& path, const std::string& body,
                    const std::string& headers = "");

 private:
  bool fill();

  int socket_ = -1;
  std::string buffer_;
};

std::string get_text(const std::string& path, const std::string& headers = "");
std::string post_text(const std::string& path, const std::string& body,
                      const std::string& headers = "");

}  // namespace neuronmm::serve
