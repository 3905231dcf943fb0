#include "common/base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdlib>
#include <memory>

namespace coeval::log {
namespace {

// One word needs no quotes; anything else is quoted so that a line can be split again.
void AppendValue(std::string* line, const std::string& value) {
  if (!value.empty() && value.find_first_of(" \t\r\n\"=") == std::string::npos) {
    *line += value;
    return;
  }
  *line += '"';
  for (const char c : value) {
    if (c == '"' || c == '\\') *line += '\\';
    if (c == '\n') {
      *line += "\\n";
    } else if (c == '\r') {
      *line += "\\r";
    } else {
      *line += c;
    }
  }
  *line += '"';
}

spdlog::level::level_enum ToSpdlog(Level level) {
  switch (level) {
    case Level::kDebug:
      return spdlog::level::debug;
    case Level::kInfo:
      return spdlog::level::info;
    case Level::kWarn:
      return spdlog::level::warn;
    case Level::kError:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

// sd-daemon(3) priorities.
int JournalPriority(Level level) {
  switch (level) {
    case Level::kDebug:
      return 7;
    case Level::kInfo:
      return 6;
    case Level::kWarn:
      return 4;
    case Level::kError:
      return 3;
  }
  return 6;
}

bool UnderJournald() { return std::getenv("JOURNAL_STREAM") != nullptr; }

}  // namespace

void Start(std::string_view program, Level least) {
  auto logger = std::make_shared<spdlog::logger>(std::string(program),
                                                 std::make_shared<spdlog::sinks::stderr_sink_mt>());
  // Under journald the time is journald's.
  logger->set_pattern(UnderJournald() ? "%v" : "%Y-%m-%dT%H:%M:%S.%e %n %l %v");
  logger->set_level(ToSpdlog(least));
  logger->flush_on(spdlog::level::debug);
  spdlog::set_default_logger(std::move(logger));
}

bool ParseLevel(std::string_view text, Level* level) {
  constexpr std::pair<std::string_view, Level> kLevels[] = {{"debug", Level::kDebug},
                                                            {"info", Level::kInfo},
                                                            {"warn", Level::kWarn},
                                                            {"error", Level::kError}};
  for (const auto& [name, value] : kLevels) {
    if (name == text) {
      *level = value;
      return true;
    }
  }
  return false;
}

void Write(Level level, std::string_view message, Fields fields) {
  spdlog::logger* logger = spdlog::default_logger_raw();
  if (!logger->should_log(ToSpdlog(level))) return;
  std::string line;
  if (UnderJournald()) line = "<" + std::to_string(JournalPriority(level)) + ">";
  line += message;
  for (const auto& [key, value] : fields) {
    line += ' ';
    line += key;
    line += '=';
    AppendValue(&line, value);
  }
  logger->log(ToSpdlog(level), spdlog::string_view_t(line.data(), line.size()));
}

}  // namespace coeval::log
