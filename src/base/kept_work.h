#pragma once
// Says where an interrupted command has kept its finished work. A command that keeps work creates a
// KeptWork as soon as it writes there. Every message about an interrupt then ends with the place
// and with what to type, whether the command has noticed the signal itself or the signal handler
// ends the process (interrupt.h).

#include <string>
#include <string_view>

namespace neuronmm {

// While an object of this class exists, finished work is kept in the file or folder `where`.
// Objects may be nested; the innermost one counts. One thread at a time may make or destroy them.
class KeptWork {
 public:
  // `how` completes the sentence: it says how to go on.
  explicit KeptWork(const std::string& where,
                    const std::string& how = "run the same command again to go on");
  ~KeptWork();
  KeptWork(const KeptWork&) = delete;
  KeptWork& operator=(const KeptWork&) = delete;

 private:
  std::string before_;
};

// Returns a text such as "what is finished is kept in OUT.partial; run the same command again to go
// on", or an empty one if nothing is kept. Signal handlers may call it.
std::string_view kept_work_text();

}  // namespace neuronmm
