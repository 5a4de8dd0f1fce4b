#include "scripted_server.h"

#include <algorithm>
#include <cstdlib>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <nlohmann/json.hpp>
#include <sys/socket.h>
#include <unistd.h>

namespace neuronmm::load {
namespace {

using Json = nlohmann::json;

std::string event(const Json& data) { return "data: " + data.dump() + "\n\n"; }

size_t content_length(const std::string& head) {
  constexpr std::string_view kName = "Content-Length: ";
  const size_t at = head.find(kName);
  return at == std::string::npos ? 0 : std::strtoul(head.c_str() + at + kName.size(), nullptr, 10);
}

}  // namespace

bool ScriptedServer::Peer::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

std::string ScriptedServer::Peer::receive() {
  std::string bytes(65536, '\0');
  const ssize_t count = recv(socket_, bytes.data(), bytes.size(), 0);
  bytes.resize(static_cast<size_t>(std::max<ssize_t>(count, 0)));
  return bytes;
}

void ScriptedServer::Peer::wait_until_client_closes() {
  while (!receive().empty()) {
  }
}

ScriptedServer::ScriptedServer(Script script) : script_(std::move(script)) {
  listener_ = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), length), 0);
  EXPECT_EQ(listen(listener_, 1024), 0);
  getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length);
  port_ = ntohs(address.sin_port);
  acceptor_ = std::thread([this] { accept_all(); });
}

ScriptedServer::~ScriptedServer() {
  shutdown(listener_, SHUT_RDWR);
  acceptor_.join();
  {
    const std::lock_guard lock(mutex_);
    for (const int socket : sockets_) shutdown(socket, SHUT_RDWR);
  }
  for (std::thread& thread : threads_) thread.join();
  for (const int socket : sockets_) close(socket);
  close(listener_);
}

std::string ScriptedServer::url() const { return fmt::format("http://127.0.0.1:{}", port_); }

void ScriptedServer::accept_all() {
  while (true) {
    const int socket = accept(listener_, nullptr, nullptr);
    if (socket < 0) return;
    const int yes = 1;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
    ++connections_;
    const std::lock_guard lock(mutex_);
    sockets_.push_back(socket);
    threads_.emplace_back([this, socket] { serve(socket); });
  }
}

void ScriptedServer::serve(int socket) {
  Peer peer(socket);
  std::string bytes;
  while (true) {
    size_t end = 0;
    while ((end = bytes.find("\r\n\r\n")) == std::string::npos ||
           bytes.size() < end + 4 + content_length(bytes)) {
      const std::string more = peer.receive();
      if (more.empty()) return;
      bytes += more;
    }
    ScriptedRequest request = {requests_++, bytes.substr(0, end), {}};
    request.body = bytes.substr(end + 4, content_length(request.head));
    bytes.erase(0, end + 4 + request.body.size());
    if (script_(request, peer)) continue;
    shutdown(socket, SHUT_RDWR);
    return;
  }
}

void sleep_ms(int64_t milliseconds) {
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

std::string stream_head() {
  return "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
         "Transfer-Encoding: chunked\r\n\r\n";
}
std::string chunk(std::string_view bytes) {
  return fmt::format("{:x}\r\n{}\r\n", bytes.size(), bytes);
}
std::string last_chunk() { return "0\r\n\r\n"; }

std::string response(int status, std::string_view content_type, std::string_view body) {
  return fmt::format("HTTP/1.1 {} Whatever\r\nContent-Type: {}\r\nContent-Length: {}\r\n\r\n{}",
                     status, content_type, body.size(), body);
}

std::string token_event(std::string_view text) {
  return event({{"choices", {{{"index", 0}, {"text", text}, {"finish_reason", nullptr}}}}});
}
std::string finish_event() {
  return event({{"choices", {{{"index", 0}, {"text", ""}, {"finish_reason", "length"}}}}});
}
std::string usage_event(int prompt_tokens, int completion_tokens) {
  return event(
      {{"choices", Json::array()},
       {"usage", {{"prompt_tokens", prompt_tokens}, {"completion_tokens", completion_tokens}}}});
}

}  // namespace neuronmm::load
