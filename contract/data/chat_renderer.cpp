#include "contract/data/chat_renderer.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <system_error>

#include "contract/data/chat_turns.h"
#include "contract/data/render_chats.h"
#include "contract/files/input_file.h"
#include "contract/text/config_error.h"
#include "contract/text/foreign_json.h"
#include "contract/text/json.h"

namespace fsdp {
namespace {

constexpr std::chrono::minutes kPatience{5};  // the script has a limit of its own, in CPU time
constexpr size_t kLargestAnswerBytes = 4 * kMostRecordBytes;

std::string python() {
  if (const char* const given = std::getenv("FSDP_PYTHON")) return given;
  const std::string of_set_up = FSDP_VENV_PYTHON;
  return std::filesystem::exists(of_set_up) ? of_set_up : "python3";
}

std::vector<std::string> own_environment() {
  std::vector<std::string> variables;
  for (char** each = environ; *each != nullptr; ++each) variables.emplace_back(*each);
  return variables;
}

[[noreturn]] void refuse_python(const ChatTemplate& chat_template, const std::string& problem) {
  throw ConfigError("", "data.format",
                    "is absent, so that the chat template of " + chat_template.file.string() +
                        " writes the chats; this takes Python with jinja2, and " + problem +
                        ". Install both (python3 -m pip install jinja2), let FSDP_PYTHON name a "
                        "Python that has it, or give a format: llama2, llama3, chatml, mistral");
}

// A range of bytes in a text of `size` bytes, behind `after`.
TextRange range_of(const nlohmann::json& pair, size_t after, size_t size) {
  const TextRange range{pair.at(0).get<size_t>(), pair.at(1).get<size_t>()};
  if (range.begin < after || range.end < range.begin || range.end > size) {
    throw MalformedChat("has answers that its chat template writes into each other");
  }
  return range;
}

}  // namespace

void ChatRenderer::start() {
  nlohmann::json answer;
  try {
    python_ = std::make_unique<Conversation>(
        std::vector<std::string>{python(), "-I", "-c", std::string(kRenderChats)},
        own_environment());
    JsonObject variables;
    for (const auto& [name, text] : template_.variables) variables.add(name, text);
    const JsonObject question =
        JsonObject().add("template", template_.text).add("variables", variables);
    answer = parse_foreign_json(python_->ask(question.text(), kPatience));
  } catch (const std::runtime_error& error) {  // and std::system_error
    refuse_python(template_, error.what());
  }
  if (answer.contains("missing")) refuse_python(template_, answer.at("missing").get<std::string>());
  if (!answer.contains("error")) return;
  refuse_file(template_.file,
              "has a chat template that cannot be read: " + answer.at("error").get<std::string>());
}

RenderedChat ChatRenderer::render(std::span<const Turn> turns) {
  if (!python_) start();
  std::vector<JsonObject> messages;
  for (const Turn& turn : turns) {
    messages.push_back(JsonObject()
                           .add("role", turn.role)
                           .add("content", turn.content)
                           .add("is_trained_on", turn.role == "assistant"));
  }
  nlohmann::json answer;
  try {
    answer =
        parse_foreign_json(python_->ask(JsonObject().add("messages", messages).text(), kPatience),
                           kLargestAnswerBytes);
  } catch (const std::runtime_error& error) {
    throw MalformedChat("cannot be written by the chat template: " + std::string(error.what()));
  }
  if (answer.contains("error")) {
    throw MalformedChat("cannot be written by the chat template of " + template_.file.string() +
                        ": " + answer.at("error").get<std::string>());
  }
  RenderedChat chat{.text = answer.at("text").get<std::string>(),
                    .trained = {},
                    .is_exact = answer.at("is_exact").get<bool>()};
  size_t after = 0;
  for (const nlohmann::json& pair : answer.at("trained")) {
    chat.trained.push_back(range_of(pair, after, chat.text.size()));
    after = chat.trained.back().end;
  }
  return chat;
}

}  // namespace fsdp
