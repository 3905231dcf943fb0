#include <filesystem>
#include <iostream>

#include "cli/commands.h"

namespace coeval::cli {
namespace {

bool IsJobId(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

}  // namespace

int Eval(const Common& common, const EvalOptions& options) {
  Json body = {{"name", options.name}, {"suites", options.suites}, {"checkpoints", Json::array()}};
  for (const std::string& path : options.checkpoints) {
    body["checkpoints"].push_back(std::filesystem::absolute(path).lexically_normal().string());
  }
  const auto answer = AskEvaluator(common, "POST", "/v1/campaigns", body.dump());
  if (!answer) return Complain(answer.error());
  if (common.json) PrintJson(*answer);
  const std::string campaign = TextOr(*answer, "campaign");
  if (!common.json) {
    std::cout << "Submitted campaign " << campaign << ": " << NumberOr(*answer, "items")
              << " evaluations, " << NumberOr(*answer, "new") << " of them new\n";
    for (const Json& one : answer->value("checkpoints", Json::array())) {
      const std::string waits = TextOr(one, "waiting_for");
      if (!waits.empty())
        std::cout << TextOr(one, "path") << " is not complete; waits for: " << waits << "\n";
    }
  }
  if (!options.wait) return kOk;
  const int watched = Watch(common, {campaign, 1, true, 0});
  return watched == kOk && !common.json ? Results(common, {campaign, "", false}) : watched;
}

int Cancel(const Common& common, const std::string& what) {
  const char* kind = what.starts_with("c-") ? "campaign" : IsJobId(what) ? "job_id" : "run";
  const auto answer = AskEvaluator(common, "POST", "/v1/cancel", Json{{kind, what}}.dump());
  if (!answer) return Complain(answer.error());
  if (common.json) return PrintJson(*answer);
  std::cout << "Cancelled " << what << ": " << NumberOr(*answer, "cancelled_items")
            << " pieces of work, " << NumberOr(*answer, "cancelled_jobs") << " jobs\n";
  return kOk;
}

}  // namespace coeval::cli
