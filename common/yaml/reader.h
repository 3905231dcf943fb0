// YAML read into typed values, with every fault named by file and line.
//
//   auto document = yaml::Document::FromFile("policy.yaml");
//   yaml::Map top = document->Root().AsMap();
//   quota = top.Int("gpu_quota", 0, 100000, 16);   // key, least, most, default
//   for (const yaml::Value& rule : top.List("match")) …
//   top.Finish();                                    // refuses keys that nobody asked for
//   if (auto ok = document->Check(); !ok) return Fail(ok.error());
//
// A fault is noted and a harmless default returned, so that reading code stays straight; Check()
// gives the first fault: `policy.yaml:12: gpu_quota is -1; must be 0..100000`. Not thread-safe;
// values and maps must not outlive their document.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/base/units.h"

namespace YAML {
class Node;
}

namespace coeval::yaml {

class Map;
struct Faults;

/// A node of the document, and where it stands.
class Value {
 public:
  Value(std::shared_ptr<YAML::Node> node, std::shared_ptr<Faults> faults, std::string name);

  Map AsMap() const;
  std::vector<Value> AsList() const;  // A scalar is a fault, not a list of one.
  std::string AsString() const;
  std::int64_t AsInt(std::int64_t least, std::int64_t most) const;
  double AsDouble(double least, double most) const;
  bool AsBool() const;
  std::vector<std::string> AsStrings() const;
  bool IsMap() const;
  bool IsList() const;
  bool IsScalar() const;

  int Line() const;           // From 1.
  std::string Where() const;  // `policy.yaml:12`
  /// Notes a fault of meaning that only the caller can see: `<where>: <message>`.
  void Refuse(const std::string& message) const;
  const std::string& Name() const { return name_; }  // The key under which it was found.

 private:
  std::shared_ptr<YAML::Node> node_;
  std::shared_ptr<Faults> faults_;
  std::string name_;
};

/// A mapping; remembers which keys were asked for.
class Map {
 public:
  explicit Map(const Value& value, std::shared_ptr<YAML::Node> node,
               std::shared_ptr<Faults> faults);

  bool Has(std::string_view key);
  std::optional<Value> Find(std::string_view key);
  /// A missing key is a fault; the value is then an empty node.
  Value Require(std::string_view key);

  std::string String(std::string_view key, std::string fallback);
  std::string RequireString(std::string_view key);
  std::int64_t Int(std::string_view key, std::int64_t least, std::int64_t most,
                   std::int64_t fallback);
  double Double(std::string_view key, double least, double most, double fallback);
  bool Bool(std::string_view key, bool fallback);
  /// One of `allowed`.
  std::string Choice(std::string_view key, const std::vector<std::string>& allowed,
                     std::string fallback);
  std::vector<std::string> Strings(std::string_view key);  // Missing: empty.
  std::map<std::string, std::string> StringMap(std::string_view key);
  std::vector<Value> List(std::string_view key);  // Missing: empty.
  /// A Slurm time (`0:10:00`) or a plain number of seconds when the key ends in `_s`.
  Seconds Duration(std::string_view key, Seconds least, Seconds most, Seconds fallback);
  Bytes Size(std::string_view key, Bytes fallback);  // Slurm's size forms.

  /// All keys present, in file order.
  std::vector<std::string> Keys() const;
  /// Refuses keys that were never asked for, naming the nearest allowed one.
  void Finish();
  std::string Where() const;
  void Refuse(const std::string& message) const;

 private:
  std::shared_ptr<YAML::Node> node_;
  std::shared_ptr<Faults> faults_;
  std::string name_;
  std::vector<std::string> asked_;
};

class Document {
 public:
  static Result<Document> FromFile(const std::filesystem::path& path);
  static Result<Document> FromText(const std::string& text, const std::string& name);

  Value Root() const;
  /// The first fault noted so far.
  Result<> Check() const;

 private:
  Document(std::shared_ptr<YAML::Node> node, std::shared_ptr<Faults> faults);
  std::shared_ptr<YAML::Node> node_;
  std::shared_ptr<Faults> faults_;
};

}  // namespace coeval::yaml
