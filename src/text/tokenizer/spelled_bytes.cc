#include "text/tokenizer/spelled_bytes.h"

#include <string>

#include "text/tokenizer/byte_level.h"

namespace neuronmm::text {

SpelledBytes::SpelledBytes(const Vocabulary& vocabulary)
    : bytes_(static_cast<size_t>(vocabulary.size())) {
  std::string bytes;
  for (size_t id = 0; id < bytes_.size(); ++id) {
    const std::string_view text = vocabulary.text(static_cast<int64_t>(id));
    if (text.data() == nullptr || !bytes_of_spelling(text, bytes)) continue;
    bytes_[id] = bytes == text ? text : texts_.store(bytes);
  }
}

}  // namespace neuronmm::text
