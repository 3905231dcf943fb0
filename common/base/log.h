// One line per event: a journald priority prefix, a message, then key=value pairs.
//
//   log::Info("lease expired", {{"item", id}, {"worker", name}});
//
// `Error` needs a person, `Warn` is degraded, `Info` is a changed state, `Debug` says why.
// Thread-safe. What is logged is not also returned, and no credential is ever logged.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace coeval::log {

enum class Level { kDebug, kInfo, kWarn, kError };

using Field = std::pair<std::string_view, std::string>;
using Fields = std::initializer_list<Field>;

/// Sets up the process's log on standard error; to be called once by a main program. The
/// `<6>`-style priority prefix is written only when journald is the reader (JOURNAL_STREAM is set).
void Start(std::string_view program, Level least);
/// `debug`, `info`, `warn` or `error`; anything else gives false.
bool ParseLevel(std::string_view text, Level* level);

void Write(Level level, std::string_view message, Fields fields);
inline void Debug(std::string_view message, Fields fields = {}) {
  Write(Level::kDebug, message, fields);
}
inline void Info(std::string_view message, Fields fields = {}) {
  Write(Level::kInfo, message, fields);
}
inline void Warn(std::string_view message, Fields fields = {}) {
  Write(Level::kWarn, message, fields);
}
inline void Error(std::string_view message, Fields fields = {}) {
  Write(Level::kError, message, fields);
}

}  // namespace coeval::log
