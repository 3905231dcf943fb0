// A writer that fills `step_N.tmp` and renames it to `step_N`: the rename is the proof.
#include "evaluator/checkpoint/layout.h"

namespace coeval::evaluator {

Verdict JudgeStillNamedTmp(const CheckpointFolder& folder) {
  const std::string name = folder.path.filename().string();
  if (!name.ends_with(".tmp")) return Verdict::NotMine();
  return Verdict::Waiting("its rename to " + name.substr(0, name.size() - 4));
}

// Asked last: contents that no other layout knows, in a folder that got its name when it was whole.
Verdict JudgeRenamed(const CheckpointFolder& folder) {
  if (!folder.renamed_when_written || folder.files.empty()) return Verdict::NotMine();
  if (std::string fault = Unfinished(folder); !fault.empty()) return Verdict::Waiting(fault);
  return Verdict::Complete();
}

}  // namespace coeval::evaluator
