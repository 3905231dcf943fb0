#include <ctime>

#include "common/base/units.h"

namespace coeval {

TimePoint SystemClock::Now() const {
  return std::chrono::time_point_cast<Milliseconds>(std::chrono::system_clock::now());
}

std::string FormatTime(TimePoint time) {
  const std::time_t seconds = std::chrono::floor<Seconds>(time).time_since_epoch().count();
  std::tm local{};
  localtime_r(&seconds, &local);
  char buffer[32];
  const std::size_t length = std::strftime(buffer, sizeof buffer, "%Y-%m-%dT%H:%M:%S", &local);
  return std::string(buffer, length);
}

}  // namespace coeval
