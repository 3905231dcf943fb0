#include "common/base/content_hash.h"

#include <xxhash.h>

namespace coeval {

struct ContentHash::State {
  XXH3_state_t* xxh = XXH3_createState();
  ~State() { XXH3_freeState(xxh); }
};

ContentHash::ContentHash() : state_(std::make_unique<State>()) { XXH3_128bits_reset(state_->xxh); }
ContentHash::~ContentHash() = default;

void ContentHash::Add(std::string_view bytes) {
  XXH3_128bits_update(state_->xxh, bytes.data(), bytes.size());
}

void ContentHash::AddText(std::string_view text) {
  Add(std::to_string(text.size()) + ":");
  Add(text);
}

std::string ContentHash::Hex() const {
  XXH128_canonical_t bytes;
  XXH128_canonicalFromHash(&bytes, XXH3_128bits_digest(state_->xxh));
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : bytes.digest) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

}  // namespace coeval
