#include "serve/http/http_client.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

namespace neuronmm::serve {

HttpClient::HttpClient(int port, int receive_buffer_bytes)
    : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
  const timeval patience = {.tv_sec = 20, .tv_usec = 0};
  setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
  if (receive_buffer_bytes > 0)
    setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer_bytes, sizeof(int));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  const int yes = 1;  // send each piece at once
  setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
}

HttpClient::~HttpClient() { close(); }

void HttpClient::close() {
  if (socket_ >= 0) ::close(socket_);
  socket_ = -1;
}

bool HttpClient::send(std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
    if (count <= 0) return false;
    text.remove_prefix(static_cast<size_t>(count));
  }
  return true;
}

bool HttpClient::fill() {
  std::array<char, 65536> piece;
  const ssize_t count = recv(socket_, piece.data(), piece.size(), 0);
  if (count > 0) buffer_.append(piece.data(), static_cast<size_t>(count));
  return count > 0;
}

std::string HttpClient::read_some() {
  if (buffer_.empty()) fill();
  return std::exchange(buffer_, "");
}

bool HttpClient::closed_by_server() {
  std::array<char, 65536> piece;
  ssize_t count = 0;
  while ((count = recv(socket_, piece.data(), piece.size(), 0)) > 0) {
  }
  return count == 0 || errno == ECONNRESET;
}

HttpResponse HttpClient::read_response() {
  HttpResponse response;
  size_t end = 0;
  while ((end = buffer_.find("\r\n\r\n")) == std::string::npos) {
    if (!fill()) return response;
  }
  const std::string head = buffer_.substr(0, end + 2);
  buffer_.erase(0, end + 4);
  EXPECT_TRUE(head.starts_with("HTTP/1.1 ")) << head;
  response.status = std::stoi(head.substr(9, 3));
  for (size_t line = head.find("\r\n") + 2; line < head.size();) {
    const size_t stop = head.find("\r\n", line);
    const std::string field = head.substr(line, stop - line);
    const size_t colon = field.find(": ");
    EXPECT_NE(colon, std::string::npos) << field;
    std::string name = field.substr(0, colon);
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
    EXPECT_FALSE(response.headers.contains(name)) << name;
    response.headers[name] = field.substr(colon + 2);
    line = stop + 2;
  }
  if (response.status == 100) return read_response();
  if (response.header("transfer-encoding") != "chunked") {
    const std::string length = response.header("content-length");
    const size_t size = length.empty() ? 0 : std::stoul(length);
    while (buffer_.size() < size) {
      if (!fill()) return response;
    }
    response.body = buffer_.substr(0, size);
    buffer_.erase(0, size);
    response.complete = true;
    return response;
  }
  for (;;) {
    size_t line = 0;
    while ((line = buffer_.find("\r\n")) == std::string::npos) {
      if (!fill()) return response;
    }
    const size_t size = std::stoul(buffer_.substr(0, line), nullptr, 16);
    while (buffer_.size() < line + 2 + size + 2) {
      if (!fill()) return response;
    }
    response.body += buffer_.substr(line + 2, size);
    EXPECT_EQ(buffer_.substr(line + 2 + size, 2), "\r\n");
    buffer_.erase(0, line + 2 + size + 2);
    if (size > 0) continue;
    response.complete = true;
    return response;
  }
}

std::string get_text(const std::string& path, const std::string& headers) {
  return fmt::format("GET {} HTTP/1.1\r\nHost: localhost\r\n{}\r\n", path, headers);
}

std::string post_text(const std::string& path, const std::string& body,
                      const std::string& headers) {
  return fmt::format("POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n{}\r\n{}", path,
                     body.size(), headers, body);
}

HttpResponse HttpClient::get(const std::string& path, const std::string& headers) {
  EXPECT_TRUE(send(get_text(path, headers)));
  return read_response();
}

HttpResponse HttpClient::post(const std::string& path, const std::string& body,
                              const std::string& headers) {
  EXPECT_TRUE(send(post_text(path, body, headers)));
  return read_response();
}

}  // namespace neuronmm::serve
