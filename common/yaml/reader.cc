#include "common/yaml/reader.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <set>
#include <sstream>

#include "common/base/files.h"

namespace coeval::yaml {

// What is wrong with one document. Only the first fault is reported: later ones are often its echo.
struct Faults {
  std::string file;
  std::optional<std::string> first;

  void Note(int line, const std::string& message) {
    if (!first) first = file + ":" + std::to_string(line) + ": " + message;
  }
};

namespace {

constexpr std::uint64_t kMaxFileMebibytes = 4;
constexpr int kMaxDepth = 64;

int LineOf(const YAML::Node& node) {
  const auto mark = node.Mark();
  return mark.is_null() ? 1 : mark.line + 1;
}

std::string TypeName(const YAML::Node& node) {
  if (!node.IsDefined() || node.IsNull()) return "empty";
  if (node.IsScalar()) return "'" + node.Scalar() + "'";
  return node.IsMap() ? "a mapping" : "a list";
}

std::string Joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

std::string Number(double value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

// Levenshtein distance, to name the key that was probably meant.
std::size_t Distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, change});
    }
  }
  return row[b.size()];
}

std::string Nearest(const std::string& word, const std::vector<std::string>& words) {
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(2, word.size() / 3) + 1;
  for (const std::string& candidate : words) {
    const std::size_t distance = Distance(word, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

// yaml-cpp keeps the last of two equal keys silently; a configuration must not.
void FindRepeatedKeys(const YAML::Node& node, Faults* faults, int depth) {
  if (depth > kMaxDepth)
    return faults->Note(LineOf(node), "is nested more than 64 levels deep; flatten it");
  if (node.IsSequence()) {
    for (const auto& item : node) FindRepeatedKeys(item, faults, depth + 1);
  }
  if (!node.IsMap()) return;
  std::set<std::string> seen;
  for (const auto& entry : node) {
    if (!entry.first.IsScalar()) {
      faults->Note(LineOf(entry.first), "a key must be one word");
      continue;
    }
    const std::string& key = entry.first.Scalar();
    if (!seen.insert(key).second)
      faults->Note(LineOf(entry.first), "'" + key + "' is given twice; keep one");
    FindRepeatedKeys(entry.second, faults, depth + 1);
  }
}

}  // namespace

Value::Value(std::shared_ptr<YAML::Node> node, std::shared_ptr<Faults> faults, std::string name)
    : node_(std::move(node)), faults_(std::move(faults)), name_(std::move(name)) {}

int Value::Line() const { return LineOf(*node_); }
std::string Value::Where() const { return faults_->file + ":" + std::to_string(Line()); }
void Value::Refuse(const std::string& message) const { faults_->Note(Line(), message); }
bool Value::IsMap() const { return node_->IsMap(); }
bool Value::IsList() const { return node_->IsSequence(); }
bool Value::IsScalar() const { return node_->IsScalar(); }

Map Value::AsMap() const {
  if (!IsMap()) Refuse(name_ + " is " + TypeName(*node_) + "; must be a mapping of keys to values");
  return Map(*this, node_, faults_);
}

std::vector<Value> Value::AsList() const {
  std::vector<Value> items;
  if (!IsList()) {
    Refuse(name_ + " is " + TypeName(*node_) + "; must be a list");
    return items;
  }
  std::size_t index = 0;
  for (const auto& item : *node_) {
    items.emplace_back(std::make_shared<YAML::Node>(item), faults_,
                       name_ + "[" + std::to_string(index++) + "]");
  }
  return items;
}

std::string Value::AsString() const {
  if (IsScalar()) return node_->Scalar();
  Refuse(name_ + " is " + TypeName(*node_) + "; must be text");
  return {};
}

std::int64_t Value::AsInt(std::int64_t least, std::int64_t most) const {
  const std::string range = "must be " + std::to_string(least) + ".." + std::to_string(most);
  if (!IsScalar()) {
    Refuse(name_ + " is " + TypeName(*node_) + "; " + range);
    return least;
  }
  const std::string& text = node_->Scalar();
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc{} && end == text.data() + text.size() && value >= least && value <= most)
    return value;
  Refuse(name_ + " is " + text + "; " + range);
  return least;
}

double Value::AsDouble(double least, double most) const {
  const std::string range = "must be " + Number(least) + ".." + Number(most);
  if (!IsScalar()) {
    Refuse(name_ + " is " + TypeName(*node_) + "; " + range);
    return least;
  }
  const std::string& text = node_->Scalar();
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool number =
      error == std::errc{} && end == text.data() + text.size() && std::isfinite(value);
  if (number && value >= least && value <= most) return value;
  Refuse(name_ + " is " + text + "; " + range);
  return least;
}

bool Value::AsBool() const {
  bool value = false;
  if (!IsScalar() || !YAML::convert<bool>::decode(*node_, value)) {
    Refuse(name_ + " is " + TypeName(*node_) + "; must be true or false");
  }
  return value;
}

std::vector<std::string> Value::AsStrings() const {
  std::vector<std::string> texts;
  for (const Value& item : AsList()) texts.push_back(item.AsString());
  return texts;
}

Map::Map(const Value& value, std::shared_ptr<YAML::Node> node, std::shared_ptr<Faults> faults)
    : node_(std::move(node)), faults_(std::move(faults)), name_(value.Name()) {}

bool Map::Has(std::string_view key) { return Find(key).has_value(); }

std::optional<Value> Map::Find(std::string_view key) {
  const std::string name(key);
  if (std::find(asked_.begin(), asked_.end(), name) == asked_.end()) asked_.push_back(name);
  if (!node_->IsMap()) return std::nullopt;
  // Through a const reference: yaml-cpp's other operator[] would create the key.
  const YAML::Node& map = *node_;
  const YAML::Node found = map[name];
  if (!found.IsDefined()) return std::nullopt;
  return Value(std::make_shared<YAML::Node>(found), faults_, name);
}

Value Map::Require(std::string_view key) {
  if (auto value = Find(key)) return *value;
  if (node_->IsMap()) Refuse("'" + std::string(key) + "' is missing");
  return Value(std::make_shared<YAML::Node>(), faults_, std::string(key));
}

std::string Map::String(std::string_view key, std::string fallback) {
  const auto value = Find(key);
  return value ? value->AsString() : std::move(fallback);
}

std::string Map::RequireString(std::string_view key) {
  const Value value = Require(key);
  std::string text = value.AsString();
  if (text.empty()) value.Refuse(std::string(key) + " is empty; must be text");
  return text;
}

std::int64_t Map::Int(std::string_view key, std::int64_t least, std::int64_t most,
                      std::int64_t fallback) {
  const auto value = Find(key);
  return value ? value->AsInt(least, most) : fallback;
}

double Map::Double(std::string_view key, double least, double most, double fallback) {
  const auto value = Find(key);
  return value ? value->AsDouble(least, most) : fallback;
}

bool Map::Bool(std::string_view key, bool fallback) {
  const auto value = Find(key);
  return value ? value->AsBool() : fallback;
}

std::string Map::Choice(std::string_view key, const std::vector<std::string>& allowed,
                        std::string fallback) {
  const auto value = Find(key);
  if (!value) return fallback;
  std::string text = value->AsString();
  if (std::find(allowed.begin(), allowed.end(), text) != allowed.end()) return text;
  value->Refuse(std::string(key) + " is '" + text + "'; must be one of " + Joined(allowed));
  return fallback;
}

std::vector<std::string> Map::Strings(std::string_view key) {
  const auto value = Find(key);
  return value ? value->AsStrings() : std::vector<std::string>{};
}

std::map<std::string, std::string> Map::StringMap(std::string_view key) {
  std::map<std::string, std::string> texts;
  const auto value = Find(key);
  if (!value) return texts;
  Map map = value->AsMap();
  for (const std::string& name : map.Keys()) texts[name] = map.Require(name).AsString();
  return texts;
}

std::vector<Value> Map::List(std::string_view key) {
  const auto value = Find(key);
  return value ? value->AsList() : std::vector<Value>{};
}

Seconds Map::Duration(std::string_view key, Seconds least, Seconds most, Seconds fallback) {
  const auto value = Find(key);
  if (!value) return fallback;
  if (key.ends_with("_s")) return Seconds{value->AsInt(least.count(), most.count())};
  const std::string text = value->AsString();
  const auto parsed = ParseSlurmTime(text);
  if (!parsed) {
    value->Refuse(std::string(key) + ": " + parsed.error().message);
    return fallback;
  }
  const Seconds duration = parsed->value_or(most);
  if (duration >= least && duration <= most) return duration;
  value->Refuse(std::string(key) + " is " + text + "; must be " + FormatSlurmDuration(least) +
                ".." + FormatSlurmDuration(most));
  return fallback;
}

Bytes Map::Size(std::string_view key, Bytes fallback) {
  const auto value = Find(key);
  if (!value) return fallback;
  const auto parsed = ParseSlurmSize(value->AsString());
  if (parsed) return *parsed;
  value->Refuse(std::string(key) + ": " + parsed.error().message);
  return fallback;
}

std::vector<std::string> Map::Keys() const {
  std::vector<std::string> keys;
  if (!node_->IsMap()) return keys;
  for (const auto& entry : *node_) {
    if (entry.first.IsScalar()) keys.push_back(entry.first.Scalar());
  }
  return keys;
}

void Map::Finish() {
  if (!node_->IsMap()) return;
  for (const auto& entry : *node_) {
    if (!entry.first.IsScalar()) continue;
    const std::string& key = entry.first.Scalar();
    if (std::find(asked_.begin(), asked_.end(), key) != asked_.end()) continue;
    const std::string nearest = Nearest(key, asked_);
    const std::string remedy =
        nearest.empty() ? "allowed here: " + Joined(asked_) : "did you mean '" + nearest + "'?";
    faults_->Note(LineOf(entry.first), "unknown key '" + key + "'; " + remedy);
  }
}

std::string Map::Where() const { return faults_->file + ":" + std::to_string(LineOf(*node_)); }
void Map::Refuse(const std::string& message) const { faults_->Note(LineOf(*node_), message); }

Document::Document(std::shared_ptr<YAML::Node> node, std::shared_ptr<Faults> faults)
    : node_(std::move(node)), faults_(std::move(faults)) {}

Result<Document> Document::FromFile(const std::filesystem::path& path) {
  auto text = ReadFile(path, Mebibytes(kMaxFileMebibytes));
  if (!text) return Fail(text.error());
  return FromText(*text, path.string());
}

Result<Document> Document::FromText(const std::string& text, const std::string& name) {
  auto faults = std::make_shared<Faults>();
  faults->file = name;
  try {
    auto node = std::make_shared<YAML::Node>(YAML::Load(text));
    FindRepeatedKeys(*node, faults.get(), 0);
    Document document(std::move(node), std::move(faults));
    if (auto sound = document.Check(); !sound) return Fail(sound.error());
    return document;
  } catch (const YAML::Exception& fault) {
    return Fail(ErrorCode::kInvalidArgument,
                name + ":" + std::to_string(fault.mark.line + 1) + ": not YAML: " + fault.msg);
  }
}

Value Document::Root() const { return Value(node_, faults_, "the file"); }

Result<> Document::Check() const {
  if (faults_->first) return Fail(ErrorCode::kInvalidArgument, *faults_->first);
  return {};
}

}  // namespace coeval::yaml
