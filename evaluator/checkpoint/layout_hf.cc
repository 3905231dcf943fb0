// Hugging Face folders: config.json and safetensors files, one or several with an index.
//
// A safetensors file starts with the length of its header (64 bits, little endian) and the header,
// a JSON object whose tensors give their `data_offsets`; the largest end is the length of the data.
// So the header alone says how long the whole file must be.
#include <algorithm>
#include <array>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "common/base/files.h"
#include "evaluator/checkpoint/layout.h"

namespace coeval::evaluator {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kMaxHeader = 100u << 20;  // The format's own bound.
constexpr char kIndex[] = "model.safetensors.index.json";

// The length a whole file must have; nullopt while its header is not whole.
std::optional<std::uint64_t> WantedSize(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::array<unsigned char, 8> prefix{};
  if (!in.read(reinterpret_cast<char*>(prefix.data()), prefix.size())) return std::nullopt;
  std::uint64_t header_size = 0;
  for (std::size_t i = prefix.size(); i-- > 0;) header_size = header_size << 8 | prefix[i];
  if (header_size > kMaxHeader) return std::nullopt;
  std::string header(header_size, '\0');
  if (!in.read(header.data(), static_cast<std::streamsize>(header_size))) return std::nullopt;
  const Json tensors = Json::parse(header, nullptr, false);
  if (!tensors.is_object()) return std::nullopt;
  std::uint64_t data = 0;
  for (const auto& [name, tensor] : tensors.items()) {
    if (name == "__metadata__") continue;
    const auto offsets = tensor.is_object() ? tensor.find("data_offsets") : tensor.end();
    if (!tensor.is_object() || offsets == tensor.end() || !offsets->is_array() ||
        offsets->size() != 2 || !(*offsets)[1].is_number_unsigned()) {
      return std::nullopt;
    }
    data = std::max(data, (*offsets)[1].get<std::uint64_t>());
  }
  return prefix.size() + header_size + data;
}

// Empty when the safetensors file is whole.
std::string Fault(const CheckpointFolder& folder, const std::string& name) {
  const auto* file = folder.Find(name);
  if (file == nullptr) return name + " is missing";
  if (file->size == 0) return name + " is 0 bytes";
  const auto wanted = WantedSize(folder.path / name);
  if (!wanted) return name + " has no whole header";
  if (file->size == *wanted) return {};
  return name + " has " + std::to_string(file->size) + " of " + std::to_string(*wanted) + " bytes";
}

// What every harness needs besides the weights.
std::string ConfigFault(const CheckpointFolder& folder) {
  if (folder.Find("config.json") == nullptr) return "config.json is missing";
  const auto text = ReadFile(folder.path / "config.json");
  if (!text || !Json::accept(*text)) return "config.json is not whole";
  return Unfinished(folder);
}

}  // namespace

Verdict JudgeHfSingle(const CheckpointFolder& folder) {
  if (folder.Find("model.safetensors") == nullptr) return Verdict::NotMine();
  if (std::string fault = Fault(folder, "model.safetensors"); !fault.empty()) {
    return Verdict::Waiting(fault);
  }
  if (std::string fault = ConfigFault(folder); !fault.empty()) return Verdict::Waiting(fault);
  return Verdict::Complete();
}

Verdict JudgeHfIndexed(const CheckpointFolder& folder) {
  if (folder.Find(kIndex) == nullptr) {
    const bool has_shard = std::any_of(folder.files.begin(), folder.files.end(), [](const auto& f) {
      return f.name.starts_with("model-") && f.name.ends_with(".safetensors");
    });
    return has_shard ? Verdict::Waiting(std::string(kIndex) + " is missing") : Verdict::NotMine();
  }
  const auto text = ReadFile(folder.path / kIndex);
  const Json index = text ? Json::parse(*text, nullptr, false) : Json();
  const auto map = index.is_object() ? index.find("weight_map") : index.end();
  if (!index.is_object() || map == index.end() || !map->is_object() || map->empty()) {
    return Verdict::Waiting(std::string(kIndex) + " is not whole");
  }
  std::set<std::string> shards;
  for (const auto& [tensor, shard] : map->items()) {
    if (!shard.is_string()) return Verdict::Waiting(std::string(kIndex) + " is not whole");
    shards.insert(shard.get<std::string>());
  }
  for (const std::string& shard : shards) {
    if (std::string fault = Fault(folder, shard); !fault.empty()) return Verdict::Waiting(fault);
  }
  if (std::string fault = ConfigFault(folder); !fault.empty()) return Verdict::Waiting(fault);
  return Verdict::Complete();
}

}  // namespace coeval::evaluator
