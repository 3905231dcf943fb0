#include "common/slurm/gateway.h"

#include <string_view>

namespace coeval::slurm {
namespace {

constexpr std::string_view kPrefix = "coeval:";

}  // namespace

std::string KeyComment(const std::string& key) { return std::string(kPrefix) + key; }

std::string KeyOf(const cluster::Job& job) {
  return job.comment.starts_with(kPrefix) ? job.comment.substr(kPrefix.size()) : std::string();
}

}  // namespace coeval::slurm
