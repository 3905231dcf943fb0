#include "common/cluster/tag.h"

#include <array>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

namespace coeval::cluster {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::pair<Role, std::string_view>, 8> kRoles = {{
    {Role::kPretrain, "pretrain"},
    {Role::kSft, "sft"},
    {Role::kMllm, "mllm"},
    {Role::kEval, "eval"},
    {Role::kMetric, "metric"},
    {Role::kPrecursor, "precursor"},
    {Role::kDebug, "debug"},
    {Role::kOther, "other"},
}};

std::vector<std::string> SplitComma(const std::string& text) {
  std::vector<std::string> parts;
  std::size_t start = 0;
  while (start <= text.size()) {
    const auto comma = std::min(text.find(',', start), text.size());
    if (comma > start) parts.push_back(text.substr(start, comma - start));
    start = comma + 1;
  }
  return parts;
}

std::string JoinComma(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ",") + part;
  return text;
}

// A whole number within bounds; nlohmann alone would turn -1 into 4294967295.
std::int64_t Whole(const Json& object, const char* key, std::int64_t least, std::int64_t most) {
  const Json& value = object.at(key);
  if (!value.is_number_integer())
    throw std::invalid_argument(std::string(key) + " is no whole number");
  const auto number = value.get<std::int64_t>();
  if (number < least || number > most)
    throw std::out_of_range(std::string(key) + " is out of range");
  return number;
}

// Throws on wrong types and values; ParseTag catches.
Tag ReadTag(const Json& object) {
  Tag tag;
  if (object.contains("role")) {
    tag.role = ParseRole(object.at("role").get<std::string>());
    if (!tag.role) throw std::invalid_argument("unknown role");
  }
  tag.run = object.value("run", "");
  tag.checkpoints = object.value("checkpoints", "");
  tag.suites = SplitComma(object.value("suite", ""));
  if (object.contains("lend")) {
    const Json& lend = object.at("lend");
    if (!lend.is_object()) throw std::invalid_argument("lend is no object");
    tag.lend = Lend{};
    constexpr std::int64_t kMost = INT64_C(1) << 40;
    if (lend.contains("cpus"))
      tag.lend->cpus = static_cast<std::uint32_t>(Whole(lend, "cpus", 0, 65535));
    if (lend.contains("mem_mb"))
      tag.lend->mem_mb = static_cast<std::uint64_t>(Whole(lend, "mem_mb", 0, kMost));
  }
  tag.checkpoint = object.value("checkpoint", "");
  if (object.contains("deadline_s"))
    tag.deadline = Seconds{Whole(object, "deadline_s", 0, INT64_C(1) << 40)};
  if (object.contains("recover"))
    tag.recover = static_cast<int>(Whole(object, "recover", -1, 1000000));
  return tag;
}

}  // namespace

std::string_view RoleName(Role role) {
  for (const auto& [known, name] : kRoles) {
    if (known == role) return name;
  }
  return "other";
}

std::optional<Role> ParseRole(std::string_view name) {
  for (const auto& [role, known] : kRoles) {
    if (known == name) return role;
  }
  return std::nullopt;
}

Result<std::optional<Tag>> ParseTag(std::string_view admin_comment) {
  if (!admin_comment.starts_with('{')) return std::optional<Tag>{};
  const Json object = Json::parse(admin_comment, nullptr, false);
  if (object.is_discarded() && admin_comment.starts_with("{\"coeval\"")) {
    return Fail(ErrorCode::kCorrupt,
                "AdminComment '" + std::string(admin_comment) + "' is cut off");
  }
  if (!object.is_object() || !object.contains("coeval")) return std::optional<Tag>{};
  try {
    return std::optional<Tag>{ReadTag(object)};
  } catch (const std::exception& fault) {
    return Fail(ErrorCode::kCorrupt, "AdminComment '" + std::string(admin_comment) +
                                         "' is no coeval tag: " + fault.what());
  }
}

std::string FormatTag(const Tag& tag) {
  Json object = {{"coeval", 1}};
  if (tag.role) object["role"] = RoleName(*tag.role);
  if (!tag.run.empty()) object["run"] = tag.run;
  if (!tag.checkpoints.empty()) object["checkpoints"] = tag.checkpoints;
  if (!tag.suites.empty()) object["suite"] = JoinComma(tag.suites);
  if (tag.lend) object["lend"] = {{"cpus", tag.lend->cpus}, {"mem_mb", tag.lend->mem_mb}};
  if (!tag.checkpoint.empty()) object["checkpoint"] = tag.checkpoint;
  if (tag.deadline) object["deadline_s"] = tag.deadline->count();
  if (tag.recover) object["recover"] = *tag.recover;
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace coeval::cluster
