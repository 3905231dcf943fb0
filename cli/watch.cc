#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <map>
#include <thread>

#include "cli/commands.h"
#include "cli/table.h"

namespace coeval::cli {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr std::size_t kBarWidth = 20;

// One line a checkpoint and suite, keyed by what it is about.
std::map<std::string, std::string> Lines(const Json& status, const std::string& only) {
  std::map<std::string, std::string> lines;
  for (const char* kind : {"runs", "campaigns"}) {
    for (const Json& owner : status.value(kind, Json::array())) {
      const std::string name = TextOr(owner, kind == std::string("runs") ? "run" : "campaign");
      if (!only.empty() && name != only) continue;
      for (const Json& checkpoint : owner.value("checkpoints", Json::array())) {
        std::string step = StepText(checkpoint);
        const std::string order(12 - std::min<std::size_t>(step.size(), 12), ' ');
        if (checkpoint.value("suites", Json::array()).empty()) {
          lines[name + order + step] = name + " step " + step + "  waits for " +
                                       TextOr(checkpoint, "waiting_for", "its turn");
        }
        for (const Json& suite : checkpoint.value("suites", Json::array())) {
          const auto done = static_cast<std::int64_t>(NumberOr(suite, "done"));
          const auto total = static_cast<std::int64_t>(NumberOr(suite, "total"));
          const auto failed = static_cast<std::int64_t>(NumberOr(suite, "failed"));
          std::string line = name + " step " + step + "  " + TextOr(suite, "suite") + " " +
                             ProgressBar(done, total, kBarWidth) + " " + std::to_string(done) +
                             "/" + std::to_string(total);
          if (failed > 0) line += ", " + std::to_string(failed) + " failed";
          if (IsNumber(suite, "finish_estimate_s"))
            line += "  finish in about " + DurationOr(suite, "finish_estimate_s");
          if (done == total) line += "  feedback delay " + DurationOr(suite, "feedback_delay_s");
          lines[name + order + step + TextOr(suite, "suite")] = line;
        }
      }
    }
  }
  return lines;
}

// Estimates move all the time; only what is done makes a new line where the screen is not redrawn.
std::string WithoutEstimate(const std::string& line) {
  return line.substr(0, line.find("  finish in"));
}

void PrintChanges(const std::map<std::string, std::string>& lines,
                  std::map<std::string, std::string>* shown) {
  for (const auto& [key, line] : lines) {
    std::string& last = (*shown)[key];
    if (last == WithoutEstimate(line)) continue;
    last = WithoutEstimate(line);
    std::cout << line << std::endl;
  }
}

void Redraw(const std::string& text) {
  // Home, then clear to the end after drawing: no flicker.
  std::cout << "\033[H";
  for (const char c : text) {
    if (c == '\n') std::cout << "\033[K";
    std::cout << c;
  }
  std::cout << "\033[J" << std::flush;
}

}  // namespace

int Watch(const Common& common, const WatchOptions& options) {
  const bool screen = isatty(STDOUT_FILENO) != 0 && !common.json;
  const auto deadline = SteadyClock::now() + std::chrono::duration<double>(options.timeout_s);
  std::map<std::string, std::string> shown;
  if (screen) std::cout << "\033[2J";
  while (true) {
    const auto status = AskEvaluator(common, "GET", "/v1/status");
    if (!status) return Complain(status.error());
    const auto lines = Lines(*status, options.only);
    if (common.json) {
      std::cout << status->dump() << std::endl;
    } else if (screen) {
      std::string text;
      for (const auto& [key, line] : lines) text += line + "\n";
      Redraw(text + "\n" + StatusText(*status, options.only, common.noheader));
    } else {
      PrintChanges(lines, &shown);
    }
    if (options.until_done && !lines.empty() && AllDone(*status, options.only)) return kOk;
    if (options.timeout_s > 0 && SteadyClock::now() > deadline) {
      return Complain({ErrorCode::kUnavailable,
                       "not done after " + std::to_string(static_cast<int>(options.timeout_s)) +
                           " s (--timeout)"});
    }
    std::this_thread::sleep_for(std::chrono::duration<double>(options.interval_s));
  }
}

}  // namespace coeval::cli
