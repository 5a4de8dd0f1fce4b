#pragma once
// Counts the connections and the bytes that each client holds, and closes connections when there
// are too many. Bytes count once they have arrived (or wait to be sent), never because a client
// announces them. server_state.h owns the table. All functions belong to the thread of the sockets.
//
// A connection that waits for its client has a time limit. When room is needed, the connections
// that have used the largest part of their time are closed: those that are idle, stalled, or as
// slow as a client may be. A client that sends its requests and reads its answers keeps its
// connections, whatever the others do.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace neuronmm::serve {

using Clock = std::chrono::steady_clock;

class ConnectionTable;

// A connection as the server sees it.
class Connection {
 public:
  virtual ~Connection() = default;
  // Checks the connection's deadlines. The server calls this at every ServerLimits::tick.
  virtual void on_tick(Clock::time_point now) = 0;
  virtual void close_if_idle() = 0;
  virtual void close() = 0;
  // Returns the part of its time that the client has used, up to 1. Returns nothing if the
  // connection waits for the server and not for its client.
  virtual std::optional<double> used_time(Clock::time_point now) const = 0;

 private:
  friend class ConnectionTable;
  std::string client_;
  uint64_t bytes_ = 0;
};

// The largest amounts that all clients together and each of them may hold.
struct ConnectionLimits {
  int64_t connections, connections_of_client;
  uint64_t bytes, bytes_of_client;
  // A connection with so few bytes is never refused because of them.
  uint64_t brief_bytes;
};

// Functions that find no memory throw std::bad_alloc, and the counts stay right: a connection is
// counted whole or not at all. remove() never fails.
class ConnectionTable {
 public:
  explicit ConnectionTable(const ConnectionLimits& limits) : limits_(limits) {}

  // Makes room for one more connection of `client`. Returns false if there is none. An empty name
  // stands for a trusted proxy, whose connections belong to many clients.
  [[nodiscard]] bool make_room(const std::string& client);
  // Closes the connections that have used the largest part of their time, at most a few of them.
  // Returns whether there were any.
  bool close_slowest();

  void add(Connection& connection, const std::string& client);
  // Forgets a connection that is being closed. May be called again.
  void remove(Connection& connection);
  // Counts the connection for another client from now on.
  void set_client(Connection& connection, const std::string& client);
  // Sets the bytes that the connection holds, and makes room for them. Returns false if there is no
  // room. The bytes are counted nevertheless, so the caller must reduce them soon.
  bool set_bytes(Connection& connection, uint64_t bytes);

  std::vector<Connection*> connections() const { return {all_.begin(), all_.end()}; }
  int64_t size() const { return static_cast<int64_t>(all_.size()); }
  uint64_t bytes() const { return bytes_; }

 private:
  struct Held {
    int64_t connections = 0;
    uint64_t bytes = 0;
  };
  bool close_slowest_of(const std::string* client, bool with_bytes, const Connection* except);
  const std::string* client_with_most_bytes() const;
  void count(const Connection& connection, int sign);

  const ConnectionLimits limits_;
  std::unordered_set<Connection*> all_;
  std::unordered_map<std::string, Held> clients_;
  uint64_t bytes_ = 0;
};

}  // namespace neuronmm::serve
