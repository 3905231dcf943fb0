#include <iostream>

#include "cli/commands.h"
#include "cli/table.h"
#include "common/http/client.h"

namespace coeval::cli {

int Explain(const Common& common, const std::string& job_id) {
  const auto answer = AskCoevald(common, "GET", "/v1/jobs/" + http::UrlEncode(job_id) + "/explain");
  if (!answer) return Complain(answer.error());
  if (common.json) return PrintJson(*answer);
  const Json kind = answer->value("class", Json::object());
  std::cout << "Job " << TextOr(*answer, "job_id") << " (" << TextOr(*answer, "name") << ") of "
            << TextOr(*answer, "user") << ", " << TextOr(*answer, "state") << "\n";
  std::cout << "Class:      " << TextOr(kind, "role") << ", by " << TextOr(kind, "by") << "\n";
  std::cout << "Priority:   " << static_cast<std::int64_t>(NumberOr(*answer, "priority")) << "\n";
  const Json factor = answer->value("site_factor", Json::object());
  std::cout << "SiteFactor: " << static_cast<std::int64_t>(NumberOr(factor, "value")) << "\n";
  for (const Json& part : factor.value("parts", Json::array())) {
    std::cout << "  " << (NumberOr(part, "value") >= 0 ? "+" : "")
              << static_cast<std::int64_t>(NumberOr(part, "value")) << "  " << TextOr(part, "name")
              << ": " << TextOr(part, "why") << "\n";
  }
  if (const std::string waits = TextOr(*answer, "waits_for"); !waits.empty())
    std::cout << "Waits for:  " << waits << "\n";
  for (const Json& reason : answer->value("reasons", Json::array())) {
    if (reason.is_string()) std::cout << "  - " << reason.get<std::string>() << "\n";
  }
  return kOk;
}

int PolicyShow(const Common& common) {
  const auto answer = AskCoevald(common, "GET", "/v1/policy");
  return answer ? PrintJson(*answer) : Complain(answer.error());
}

int PolicyReload(const Common& common) {
  const auto answer = AskCoevald(common, "POST", "/v1/policy/reload", "{}");
  if (!answer) return Complain(answer.error());
  if (common.json) return PrintJson(*answer);
  std::cout << "Policy reloaded\n";
  return kOk;
}

}  // namespace coeval::cli
