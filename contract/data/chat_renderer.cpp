#include "contract/data/chat_renderer.h"

#include <chrono>
#include <cstdlib>
#include <stdexcept>

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

// The only variables that Python gets: those that it needs to start.
std::vector<std::string> environment_of_python() {
  std::vector<std::string> variables;
  for (const char* const name : {"PATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL"}) {
    if (const char* const value = std::getenv(name)) {
      variables.push_back(std::string(name) + '=' + value);
    }
  }
  return variables;
}

[[noreturn]] void refuse_python(const ChatTemplate& chat_template, const std::string& problem) {
  throw ConfigError("", "data.format",
                    "is absent, so that the chat template of " + chat_template.file.string() +
                        " writes the chats; this takes Python with jinja2 3.1.6 or later, and " +
                        problem +
                        ". Install both (python3 -m pip install jinja2), let FSDP_PYTHON name a "
                        "Python that has it, or give a format: llama2, llama3, chatml, mistral");
}

// Throws std::exception if the line is an error, or no answer.
RenderedChat chat_of(const std::string& line) {
  const nlohmann::json answer = parse_foreign_json(line, kLargestAnswerBytes);
  if (answer.contains("error")) throw std::runtime_error(answer.at("error").get<std::string>());
  RenderedChat chat{.text = answer.at("text").get<std::string>(),
                    .trained = {},
                    .is_exact = answer.at("is_exact").get<bool>()};
  size_t after = 0;
  for (const nlohmann::json& pair : answer.at("trained")) {
    const TextRange range{pair.at(0).get<size_t>(), pair.at(1).get<size_t>()};
    if (range.begin < after || range.end < range.begin || range.end > chat.text.size()) {
      throw std::runtime_error("what it trains on overlaps");
    }
    chat.trained.push_back(range);
    after = range.end;
  }
  return chat;
}

}  // namespace

void ChatRenderer::start() {
  nlohmann::json answer;
  try {
    python_ = std::make_unique<Conversation>(
        std::vector<std::string>{python_program(), "-I", "-c", std::string(kRenderChats)},
        environment_of_python());
    JsonObject variables;
    for (const auto& [name, text] : template_.variables) variables.add(name, text);
    const JsonObject question =
        JsonObject().add("template", template_.text).add("variables", variables);
    answer = parse_foreign_json(python_->ask(question.text(), kPatience));
    if (!answer.is_object()) throw std::runtime_error(python_program() + " answers something else");
  } catch (const std::exception& error) {
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
  try {
    return chat_of(python_->ask(JsonObject().add("messages", messages).text(), kPatience));
  } catch (const std::exception& error) {
    throw MalformedChat("cannot be written by the chat template of " + template_.file.string() +
                        ": " + error.what());
  }
}

}  // namespace fsdp
