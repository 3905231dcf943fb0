#include "scheduler/daemon/journal.h"

#include <fstream>

namespace coeval::scheduler {

Result<> Journal::Append(const std::string& line) {
  std::error_code error;
  const auto size = std::filesystem::file_size(file_, error);
  if (!error && size > limit_.value) {
    std::filesystem::rename(file_, file_.string() + ".1", error);
    if (error) std::filesystem::resize_file(file_, 0, error);  // History goes before the disk does.
  }
  std::ofstream out(file_, std::ios::app);
  out << line << "\n" << std::flush;
  if (out) return {};
  return Fail(ErrorCode::kResourceExhausted, "cannot write the journal " + file_.string());
}

}  // namespace coeval::scheduler
