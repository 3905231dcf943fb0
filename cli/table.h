// Text for terminals: tables in Slurm's manner and progress bars. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace coeval::cli {

/// Columns as Slurm's commands print them: a header in capitals, numbers to the right.
class Table {
 public:
  /// A header that starts with `>` is a column of numbers.
  explicit Table(std::vector<std::string> header);
  void Add(std::vector<std::string> row);
  bool Empty() const { return rows_.empty(); }
  /// With `width` > 0, columns that do not fit go to further blocks, each with the first
  /// `repeat` columns in front.
  std::string Print(bool with_header, std::size_t width = 0, std::size_t repeat = 1) const;

 private:
  std::string Block(const std::vector<std::size_t>& columns, bool with_header) const;
  std::vector<std::string> header_;
  std::vector<bool> numbers_;
  std::vector<std::vector<std::string>> rows_;
  std::vector<std::size_t> widths_;
};

/// `[#####.....]`, `width` characters between the brackets.
std::string ProgressBar(std::int64_t done, std::int64_t total, std::size_t width);

/// A score with as many digits as tell something: `0.6120`, `12.35`, `1043`.
std::string FormatScore(double value);

/// Columns a terminal needs for UTF-8 text (every code point counted as one).
std::size_t DisplayWidth(std::string_view text);

/// One CSV line, quoted where needed (RFC 4180), with its line end.
std::string CsvLine(const std::vector<std::string>& cells);

}  // namespace coeval::cli
