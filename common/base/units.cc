#include "common/base/units.h"

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>
#include <vector>

namespace coeval {
namespace {

// Longer than any Slurm limit (a 32-bit count of minutes), short enough never to overflow.
constexpr std::int64_t kMaxSeconds = std::int64_t{0xfffffffe} * 60;

std::string Lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

std::optional<std::int64_t> ParseNumber(std::string_view text) {
  if (text.empty() || text.size() > 10) return std::nullopt;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

// Splits at every colon; nullopt unless each part is a number.
std::optional<std::vector<std::int64_t>> ParseColonNumbers(std::string_view text) {
  std::vector<std::int64_t> numbers;
  while (true) {
    const auto colon = text.find(':');
    const auto number = ParseNumber(text.substr(0, colon));
    if (!number || numbers.size() == 3) return std::nullopt;
    numbers.push_back(*number);
    if (colon == std::string_view::npos) return numbers;
    text.remove_prefix(colon + 1);
  }
}

// Seconds of the forms without days: minutes, minutes:seconds, hours:minutes:seconds.
std::optional<std::int64_t> SecondsWithoutDays(const std::vector<std::int64_t>& parts) {
  switch (parts.size()) {
    case 1:
      return parts[0] * 60;
    case 2:
      return parts[0] * 60 + parts[1];
    case 3:
      return parts[0] * 3600 + parts[1] * 60 + parts[2];
    default:
      return std::nullopt;
  }
}

// After `D-` the first number counts hours: D-HH, D-HH:MM, D-HH:MM:SS.
std::int64_t SecondsAfterDays(const std::vector<std::int64_t>& parts) {
  constexpr std::array<std::int64_t, 3> kUnit = {3600, 60, 1};
  std::int64_t seconds = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) seconds += parts[i] * kUnit[i];
  return seconds;
}

std::string Print(const char* format, auto... values) {
  char buffer[64];
  const int length = std::snprintf(buffer, sizeof buffer, format, values...);
  return std::string(buffer, static_cast<std::size_t>(length));
}

}  // namespace

double ToEpochSeconds(TimePoint time) {
  return static_cast<double>(time.time_since_epoch().count()) / 1000.0;
}

TimePoint FromEpochSeconds(double seconds) {
  return TimePoint{Milliseconds{static_cast<std::int64_t>(std::llround(seconds * 1000.0))}};
}

std::string FormatSlurmDuration(Seconds duration) {
  const long long total = duration.count();
  const long long days = total / 86400, rest = total % 86400;
  const std::string clock = Print("%02lld:%02lld:%02lld", rest / 3600, rest / 60 % 60, rest % 60);
  return days > 0 ? Print("%lld-", days) + clock : clock;
}

std::string FormatShortDuration(Milliseconds duration) {
  const double seconds = static_cast<double>(duration.count()) / 1000.0;
  const long long whole = std::llround(seconds);
  if (seconds < 9.95) return Print("%.1fs", seconds);
  if (whole < 60) return Print("%llds", whole);
  if (whole < 3600) return Print("%lldm%02llds", whole / 60, whole % 60);
  if (whole < 86400) return Print("%lldh%02lldm", whole / 3600, whole / 60 % 60);
  return Print("%lldd%02lldh", whole / 86400, whole / 3600 % 24);
}

std::string FormatBytes(Bytes bytes) {
  constexpr std::array<char, 5> kSuffix = {'B', 'K', 'M', 'G', 'T'};
  double value = static_cast<double>(bytes.value);
  std::size_t unit = 0;
  while (value >= 1024.0 && unit + 1 < kSuffix.size()) {
    value /= 1024.0;
    ++unit;
  }
  const bool whole = std::abs(value - std::round(value)) < 0.05;
  return Print(whole ? "%.0f%c" : "%.1f%c", value, kSuffix[unit]);
}

Result<std::optional<Seconds>> ParseSlurmTime(std::string_view text) {
  const auto wrong = [&] {
    return Fail(ErrorCode::kInvalidArgument, "'" + std::string(text) +
                                                 "' is no Slurm time; write MM, MM:SS, HH:MM:SS, "
                                                 "D-HH, D-HH:MM, D-HH:MM:SS or UNLIMITED");
  };
  const std::string lower = Lower(text);
  if (lower == "unlimited" || lower == "infinite" || lower == "0") return std::optional<Seconds>{};

  std::optional<std::int64_t> seconds;
  if (const auto dash = text.find('-'); dash != std::string_view::npos) {
    const auto days = ParseNumber(text.substr(0, dash));
    const auto parts = ParseColonNumbers(text.substr(dash + 1));
    if (days && parts) seconds = *days * 86400 + SecondsAfterDays(*parts);
  } else if (const auto parts = ParseColonNumbers(text)) {
    seconds = SecondsWithoutDays(*parts);
  }
  if (!seconds || *seconds > kMaxSeconds) return wrong();
  if (*seconds == 0) return std::optional<Seconds>{};
  return std::optional<Seconds>{Seconds{*seconds}};
}

Result<Bytes> ParseSlurmSize(std::string_view text) {
  const auto wrong = [&] {
    return Fail(
        ErrorCode::kInvalidArgument,
        "'" + std::string(text) + "' is no size; write a number and K, M, G or T, such as 200G");
  };
  double number = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (error != std::errc{} || !std::isfinite(number) || number < 0) return wrong();
  std::string suffix = Lower(text.substr(static_cast<std::size_t>(end - text.data())));
  if (suffix.size() == 2 && suffix[1] == 'b') suffix.pop_back();
  if (suffix.size() == 3 && suffix.substr(1) == "ib") suffix.resize(1);
  if (suffix.size() > 1) return wrong();
  const std::string_view units = "kmgt";
  const auto unit = suffix.empty() ? 1 : units.find(suffix[0]);
  if (unit == std::string_view::npos) return wrong();
  const double bytes = std::round(std::ldexp(number, 10 * static_cast<int>(unit + 1)));
  if (bytes >= 9.0e18) return wrong();
  return Bytes{static_cast<std::uint64_t>(bytes)};
}

}  // namespace coeval
