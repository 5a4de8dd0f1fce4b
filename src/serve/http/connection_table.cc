#include "serve/http/connection_table.h"

#include <algorithm>
#include <utility>

namespace neuronmm::serve {
namespace {

// The number of connections of which one is closed at once. A flood of new connections thus does
// not search the table for each of them. Assumed.
constexpr size_t kClosedShare = 64;

}  // namespace

bool ConnectionTable::make_room(const std::string& client) {
  const auto found = clients_.find(client);
  const int64_t own = found == clients_.end() ? 0 : found->second.connections;
  const bool full = !client.empty() && own >= limits_.connections_of_client;
  if (full && !close_slowest_of(&client, false, nullptr)) return false;
  return size() < limits_.connections || close_slowest();
}

bool ConnectionTable::close_slowest() { return close_slowest_of(nullptr, false, nullptr); }

void ConnectionTable::add(Connection& connection, const std::string& client) {
  connection.client_ = client;
  all_.insert(&connection);
  try {
    count(connection, 1);
  } catch (...) {
    all_.erase(&connection);
    throw;
  }
}

void ConnectionTable::remove(Connection& connection) {
  if (all_.erase(&connection) > 0) count(connection, -1);
}

void ConnectionTable::set_client(Connection& connection, const std::string& client) {
  if (connection.client_ == client || !all_.contains(&connection)) return;
  std::string name = client;
  clients_[name];  // what may fail comes first
  count(connection, -1);
  connection.client_ = std::move(name);
  count(connection, 1);
}

bool ConnectionTable::set_bytes(Connection& connection, uint64_t bytes) {
  if (!all_.contains(&connection)) return true;  // it is being closed
  const bool grows = bytes > connection.bytes_;
  Held& held = clients_[connection.client_];
  held.bytes += bytes - connection.bytes_;
  bytes_ += bytes - connection.bytes_;
  connection.bytes_ = bytes;
  if (!grows || bytes <= limits_.brief_bytes) return true;
  const std::string client = connection.client_;
  while (clients_[client].bytes > limits_.bytes_of_client) {
    if (!close_slowest_of(&client, true, &connection)) return false;
  }
  while (bytes_ > limits_.bytes) {
    if (!close_slowest_of(client_with_most_bytes(), true, &connection)) return false;
  }
  return true;
}

// Closes connections of `client`, or of any client if it is null. `with_bytes` chooses only those
// that hold bytes.
bool ConnectionTable::close_slowest_of(const std::string* client, bool with_bytes,
                                       const Connection* except) {
  std::vector<std::pair<double, Connection*>> waiting;
  const auto now = Clock::now();
  for (Connection* const connection : all_) {
    if (connection == except || (client != nullptr && connection->client_ != *client)) continue;
    if (with_bytes && connection->bytes_ == 0) continue;
    if (const auto used = connection->used_time(now)) waiting.emplace_back(*used, connection);
  }
  if (waiting.empty()) return false;
  const size_t closed = with_bytes ? 1 : std::max<size_t>(1, waiting.size() / kClosedShare);
  std::ranges::partial_sort(waiting, waiting.begin() + static_cast<std::ptrdiff_t>(closed),
                            std::greater<>());
  for (size_t i = 0; i < closed; ++i) {
    remove(*waiting[i].second);
    waiting[i].second->close();
  }
  return true;
}

const std::string* ConnectionTable::client_with_most_bytes() const {
  const auto most =
      std::ranges::max_element(clients_, {}, [](const auto& entry) { return entry.second.bytes; });
  return most == clients_.end() ? nullptr : &most->first;
}

void ConnectionTable::count(const Connection& connection, int sign) {
  Held& held = clients_[connection.client_];
  held.connections += sign;
  const uint64_t bytes = connection.bytes_;
  held.bytes = sign > 0 ? held.bytes + bytes : held.bytes - bytes;
  bytes_ = sign > 0 ? bytes_ + bytes : bytes_ - bytes;
  if (held.connections == 0) clients_.erase(connection.client_);
}

}  // namespace neuronmm::serve
