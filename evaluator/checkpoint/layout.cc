#include "evaluator/checkpoint/layout.h"

#include <algorithm>

namespace coeval::evaluator {

const CheckpointFolder::File* CheckpointFolder::Find(const std::string& name) const {
  const auto found = std::lower_bound(
      files.begin(), files.end(), name,
      [](const File& file, const std::string& wanted) { return file.name < wanted; });
  return found != files.end() && found->name == name ? &*found : nullptr;
}

const std::vector<Layout>& Layouts() {
  // A folder still named `.tmp` is never whole, whatever it holds; a marker is the writer's own
  // word; an index names more than a single file can.
  static const std::vector<Layout> kLayouts = {
      {"renamed", JudgeStillNamedTmp},
      {"success_marker", JudgeSuccessMarker},
      {"hf_safetensors_index", JudgeHfIndexed},
      {"hf_safetensors", JudgeHfSingle},
      {"renamed", JudgeRenamed},
  };
  return kLayouts;
}

std::string Unfinished(const CheckpointFolder& folder) {
  for (const auto& file : folder.files) {
    if (file.name.ends_with(".tmp") || file.name.ends_with(".partial")) {
      return file.name + " is still being written";
    }
    const bool is_marker = file.name == "_SUCCESS" || file.name.ends_with("/__init__.py");
    if (file.size == 0 && !is_marker) return file.name + " is 0 bytes";
  }
  return {};
}

}  // namespace coeval::evaluator
