// A writer that fills `step_N.tmp` and renames it to `step_N`: the rename is the proof.
#include "evaluator/checkpoint/layout.h"

namespace coeval::evaluator {

Verdict JudgeRenamed(const CheckpointFolder& folder) {
  const std::string name = folder.path.filename().string();
  if (!name.ends_with(".tmp")) return Verdict::NotMine();
  return Verdict::Waiting("its rename to " + name.substr(0, name.size() - 4));
}

}  // namespace coeval::evaluator
