#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <fstream>

#include "evaluator/checkpoint/scan.h"

namespace coeval::evaluator {
namespace {

namespace fs = std::filesystem;

// A safetensors file of `floats` numbers, cut to `size` bytes when that is smaller.
std::string Safetensors(std::size_t floats, char fill = 'x') {
  const std::string header = "{\"w\":{\"dtype\":\"F32\",\"shape\":[" + std::to_string(floats) +
                             "],\"data_offsets\":[0," + std::to_string(floats * 4) + "]}}";
  std::string file(8, '\0');
  for (int i = 0; i < 8; ++i)
    file[static_cast<std::size_t>(i)] = static_cast<char>(header.size() >> (8 * i) & 0xff);
  return file + header + std::string(floats * 4, fill);
}

class CheckpointTest : public ::testing::Test {
 protected:
  CheckpointTest() {
    std::string pattern = ::testing::TempDir() + "ckpt.XXXXXX";
    run_ = mkdtemp(pattern.data());
  }
  ~CheckpointTest() override { fs::remove_all(run_); }

  fs::path Write(const std::string& checkpoint, const std::string& file,
                 const std::string& contents) {
    fs::create_directories((run_ / checkpoint / file).parent_path());
    std::ofstream(run_ / checkpoint / file, std::ios::binary) << contents;
    return run_ / checkpoint;
  }
  fs::path WriteSingle(const std::string& name, char fill = 'x') {
    Write(name, "config.json", "{}");
    return Write(name, "model.safetensors", Safetensors(100, fill));
  }
  std::string WaitingFor(const std::string& name) {
    return InspectCheckpoint(run_ / name)->waiting_for;
  }
  bool IsComplete(const std::string& name) { return InspectCheckpoint(run_ / name)->complete; }
  fs::path run_;
};

TEST_F(CheckpointTest, KnowsAWholeSafetensorsFileByItsHeader) {
  WriteSingle("step_10");
  const auto found = *InspectCheckpoint(run_ / "step_10");
  EXPECT_TRUE(found.complete) << found.waiting_for;
  EXPECT_EQ(found.layout, "hf_safetensors");
  EXPECT_EQ(found.step, 10);
}

TEST_F(CheckpointTest, WaitsForEveryByteAndSaysForWhich) {
  const std::string whole = Safetensors(100);
  Write("step_1", "config.json", "{}");
  Write("step_1", "model.safetensors", whole.substr(0, whole.size() - 1));
  EXPECT_EQ(WaitingFor("step_1"), "model.safetensors has " + std::to_string(whole.size() - 1) +
                                      " of " + std::to_string(whole.size()) + " bytes");
  Write("step_1", "model.safetensors", "");
  EXPECT_EQ(WaitingFor("step_1"), "model.safetensors is 0 bytes");
  Write("step_1", "model.safetensors", whole.substr(0, 20));
  EXPECT_EQ(WaitingFor("step_1"), "model.safetensors has no whole header");
  Write("step_1", "model.safetensors", whole + "x");
  EXPECT_FALSE(IsComplete("step_1")) << "longer than its header says is not whole either";
}

TEST_F(CheckpointTest, WantsWhatAHarnessNeeds) {
  Write("step_1", "model.safetensors", Safetensors(10));
  EXPECT_EQ(WaitingFor("step_1"), "config.json is missing");
  Write("step_1", "config.json", "{\"a\":");
  EXPECT_EQ(WaitingFor("step_1"), "config.json is not whole");
  Write("step_1", "config.json", "{}");
  Write("step_1", "optimizer.tmp", "x");
  EXPECT_EQ(WaitingFor("step_1"), "optimizer.tmp is still being written");
}

TEST_F(CheckpointTest, AnIndexNamesEveryShard) {
  const std::string index =
      R"({"weight_map":{"a":"model-1-of-2.safetensors","b":"model-2-of-2.safetensors"}})";
  Write("step_1", "config.json", "{}");
  Write("step_1", "model-1-of-2.safetensors", Safetensors(10));
  EXPECT_EQ(WaitingFor("step_1"), "model.safetensors.index.json is missing");
  Write("step_1", "model.safetensors.index.json", index);
  EXPECT_EQ(WaitingFor("step_1"), "model-2-of-2.safetensors is missing");
  Write("step_1", "model-2-of-2.safetensors", Safetensors(10));
  EXPECT_TRUE(IsComplete("step_1")) << WaitingFor("step_1");
  Write("step_1", "model.safetensors.index.json", index.substr(0, 30));
  EXPECT_EQ(WaitingFor("step_1"), "model.safetensors.index.json is not whole");
}

TEST_F(CheckpointTest, ARenameIsTheProof) {
  WriteSingle("step_5.tmp");
  EXPECT_EQ(WaitingFor("step_5.tmp"), "its rename to step_5");
  fs::rename(run_ / "step_5.tmp", run_ / "step_5");
  EXPECT_TRUE(IsComplete("step_5"));
}

TEST_F(CheckpointTest, ARenameProvesContentsOfAnyKind) {
  Write("step_7", "weights.npz", "in place");
  EXPECT_FALSE(IsComplete("step_7")) << "it may still be written";
  Write("step_8.tmp", "weights.npz", "x");
  // As if writing had taken a while: the clock of a file system ticks only every few milliseconds.
  fs::last_write_time(run_ / "step_8.tmp",
                      fs::file_time_type::clock::now() - std::chrono::seconds(5));
  fs::rename(run_ / "step_8.tmp", run_ / "step_8");
  EXPECT_TRUE(IsComplete("step_8")) << WaitingFor("step_8");
  EXPECT_EQ(InspectCheckpoint(run_ / "step_8")->layout, "renamed");
  Write("step_8", "late.bin", "");
  EXPECT_FALSE(IsComplete("step_8"));
}

TEST_F(CheckpointTest, AMarkerIsTheProofUnlessAMemberIsEmpty) {
  Write("global_step7", "weights.bin", "x");
  EXPECT_FALSE(IsComplete("global_step7"));
  Write("global_step7", "_SUCCESS", "");
  EXPECT_TRUE(IsComplete("global_step7"));
  Write("global_step7", "rank3/shard.bin", "");
  EXPECT_EQ(WaitingFor("global_step7"), "rank3/shard.bin is 0 bytes");
}

TEST_F(CheckpointTest, NonsenseInHeadersIsNeverComplete) {
  Write("step_1", "config.json", "{}");
  for (const std::string& text :
       {std::string(8, '\xff') + "{}", std::string("\x02\0\0\0\0\0\0\0[]", 10),
        std::string("\x10\0\0\0\0\0\0\0{\"w\":{\"a\":[1]}}x", 24)}) {
    Write("step_1", "model.safetensors", text);
    EXPECT_FALSE(IsComplete("step_1"));
  }
}

TEST_F(CheckpointTest, ScansARunByStep) {
  WriteSingle("step_100");
  WriteSingle("step_20");
  Write("step_300.tmp", "model.safetensors", "x");
  Write("logs", "train.log", "x");
  std::vector<std::string> names;
  for (const auto& found : ScanRun(run_)) names.push_back(found.path.filename());
  EXPECT_EQ(names, (std::vector<std::string>{"step_20", "step_100", "step_300.tmp"}));
  EXPECT_TRUE(ScanRun(run_ / "none").empty());
}

TEST_F(CheckpointTest, FingerprintIsOfContentsAndNotOfThePath) {
  const auto one = *Fingerprint(WriteSingle("step_1"));
  EXPECT_EQ(*Fingerprint(WriteSingle("copy_of_1")), one);
  EXPECT_NE(*Fingerprint(WriteSingle("step_2", 'y')), one);
  Write("step_1", "_SUCCESS", "");
  Write("step_1", ".coeval-pin", "held");
  EXPECT_EQ(*Fingerprint(run_ / "step_1"), one) << "markers and our own files do not count";
  EXPECT_EQ(Fingerprint(run_ / "none").error().code, ErrorCode::kNotFound);
}

TEST(StepOfName, TakesTheLastNumber) {
  EXPECT_EQ(StepOfName("step_100"), 100);
  EXPECT_EQ(StepOfName("iter_0000100"), 100);
  EXPECT_EQ(StepOfName("global_step12.tmp"), 12);
  EXPECT_EQ(StepOfName("v2-checkpoint-500"), 500);
  EXPECT_EQ(StepOfName("latest"), std::nullopt);
}

}  // namespace
}  // namespace coeval::evaluator
