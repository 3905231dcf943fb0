// A 128-bit XXH3 hash of bytes that come in pieces. Not cryptographic: it tells contents apart, not
// friends from forgers. Pure.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace coeval {

class ContentHash {
 public:
  ContentHash();
  ~ContentHash();
  ContentHash(const ContentHash&) = delete;
  ContentHash& operator=(const ContentHash&) = delete;

  void Add(std::string_view bytes);
  /// With its length in front, so that no two different lists of texts hash alike.
  void AddText(std::string_view text);
  /// 32 hexadecimal digits, of what was added so far.
  std::string Hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace coeval
