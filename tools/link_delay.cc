// A cable that takes its time: what a host of network_hosts.sh sends reaches the switch a given
// time later, in order. For kernels without netem, which does the same.
//
//   link_delay HOST MICROSECONDS
//
// makes two TAP devices, eth0 in the network namespace HOST and the switch's port, called HOST,
// outside, says "ready" and carries packets from one to the other until it is killed; the devices
// go with it. Packets keep the segments of 64 KiB and the unfinished checksums that TCP gives to a
// card which segments by itself, so that a gigabit takes a few thousand packets. It runs with
// real-time priority: beside programs that use all cores a delay would else be a time slice of
// theirs.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <unistd.h>

namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kLongestPacket = (64 << 10) + 256;  // with its headers and that of virtio
constexpr size_t kMostWaiting = 4096;  // packets; what comes then is lost, as in a full switch

struct Packet {
  Clock::time_point due;
  std::vector<char> bytes;
};

void check(bool ok, const std::string& what) {
  if (ok) return;
  std::perror(("link_delay: " + what).c_str());
  std::exit(1);
}

int make_device(const std::string& name) {
  const int device = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  check(device >= 0, "/dev/net/tun");
  ifreq request = {};
  request.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR;
  check(name.size() < sizeof request.ifr_name, "a name of up to 15 letters");
  std::memcpy(request.ifr_name, name.data(), name.size());
  check(ioctl(device, TUNSETIFF, &request) == 0, name);
  check(ioctl(device, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6) == 0, name);
  return device;
}

void enter(const std::string& host) {
  const int space = open(("/run/netns/" + host).c_str(), O_RDONLY | O_CLOEXEC);
  check(space >= 0 && setns(space, CLONE_NEWNET) == 0, "network namespace " + host);
  close(space);
}

// A device that is down takes nothing, and what it does not take is lost.
void put(int device, const std::vector<char>& bytes) {
  [[maybe_unused]] const ssize_t written = write(device, bytes.data(), bytes.size());
}

class Cable {
 public:
  Cable(int host, int port, Clock::duration delay) : host_(host), port_(port), delay_(delay) {}

  void carry() {
    while (true) {
      wait();
      while (take(port_)) put(host_, packet_);
      while (take(host_)) {
        if (waiting_.size() < kMostWaiting) waiting_.push_back({Clock::now() + delay_, packet_});
      }
      for (; !waiting_.empty() && waiting_.front().due <= Clock::now(); waiting_.pop_front()) {
        put(port_, waiting_.front().bytes);
      }
    }
  }

 private:
  void wait() {
    pollfd devices[] = {{host_, POLLIN, 0}, {port_, POLLIN, 0}};
    const auto left = waiting_.empty() ? Clock::duration() : waiting_.front().due - Clock::now();
    const auto ns = std::max<int64_t>(0, std::chrono::nanoseconds(left).count());
    const timespec until = {ns / 1'000'000'000, ns % 1'000'000'000};
    ppoll(devices, 2, waiting_.empty() ? nullptr : &until, nullptr);
  }

  bool take(int device) {
    packet_.resize(kLongestPacket);
    const ssize_t size = read(device, packet_.data(), packet_.size());
    packet_.resize(static_cast<size_t>(std::max<ssize_t>(size, 0)));
    return size > 0;
  }

  int host_, port_;
  Clock::duration delay_;
  std::vector<char> packet_;
  std::deque<Packet> waiting_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("usage: link_delay HOST MICROSECONDS\n", stderr);
    return 2;
  }
  const std::string host = argv[1];
  const int port = make_device(host);
  enter(host);
  const int card = make_device("eth0");
  const sched_param priority = {.sched_priority = 1};
  check(sched_setscheduler(0, SCHED_FIFO, &priority) == 0, "real-time priority");
  prctl(PR_SET_TIMERSLACK, 1UL);
  std::puts("ready");
  std::fflush(stdout);
  Cable(card, port, std::chrono::microseconds(std::atoll(argv[2]))).carry();
}
