#include <algorithm>
#include <iostream>
#include <map>
#include <set>

#include "cli/commands.h"
#include "cli/table.h"
#include "common/http/client.h"

namespace coeval::cli {
namespace {

// Checkpoints in the order of their steps; datasets as columns, by suite.
struct Matrix {
  struct RowKey {
    double step;
    std::string path;
    auto operator<=>(const RowKey&) const = default;
  };
  std::map<RowKey, std::map<std::string, Json>> rows;
  std::map<std::string, std::string> columns;  // Column -> primary metric.
};

Matrix MatrixOf(const Json& results) {
  std::set<std::string> suites;
  for (const Json& one : results) suites.insert(TextOr(one, "suite"));
  Matrix matrix;
  for (const Json& one : results) {
    const std::string column =
        (suites.size() > 1 ? TextOr(one, "suite") + "/" : "") + TextOr(one, "dataset");
    matrix.columns[column] = TextOr(one, "primary");
    matrix.rows[{NumberOr(one, "step", -1), TextOr(one, "checkpoint")}][column] = one;
  }
  return matrix;
}

std::string MatrixText(const Matrix& matrix, bool noheader) {
  std::vector<std::string> header = {">STEP"};
  for (const auto& [column, primary] : matrix.columns) header.push_back(">" + column);
  Table table(header);
  std::vector<std::string> primaries = {""};
  for (const auto& [column, primary] : matrix.columns) primaries.push_back("(" + primary + ")");
  if (!noheader) table.Add(primaries);
  for (const auto& [key, cells] : matrix.rows) {
    std::vector<std::string> row = {StepText(cells.begin()->second)};
    for (const auto& [column, primary] : matrix.columns) {
      const auto cell = cells.find(column);
      row.push_back(cell == cells.end() ? "-" : FormatScore(NumberOr(cell->second, "value")));
    }
    table.Add(row);
  }
  return table.Print(!noheader, TerminalWidth());
}

std::string FailuresText(const Json& failures) {
  std::string text;
  for (const Json& one : failures) {
    text += "failed: step " + StepText(one) + " " + TextOr(one, "suite") + "/" +
            TextOr(one, "dataset") + ", " + TextOr(one, "stage") + " after " +
            std::to_string(static_cast<int>(NumberOr(one, "attempts"))) +
            " attempts: " + TextOr(one, "error") + "\n";
    std::string tail = TextOr(one, "log_tail");
    while (!tail.empty() && tail.back() == '\n') tail.pop_back();
    if (!tail.empty()) text += "  last log line: " + tail.substr(tail.rfind('\n') + 1) + "\n";
    if (const std::string predictions = TextOr(one, "predictions"); !predictions.empty()) {
      text += "  its predictions are in " + predictions + "\n";
    }
  }
  return text;
}

void PrintCsv(const Json& results) {
  std::cout << CsvLine({"step", "checkpoint", "suite", "dataset", "version", "metric", "value",
                        "items", "feedback_delay_s", "settings"});
  for (const Json& one : results) {
    std::cout << CsvLine({StepText(one), TextOr(one, "checkpoint"), TextOr(one, "suite"),
                          TextOr(one, "dataset"), TextOr(one, "version"), TextOr(one, "primary"),
                          one.at("value").dump(), one.at("items").dump(),
                          one.at("feedback_delay_s").dump(), TextOr(one, "settings")});
  }
}

}  // namespace

int Results(const Common& common, const ResultsOptions& options) {
  std::string path = "/v1/results?run=" + http::UrlEncode(options.only);
  if (!options.suite.empty()) path += "&suite=" + http::UrlEncode(options.suite);
  const auto answer = AskEvaluator(common, "GET", path);
  if (!answer) return Complain(answer.error());
  if (common.json) return PrintJson(*answer);
  const Json results = answer->value("results", Json::array()),
             failures = answer->value("failures", Json::array());
  if (options.csv) {
    PrintCsv(results);
    return kOk;
  }
  if (results.empty() && failures.empty()) {
    return Complain({ErrorCode::kNotFound,
                     "no results" + (options.only.empty() ? "" : " of '" + options.only + "'") +
                         " yet; 'coeval status' shows what is under way"});
  }
  if (!results.empty()) std::cout << MatrixText(MatrixOf(results), common.noheader);
  std::cout << FailuresText(failures);
  return kOk;
}

}  // namespace coeval::cli
