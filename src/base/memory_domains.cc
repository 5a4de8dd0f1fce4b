#include "base/memory_domains.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdint>
#include <exception>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cpu_quota.h"

namespace neuronmm {

constinit thread_local int internal::thread_domain = 0;

namespace {

namespace fs = std::filesystem;

// How the team's threads are bound. bind_threads() writes it while no loop runs.
struct Binding {
  std::vector<MemoryDomain> domains;
  std::vector<ThreadPlace> places;
  std::vector<int> all_cores;  // those of the process before any thread was bound
};
Binding& binding() {
  static Binding bound;
  return bound;
}
// Grows with every call of bind_threads().
std::atomic<int> bindings = 0;
constinit thread_local int followed = 0;  // the value of `bindings` that this thread has seen

// Reads a whole number at the beginning of `text` and removes it. Returns -1 if there is none.
int take_number(std::string_view& text) {
  int number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return -1;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return number;
}

// Returns the cores of a list such as "0-3,8", as far as it makes sense and they are in `allowed`,
// which is sorted.
std::vector<int> parse_cores(std::string_view list, const std::vector<int>& allowed) {
  std::vector<int> cores;
  while (!list.empty()) {
    const int first = take_number(list);
    int last = first;
    if (list.starts_with('-')) {
      list.remove_prefix(1);
      last = take_number(list);
    }
    if (first < 0 || last < first) break;
    std::copy(std::ranges::lower_bound(allowed, first), std::ranges::upper_bound(allowed, last),
              std::back_inserter(cores));
    if (!list.starts_with(',')) break;
    list.remove_prefix(1);
  }
  std::ranges::sort(cores);
  cores.erase(std::unique(cores.begin(), cores.end()), cores.end());
  return cores;
}

void bind_this_thread(const std::vector<int>& cores) {
  if (cores.empty()) return;
  const int count = std::ranges::max(cores) + 1;
  const CoreMask mask(count);
  for (const int core : cores) CPU_SET_S(static_cast<size_t>(core), mask.bytes(), mask.get());
  sched_setaffinity(0, mask.bytes(), mask.get());
}

}  // namespace

std::vector<MemoryDomain> memory_domains(const fs::path& folder) {
  const std::vector<int> allowed = allowed_core_list();
  std::vector<MemoryDomain> domains;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    std::string_view number = name;
    if (!number.starts_with("node")) continue;
    number.remove_prefix(4);
    const int node = take_number(number);
    if (node < 0 || !number.empty()) continue;
    std::string list;
    std::getline(std::ifstream(entry->path() / "cpulist"), list);
    if (auto cores = parse_cores(list, allowed); !cores.empty()) {
      domains.push_back({node, std::move(cores)});
    }
  }
  std::ranges::sort(domains, {}, &MemoryDomain::node);
  if (domains.empty()) domains.push_back({0, allowed});
  return domains;
}

// If there are fewer threads than cores, each domain leaves as large a part of its cores idle.
std::vector<ThreadPlace> thread_places(std::span<const MemoryDomain> domains, int threads) {
  std::vector<ThreadPlace> cores;
  for (size_t i = 0; i < domains.size(); ++i) {
    for (const int core : domains[i].cores) cores.push_back({static_cast<int>(i), core});
  }
  std::vector<ThreadPlace> places;
  const auto count = std::ssize(cores);
  for (int64_t i = 0; i < threads && count > 0; ++i) {
    const int64_t at = threads <= count ? i * count / threads : i * count / threads % count;
    places.push_back(cores[static_cast<size_t>(at)]);
  }
  return places;
}

void bind_threads(std::vector<MemoryDomain> domains, int threads) {
  Binding& bound = binding();
  if (bound.all_cores.empty()) bound.all_cores = allowed_core_list();
  bound.places = thread_places(domains, threads);
  bound.domains = std::move(domains);
  bindings.fetch_add(1, std::memory_order_release);
}

const std::vector<MemoryDomain>& bound_domains() { return binding().domains; }

void internal::follow_binding(int thread) {
  const int now = bindings.load(std::memory_order_acquire);
  if (followed == now) return;
  followed = now;
  const Binding& bound = binding();
  if (bound.places.empty()) {
    thread_domain = 0;
    return bind_this_thread(bound.all_cores);
  }
  const ThreadPlace place = bound.places[static_cast<size_t>(thread) % bound.places.size()];
  thread_domain = place.domain;
  if (thread == 0) return bind_this_thread(bound.domains.front().cores);
  bind_this_thread({place.core});
}

void run_in_domain(int domain, const std::function<void()>& task) {
  std::exception_ptr thrown;
  std::thread([&] {
    try {
      bind_this_thread(bound_domains()[static_cast<size_t>(domain)].cores);
      task();
    } catch (...) {
      thrown = std::current_exception();
    }
  }).join();
  if (thrown) std::rethrow_exception(thrown);
}

bool prefer_node(void* memory, size_t bytes, int node) {
  constexpr size_t kWordBits = 8 * sizeof(unsigned long), kMostNodes = 1024;
  if (node < 0 || static_cast<size_t>(node) >= kMostNodes) return false;
  unsigned long nodes[kMostNodes / kWordBits] = {};
  nodes[static_cast<size_t>(node) / kWordBits] = 1ul << static_cast<size_t>(node) % kWordBits;
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto from = (reinterpret_cast<uintptr_t>(memory) + page - 1) / page * page;
  const auto end = (reinterpret_cast<uintptr_t>(memory) + bytes) / page * page;
  if (from >= end) return true;
  // The kernel reads one bit less than it is told.
  return syscall(SYS_mbind, from, end - from, MPOL_PREFERRED, nodes, kMostNodes + 1,
                 MPOL_MF_MOVE) == 0;
}

}  // namespace neuronmm
