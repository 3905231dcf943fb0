// Checkpoint layouts: how to know that a folder is a checkpoint, and that it is whole.
//
// A layout is one small file with one function and a row in the table of layout.cc. Complete means
// proven complete from names, sizes and headers; the time of last change proves nothing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace coeval::evaluator {

/// A folder's files, read once.
struct CheckpointFolder {
  struct File {
    std::string name;  // Relative to the folder.
    std::uintmax_t size = 0;
  };
  std::filesystem::path path;
  std::vector<File> files;  // By name; folders inside are walked, links are followed.
  /// The folder itself was renamed after its last member was made and written: a rename changes a
  /// folder's ctime, but not its mtime, which the making of a member sets together with it.
  bool renamed_when_written = false;
  const File* Find(const std::string& name) const;
};

struct Verdict {
  enum class Kind {
    kNotMine,  // Not of this layout.
    kWaiting,  // Of this layout, and not whole: `waiting_for` says what is missing.
    kComplete,
  };
  Kind kind = Kind::kNotMine;
  std::string waiting_for;

  static Verdict NotMine() { return {}; }
  static Verdict Waiting(std::string why) { return {Kind::kWaiting, std::move(why)}; }
  static Verdict Complete() { return {Kind::kComplete, ""}; }
};

struct Layout {
  const char* name;
  Verdict (*judge)(const CheckpointFolder& folder);
};

/// In the order in which they are asked; the first that knows the folder decides.
const std::vector<Layout>& Layouts();

/// What no whole checkpoint has, whatever its layout: empty or `.tmp` members. Empty when clean.
std::string Unfinished(const CheckpointFolder& folder);

// One each in layout_*.cc.
Verdict JudgeSuccessMarker(const CheckpointFolder& folder);
Verdict JudgeHfIndexed(const CheckpointFolder& folder);
Verdict JudgeHfSingle(const CheckpointFolder& folder);
Verdict JudgeStillNamedTmp(const CheckpointFolder& folder);
Verdict JudgeRenamed(const CheckpointFolder& folder);

}  // namespace coeval::evaluator
