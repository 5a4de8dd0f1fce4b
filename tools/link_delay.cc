// Delays packets on kernels without netem: a TAP device returns each packet that is sent into it
// after a fixed time and in the same order. tools/network_hosts.sh starts it.
//
//   link_delay DEVICE MICROSECONDS    makes the device, returns when the device exists, and works
//                                     until somebody deletes the device
//
// Packets arrive as the sender's network card would get them: up to 64 KiB of TCP with a header
// that says how to segment it. The cost is therefore per message and not per 1500 bytes.
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <string>

#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <unistd.h>

namespace {

using Clock = std::chrono::steady_clock;

// A packet and the time when it must be returned.
struct Packet {
  Clock::time_point due;
  std::string bytes;
};

// The length of the longest packet: an IP packet with the headers of Ethernet (including two VLAN
// tags) and of virtio before it.
constexpr int kLongest = (64 << 10) + 22 + 12;

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

int make_device(const char* name) {
  const int device = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (device < 0) fail("link_delay: /dev/net/tun");
  ifreq request{};
  std::strncpy(request.ifr_name, name, IFNAMSIZ - 1);
  request.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR;
  if (ioctl(device, TUNSETIFF, &request) < 0) fail(name);
  if (ioctl(device, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6) < 0) fail(name);
  return device;
}

// Makes wake-ups punctual, because a cable does not wait for a free core. Linux otherwise prolongs
// a sleep by up to 50 us.
void be_punctual() {
  const sched_param priority{.sched_priority = 1};
  if (sched_setscheduler(0, SCHED_FIFO, &priority) < 0) fail("link_delay: SCHED_FIFO");
  if (prctl(PR_SET_TIMERSLACK, 1UL) < 0) fail("link_delay: timer slack");
}

// The packets that are on their way through the device.
class Line {
 public:
  Line(int device, std::chrono::nanoseconds delay) : device_(device), delay_(delay) {}

  void carry() {
    while (take_packet()) {
      give_back_what_is_due();
      wait();
    }
  }

 private:
  // Reads a packet and returns false when the device is gone. Reading is as late after sending as
  // other wake-ups are, so that the lateness is subtracted from the delay.
  bool take_packet() {
    static std::array<char, kLongest> buffer;
    const ssize_t size = read(device_, buffer.data(), buffer.size());
    if (size < 0) return errno == EAGAIN || errno == EINTR;
    packets_.push_back({Clock::now() + delay_ - lateness_, {buffer.data(), size_t(size)}});
    return true;
  }

  // Returns all packets that are due. A packet that the device does not accept is lost.
  void give_back_what_is_due() {
    while (!packets_.empty() && packets_.front().due <= Clock::now()) {
      const std::string& bytes = packets_.front().bytes;
      [[maybe_unused]] const ssize_t taken = write(device_, bytes.data(), bytes.size());
      packets_.pop_front();
    }
  }

  // Sleeps until a packet arrives or until shortly before the next one is due. The expected
  // lateness of the wake-up is subtracted, and the rest of the time is spent polling.
  void wait() {
    pollfd waited{.fd = device_, .events = POLLIN, .revents = 0};
    if (packets_.empty()) {
      poll(&waited, 1, -1);
      return;
    }
    const Clock::time_point end = packets_.front().due - lateness_;
    const std::chrono::nanoseconds left = end - Clock::now();
    if (left.count() <= 0) return;
    const timespec timeout{.tv_sec = left.count() / 1'000'000'000,
                           .tv_nsec = left.count() % 1'000'000'000};
    if (ppoll(&waited, 1, &timeout, nullptr) == 0)
      lateness_ += (Clock::now() - end - lateness_) / 16;
  }

  int device_;
  std::chrono::nanoseconds delay_;
  std::chrono::nanoseconds lateness_{0};  // the average lateness of the last wake-ups
  std::deque<Packet> packets_;
};

}  // namespace

int main(int count, char** words) {
  if (count != 3) {
    std::fputs("usage: link_delay DEVICE MICROSECONDS\n", stderr);
    return 2;
  }
  const int device = make_device(words[1]);
  be_punctual();
  if (daemon(0, 0) < 0) fail("link_delay: daemon");
  Line(device, std::chrono::microseconds(std::atoi(words[2]))).carry();
}
