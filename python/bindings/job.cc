#include "job.h"

#include <cstdio>
#include <cstdlib>
#include <new>
#include <system_error>
#include <thread>

#include <unistd.h>

#include "base/interrupt.h"
#include "base/parallel.h"

namespace neuronmm::python {
namespace {

// The time between Ctrl-C and giving up: first for work that checks interrupted(), then for its
// parallel loops. Together both stay below half a second, which a person waits.
constexpr auto kTimeToEnd = std::chrono::milliseconds(200);
constexpr auto kTimeToStop = std::chrono::milliseconds(150);

std::atomic<int> jobs{0};  // the number of jobs that are not over

// Ends the process at once if work is still running, without waiting for it or destroying what it
// uses. A killed run leaves nothing half-written.
void end_process(int status, void*) {
  if (jobs.load() == 0) return;
  std::fflush(nullptr);
  _exit(status);
}

// The state that all jobs share. It is never destroyed, because work may outlive the interpreter.
struct Jobs {
  Jobs() { on_exit(end_process, nullptr); }
  const int threads = num_threads();
  std::mutex turn;   // held by the job that runs
  std::mutex mutex;  // guards `running`, each job's wanted_, and the flag of interrupted()
  Job* running = nullptr;
};
Jobs& all_jobs() {
  static Jobs* const instance = new Jobs;
  return *instance;
}

// Lets std::bad_alloc pass, which becomes MemoryError. Errors of the system become a Failure.
void rethrow(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const std::system_error& error) {
    throw Failure(fail("{}", error.what()));
  }
}

}  // namespace

std::shared_ptr<Job> Job::start(int threads, std::function<void(Job&)> work) {
  const auto job = std::make_shared<Job>();
  job->threads_ = threads > 0 ? threads : all_jobs().threads;
  job->work_ = std::move(work);
  ++jobs;
  try {
    std::thread([job] { job->run(); }).detach();
  } catch (const std::system_error& error) {
    --jobs;
    throw Failure(fail("a thread cannot be started: {}", error.code().message()));
  }
  return job;
}

void Job::wait() {
  wait_until([] { return false; });
  if (thrown_) rethrow(thrown_);
}

void Job::interrupt() {
  const std::lock_guard lock(all_jobs().mutex);
  wanted_ = false;
  if (all_jobs().running == this) set_interrupted(true);
}

void Job::give_up() {
  const auto never = [] { return false; };
  interrupt();
  if (wait_for(kTimeToEnd, never)) return;
  stop_loops_ = true;
  wait_for(kTimeToStop, never);
}

void Job::run() {
  {
    const std::lock_guard turn(all_jobs().turn);
    if (begin()) {
      set_num_threads(threads_);
      const StoppableLoops stoppable(stop_loops_);
      try {
        work_(*this);
      } catch (...) {
        thrown_ = std::current_exception();
      }
      end();
    }
    work_ = nullptr;  // frees what the work owns
  }
  update([this] { done_ = true; });
  --jobs;
}

bool Job::begin() {
  const std::lock_guard lock(all_jobs().mutex);
  if (wanted_) all_jobs().running = this;
  return wanted_;
}

void Job::end() {
  const std::lock_guard lock(all_jobs().mutex);
  all_jobs().running = nullptr;
  set_interrupted(false);
}

}  // namespace neuronmm::python
