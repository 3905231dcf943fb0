// A writer that puts an empty `_SUCCESS` file last (Spark's and many trainers' habit).
#include "evaluator/checkpoint/layout.h"

namespace coeval::evaluator {

Verdict JudgeSuccessMarker(const CheckpointFolder& folder) {
  if (folder.Find("_SUCCESS") == nullptr) return Verdict::NotMine();
  if (folder.files.size() == 1) return Verdict::Waiting("_SUCCESS is there but nothing else");
  if (std::string fault = Unfinished(folder); !fault.empty()) return Verdict::Waiting(fault);
  return Verdict::Complete();
}

}  // namespace coeval::evaluator
