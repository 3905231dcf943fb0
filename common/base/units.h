// Quantities with their unit in the type, and the forms in which Slurm's users write them.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace coeval {

using Seconds = std::chrono::seconds;
using Milliseconds = std::chrono::milliseconds;
/// A point of wall-clock time; milliseconds since the epoch.
using TimePoint = std::chrono::sys_time<Milliseconds>;

/// Seconds since the epoch, for JSON and SQLite.
double ToEpochSeconds(TimePoint time);
TimePoint FromEpochSeconds(double seconds);
/// `2026-12-01T15:20:00`, local time, as Slurm prints times.
std::string FormatTime(TimePoint time);
/// `1-02:03:04` or `02:03:04`, as Slurm prints durations.
std::string FormatSlurmDuration(Seconds duration);
/// `45s`, `3m20s`, `2h05m`, for people.
std::string FormatShortDuration(Milliseconds duration);

/// A number of bytes.
struct Bytes {
  std::uint64_t value = 0;
  friend auto operator<=>(const Bytes&, const Bytes&) = default;
};
constexpr Bytes Mebibytes(std::uint64_t count) { return Bytes{count << 20}; }
/// Whole mebibytes, rounded up: Slurm counts memory in them.
constexpr std::uint64_t ToMebibytes(Bytes bytes) { return (bytes.value + (1u << 20) - 1) >> 20; }
/// `200G`, `1.5G`, `12M`: binary multiples as Slurm prints them.
std::string FormatBytes(Bytes bytes);

/// Slurm's time forms (sbatch(1), --time): `MM`, `MM:SS`, `HH:MM:SS`, `D-HH`, `D-HH:MM`,
/// `D-HH:MM:SS`; `UNLIMITED`, `INFINITE` and 0 are "no limit" and give nullopt.
/// Anything else is kInvalidArgument with the text echoed.
Result<std::optional<Seconds>> ParseSlurmTime(std::string_view text);

/// Slurm's size forms (sbatch(1), --mem): a number and an optional K, M, G or T (also KB, MB,
/// GiB…); without a suffix the number is in mebibytes.
Result<Bytes> ParseSlurmSize(std::string_view text);

/// Where wall-clock time comes from, so that nothing but a main program reads the real clock.
/// Implementations are thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint Now() const = 0;
};

class SystemClock final : public Clock {
 public:
  TimePoint Now() const override;
};

/// A clock that stands still until it is told to move.
class ManualClock final : public Clock {
 public:
  explicit ManualClock(TimePoint start = TimePoint{}) : now_(start) {}
  TimePoint Now() const override { return now_; }
  void Advance(Milliseconds by) { now_ += by; }
  void Set(TimePoint now) { now_ = now; }

 private:
  TimePoint now_;
};

}  // namespace coeval
