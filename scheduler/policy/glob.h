// Shell-like patterns. Pure.
#pragma once

#include <string_view>

namespace coeval::scheduler {

/// `*` matches any text, `?` one character; linear in the length of the text for each `*`.
bool GlobMatches(std::string_view pattern, std::string_view text);

}  // namespace coeval::scheduler
