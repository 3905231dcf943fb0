#include "cli/table.h"

#include <gtest/gtest.h>

namespace coeval::cli {
namespace {

TEST(Table, AlignsTextLeftAndNumbersRight) {
  Table table({"NAME", ">N"});
  table.Add({"a", "1"});
  table.Add({"long", "100"});
  EXPECT_EQ(table.Print(true), "NAME    N\na       1\nlong  100\n");
  EXPECT_EQ(table.Print(false), "a       1\nlong  100\n");
}

TEST(Table, CountsCharactersNotBytes) {
  Table table({"A", "B"});
  table.Add({"é", "x"});
  EXPECT_EQ(table.Print(false), "é  x\n");
}

TEST(Table, PutsColumnsThatDoNotFitIntoFurtherBlocks) {
  Table table({">STEP", ">aaaaaaaa", ">bbbbbbbb", ">cccccccc"});
  table.Add({"1", "2", "3", "4"});
  EXPECT_EQ(
      table.Print(true, 26),
      "STEP  aaaaaaaa  bbbbbbbb\n   1         2         3\n\nSTEP  cccccccc\n   1         4\n");
  EXPECT_EQ(table.Print(true, 200), table.Print(true));
}

TEST(ProgressBar, FillsWithWhatIsDone) {
  EXPECT_EQ(ProgressBar(0, 4, 4), "[....]");
  EXPECT_EQ(ProgressBar(3, 4, 4), "[###.]");
  EXPECT_EQ(ProgressBar(5, 4, 4), "[####]");
  EXPECT_EQ(ProgressBar(0, 0, 4), "[....]");
}

TEST(FormatScore, KeepsTheDigitsThatTell) {
  EXPECT_EQ(FormatScore(0.61), "0.6100");
  EXPECT_EQ(FormatScore(12.345), "12.35");
  EXPECT_EQ(FormatScore(1043.2), "1043");
}

TEST(CsvLine, QuotesWhereNeeded) {
  EXPECT_EQ(CsvLine({"a", "b,c", "d\"e", ""}), "a,\"b,c\",\"d\"\"e\",\r\n");
}

}  // namespace
}  // namespace coeval::cli
