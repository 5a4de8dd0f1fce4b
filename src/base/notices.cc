#include "base/notices.h"

#include <mutex>
#include <set>
#include <utility>

namespace neuronmm {
namespace {

struct Notices {
  std::mutex mutex;
  NoticeHandler handler;
  std::set<std::string> passed;
};

Notices& notices() {
  static Notices all;
  return all;
}

}  // namespace

void set_notice_handler(NoticeHandler handler) {
  Notices& all = notices();
  const std::scoped_lock lock(all.mutex);
  all.handler = std::move(handler);
  all.passed.clear();
}

void notify(const std::string& sentence) {
  Notices& all = notices();
  const std::scoped_lock lock(all.mutex);
  if (all.handler && all.passed.insert(sentence).second) all.handler(sentence);
}

}  // namespace neuronmm
