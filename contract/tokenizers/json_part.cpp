#include "contract/tokenizers/json_part.h"

#include "contract/text/config_error.h"
#include "contract/text/utf8.h"
#include "contract/tokenizers/bpe.h"

namespace fsdp {
namespace {

constexpr size_t kMostOfValue = 80;

}  // namespace

JsonPart JsonPart::at(std::string_view name) const {
  static const nlohmann::json kNull;
  if (!value_->is_object()) refuse_value("an object");
  const auto found = value_->find(name);
  return JsonPart(*file_, found == value_->end() ? kNull : *found,
                  (key_.empty() ? "" : key_ + '.') + std::string(name));
}

std::vector<JsonPart> JsonPart::elements() const {
  if (!value_->is_array()) refuse_value("a list");
  std::vector<JsonPart> parts;
  for (size_t i = 0; i < value_->size(); ++i) {
    parts.emplace_back(*file_, (*value_)[i], key_ + '[' + std::to_string(i) + ']');
  }
  return parts;
}

std::string JsonPart::text() const {
  if (!value_->is_string()) refuse_value("a text");
  return value_->get<std::string>();
}

bool JsonPart::flag(bool otherwise) const {
  if (value_->is_null()) return otherwise;
  if (!value_->is_boolean()) refuse_value("true, false");
  return value_->get<bool>();
}

int32_t JsonPart::token_id() const {
  const auto refuse_id = [&] { refuse_value("0 to " + std::to_string(kMostTokens - 1)); };
  if (!value_->is_number_unsigned()) refuse_id();
  const auto id = value_->get<uint64_t>();
  if (id >= kMostTokens) refuse_id();
  return static_cast<int32_t>(id);
}

void JsonPart::refuse(const std::string& problem) const {
  throw ConfigError(file_->string(), visible_line(shortened(key_, kMostOfValue)),
                    shortened(problem, kMostOfMessage));
}

void JsonPart::refuse_value(const std::string& allowed) const {
  const std::string text = value_->dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  refuse("is " + visible_line(shortened(text, kMostOfValue)) + "; allowed: " + allowed);
}

}  // namespace fsdp
