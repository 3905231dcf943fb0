#include "scheduler/policy/classify.h"

#include "scheduler/policy/glob.h"

namespace coeval::scheduler {
namespace {

bool Fits(const std::string& pattern, const std::string& text) {
  return pattern.empty() || GlobMatches(pattern, text);
}

bool Matches(const MatchRule& rule, const cluster::Job& job) {
  return Fits(rule.name, job.name) && Fits(rule.partition, job.partition) &&
         Fits(rule.qos, job.qos) && Fits(rule.account, job.account) && Fits(rule.user, job.user);
}

}  // namespace

std::optional<Classification> Classify(const cluster::Job& job, const Policy& policy) {
  const auto tag = cluster::ParseTag(job.admin_comment);
  if (tag && *tag && (*tag)->role) return Classification{*(*tag)->role, "tag", **tag};
  for (const MatchRule& rule : policy.match) {
    if (Matches(rule, job)) return Classification{rule.role, "rule at " + rule.where, {}};
  }
  return std::nullopt;
}

bool IsEvaluation(cluster::Role role) {
  return role == cluster::Role::kEval || role == cluster::Role::kMetric ||
         role == cluster::Role::kPrecursor;
}

bool IsTraining(cluster::Role role) {
  return role == cluster::Role::kPretrain || role == cluster::Role::kSft ||
         role == cluster::Role::kMllm;
}

}  // namespace coeval::scheduler
