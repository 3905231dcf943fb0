#include "cli/table.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

namespace coeval::cli {

std::size_t DisplayWidth(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

Table::Table(std::vector<std::string> header) : header_(std::move(header)) {
  for (std::string& name : header_) {
    numbers_.push_back(name.starts_with('>'));
    if (numbers_.back()) name.erase(0, 1);
    widths_.push_back(DisplayWidth(name));
  }
}

void Table::Add(std::vector<std::string> row) {
  row.resize(header_.size());
  for (std::size_t i = 0; i < row.size(); ++i)
    widths_[i] = std::max(widths_[i], DisplayWidth(row[i]));
  rows_.push_back(std::move(row));
}

std::string Table::Block(const std::vector<std::size_t>& columns, bool with_header) const {
  std::string text;
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string out;
    for (const std::size_t i : columns) {
      if (!out.empty()) out += "  ";
      const std::string padding(widths_[i] - DisplayWidth(cells[i]), ' ');
      out += numbers_[i] ? padding + cells[i] : cells[i] + padding;
    }
    out.erase(out.find_last_not_of(' ') + 1);
    text += out + "\n";
  };
  if (with_header) line(header_);
  for (const auto& row : rows_) line(row);
  return text;
}

std::string Table::Print(bool with_header, std::size_t width, std::size_t repeat) const {
  std::vector<std::size_t> all(header_.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  const auto total = [&](const std::vector<std::size_t>& columns) {
    std::size_t sum = 0;
    for (const std::size_t i : columns) sum += widths_[i] + 2;
    return sum;
  };
  if (width == 0 || total(all) <= width + 2) return Block(all, with_header);
  const std::vector<std::size_t> first(
      all.begin(), all.begin() + static_cast<std::ptrdiff_t>(std::min(repeat, all.size())));
  std::string text;
  std::vector<std::size_t> columns = first;
  for (std::size_t i = first.size(); i < all.size(); ++i) {
    if (columns.size() > first.size() && total(columns) + widths_[i] > width) {
      text += Block(columns, with_header) + "\n";
      columns = first;
    }
    columns.push_back(i);
  }
  return text + Block(columns, with_header);
}

std::string ProgressBar(std::int64_t done, std::int64_t total, std::size_t width) {
  const double part =
      total > 0 ? std::clamp(static_cast<double>(done) / static_cast<double>(total), 0.0, 1.0)
                : 0.0;
  const auto filled = static_cast<std::size_t>(part * static_cast<double>(width));
  return "[" + std::string(filled, '#') + std::string(width - filled, '.') + "]";
}

std::string FormatScore(double value) {
  const double size = std::abs(value);
  const int digits = size >= 1000 ? 0 : size >= 10 ? 2 : size >= 1 ? 3 : 4;
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, "%.*f", digits, value);
  return buffer;
}

std::string CsvLine(const std::vector<std::string>& cells) {
  std::string line;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (i > 0) line += ',';
    if (cells[i].find_first_of(",\"\r\n") == std::string::npos) {
      line += cells[i];
      continue;
    }
    line += '"';
    for (const char c : cells[i]) line += c == '"' ? std::string("\"\"") : std::string(1, c);
    line += '"';
  }
  return line + "\r\n";
}

}  // namespace coeval::cli
