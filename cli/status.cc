#include <algorithm>
#include <iostream>

#include "cli/commands.h"
#include "cli/table.h"
#include "common/base/units.h"

namespace coeval::cli {
namespace {

// A run or campaign under its name, with its checkpoints.
struct Owner {
  std::string name, state;
  Json checkpoints;
};

std::vector<Owner> OwnersOf(const Json& status, const std::string& only) {
  std::vector<Owner> owners;
  for (const char* kind : {"runs", "campaigns"}) {
    for (const Json& one : status.value(kind, Json::array())) {
      const std::string name = TextOr(one, kind == std::string("runs") ? "run" : "campaign");
      if (!only.empty() && name != only) continue;
      owners.push_back({name, TextOr(one, "state"), one.value("checkpoints", Json::array())});
    }
  }
  return owners;
}

std::string Tally(const Json& suite) {
  std::string text = std::to_string(static_cast<std::int64_t>(NumberOr(suite, "done"))) + "/" +
                     std::to_string(static_cast<std::int64_t>(NumberOr(suite, "total")));
  if (NumberOr(suite, "failed") > 0)
    text +=
        " (" + std::to_string(static_cast<std::int64_t>(NumberOr(suite, "failed"))) + " failed)";
  return text;
}

bool IsOpen(const Json& suite) {
  return NumberOr(suite, "done") + NumberOr(suite, "failed") + NumberOr(suite, "cancelled") <
         NumberOr(suite, "total");
}

void AddCheckpoint(const Owner& owner, const Json& checkpoint, Table* table) {
  const Json suites = checkpoint.value("suites", Json::array());
  if (suites.empty()) {
    const std::string waits = TextOr(checkpoint, "waiting_for");
    table->Add({owner.name, StepText(checkpoint), "-", "-", "-", "-",
                waits.empty() ? TextOr(checkpoint, "state") : "waits for: " + waits});
  }
  for (const Json& suite : suites) {
    const bool open = IsOpen(suite);
    const std::string state = TextOr(checkpoint, "state") == "vanished" ? "checkpoint deleted"
                              : !open ? (NumberOr(suite, "failed") > 0 ? "ended" : "done")
                              : NumberOr(suite, "running") > 0 ? "running"
                                                               : "queued";
    table->Add({owner.name, StepText(checkpoint), TextOr(suite, "suite"), Tally(suite),
                DurationOr(suite, "feedback_delay_s"), DurationOr(suite, "finish_estimate_s"),
                state});
  }
}

std::string JobsText(const Json& status, bool noheader) {
  Table table({">JOBID", "KIND", "STATE", "NODE", ">GPUS", ">TIME", ">ITEMS", "REASON"});
  for (const Json& job : status.value("jobs", Json::array())) {
    table.Add(
        {TextOr(job, "job_id"), TextOr(job, "kind"), TextOr(job, "state"), TextOr(job, "node"),
         std::to_string(static_cast<int>(NumberOr(job, "gpus"))), DurationOr(job, "seconds"),
         std::to_string(static_cast<int>(NumberOr(job, "items_done"))), TextOr(job, "reason")});
  }
  return table.Empty() ? "" : table.Print(!noheader) + "\n";
}

}  // namespace

bool AllDone(const Json& status, const std::string& only) {
  for (const Owner& owner : OwnersOf(status, only)) {
    if (owner.state == "running" || owner.state == "pending") return false;
    for (const Json& checkpoint : owner.checkpoints) {
      const Json suites = checkpoint.value("suites", Json::array());
      if (suites.empty() && TextOr(checkpoint, "state") != "vanished" && owner.state == "open")
        return false;
      if (std::any_of(suites.begin(), suites.end(), IsOpen)) return false;
    }
  }
  return true;
}

std::string StatusText(const Json& status, const std::string& only, bool noheader) {
  std::string text;
  const Json quota = status.value("quota", Json::object());
  text += "scheduler: " + TextOr(status, "scheduler") + "   slurm: " + TextOr(status, "slurm") +
          "   GPUs offered: " + std::to_string(static_cast<int>(NumberOr(quota, "gpus"))) +
          ", used by trials: " + std::to_string(static_cast<int>(NumberOr(quota, "used"))) + " (" +
          TextOr(quota, "source") + ")\n\n";
  Table table({"RUN", ">STEP", "SUITE", "DONE", ">FEEDBACK", ">FINISH_IN", "STATE"});
  for (const Owner& owner : OwnersOf(status, only)) {
    for (const Json& checkpoint : owner.checkpoints) AddCheckpoint(owner, checkpoint, &table);
    if (owner.checkpoints.empty())
      table.Add({owner.name, "-", "-", "-", "-", "-", owner.state + ", no checkpoint yet"});
  }
  text +=
      table.Empty()
          ? "no runs and no campaigns; submit a run with --llm-role=pretrain or use 'coeval eval'\n"
          : table.Print(!noheader);
  text += "\n" + JobsText(status, noheader);
  for (const Json& held : status.value("held", Json::array())) {
    text += "held: " + std::to_string(static_cast<std::int64_t>(NumberOr(held, "count"))) + " (" +
            TextOr(held, "why") + ")\n";
  }
  while (text.ends_with("\n\n")) text.pop_back();
  return text;
}

int Status(const Common& common, const std::string& only) {
  const auto status = AskEvaluator(common, "GET", "/v1/status");
  if (!status) return Complain(status.error());
  if (!only.empty() && OwnersOf(*status, only).empty()) {
    return Complain({ErrorCode::kNotFound,
                     "there is no run or campaign '" + only + "'; 'coeval status' lists all"});
  }
  if (common.json) return PrintJson(*status);
  std::cout << StatusText(*status, only, common.noheader);
  return kOk;
}

int Jobs(const Common& common) {
  const auto jobs = AskEvaluator(common, "GET", "/v1/jobs");
  if (!jobs) return Complain(jobs.error());
  if (common.json) return PrintJson(*jobs);
  Table table({">JOBID", "KIND", "NODE", ">GPUS", "STATE", ">TIME", ">ITEMS", "CHECKPOINT"});
  for (const Json& job : jobs->value("jobs", Json::array())) {
    table.Add({TextOr(job, "job_id"), TextOr(job, "kind"), TextOr(job, "node"),
               std::to_string(static_cast<int>(NumberOr(job, "gpus"))), TextOr(job, "state"),
               DurationOr(job, "seconds"),
               std::to_string(static_cast<int>(NumberOr(job, "items_done"))),
               TextOr(job, "checkpoint")});
  }
  std::cout << table.Print(!common.noheader);
  return kOk;
}

}  // namespace coeval::cli
