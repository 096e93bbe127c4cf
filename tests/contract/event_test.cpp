#include "contract/record/event.h"

#include <sys/resource.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <fstream>

#include "tests/temporary_folder.h"

namespace fsdp {
namespace {

// Returns a body without default values. Its numbers and texts differ from each other.
template <typename Body>
Body filled() {
  Body body;
  int64_t number = 1;
  Body::visit_fields(body, [&](const char* name, auto& member, auto&&...) {
    using T = std::decay_t<decltype(member)>;
    ++number;
    if constexpr (std::same_as<T, std::string>) {
      member = std::string(name) + " \"\\\n\x01 \xc3\xa4 " + std::to_string(number);
    } else if constexpr (std::same_as<T, bool>) {
      member = true;
    } else if constexpr (std::integral<T> || std::same_as<T, std::optional<int64_t>>) {
      member = (int64_t{1} << 53) + number;
    } else {
      member = 0.1 * static_cast<double>(number);
    }
  });
  return body;
}

// Returns a step's JSON line with the name and value of one member replaced.
std::string step_line(const std::string& member, const std::string& replacement) {
  std::string line = to_json_line({.body = filled<StepDone>()});
  const size_t begin = line.find('"' + member + "\":");
  return line.replace(begin, line.find(',', begin) - begin, replacement);
}

TEMPLATE_TEST_CASE("an event that is written is read as it was", "", RunStarted, StepDone,
                   EvaluationDone, CheckpointDone, DeviceSample, MemoryPeak, StepAccount, CpuUse,
                   RunFinished, RunFailed, RunInterrupted) {
  for (const auto& body : {filled<TestType>(), TestType{}}) {
    const std::string line = to_json_line(
        {.version = 1, .sequence = 7, .time_unix_ms = 1'795'255'000'123, .body = body});
    const std::optional<Event> event = event_from_json_line(line);
    REQUIRE(event);
    CHECK(event->sequence == 7);
    CHECK(event->time_unix_ms == 1'795'255'000'123);
    REQUIRE(std::holds_alternative<TestType>(event->body));
    CHECK(to_json_line(*event) == line);
  }
}

TEST_CASE("keys may stand in any order, be unknown, and those of later versions missing") {
  const std::optional<Event> event = event_from_json_line(
      R"({"tokens": 3, "unpadded_tokens": 2, "of tomorrow": {"a": [1, 2]}, "time_unix_ms": 6, "loss": 2, "step": 9,
          "sequence": 5, "kind": "step", "version": 2, "gradient_norm": null, "step_time_ms": 1,
          "label_count": 3, "learning_rate": 0.1, "memory_allocated_bytes_forward": 1,
          "memory_reserved_bytes_forward": 1, "memory_allocated_bytes_max": 1,
          "memory_reserved_bytes_max": 1})");
  REQUIRE(event);
  CHECK(event->version == 2);
  CHECK(event->sequence == 5);
  const StepDone& step = std::get<StepDone>(event->body);
  CHECK(step.step == 9);
  CHECK(step.tokens == 3);
  CHECK(step.loss == 2.0);
  CHECK_FALSE(step.gradient_norm);
}

TEST_CASE("a step without its number or a figure is no step of number or figure 0") {
  for (const std::string name : {"step", "step_time_ms", "tokens", "memory_allocated_bytes_max"}) {
    CHECK_THROWS_WITH(event_from_json_line(step_line(name, R"("other":1)")),
                      Catch::Contains("'" + name + "'"));
  }
}

// Readers subtract sequences and times, and the differences must not overflow.
TEST_CASE("a number beyond all counting is no sequence, time or step") {
  for (const std::string name : {"sequence", "time_unix_ms", "step", "tokens"}) {
    for (const std::string value : {"9223372036854775807", "-9223372036854775808"}) {
      CHECK_THROWS_WITH(event_from_json_line(step_line(name, '"' + name + "\":" + value)),
                        Catch::Contains("'" + name + "'"));
    }
  }
}

TEST_CASE("an unknown kind is no event and no error") {
  CHECK_FALSE(event_from_json_line(
      R"({"version":1,"kind":"of tomorrow","sequence":4,"time_unix_ms":5,"step":"no number"})"));
}

TEST_CASE("what is not an event is an error that names the key at fault") {
  for (const auto& [key, line] : std::vector<std::pair<std::string, std::string>>{
           {"step", step_line("step", R"("step": "one")")},
           {"tokens", step_line("tokens", R"("tokens": 1.5)")},
           {"non_finite", step_line("non_finite", R"("non_finite": 0)")},
           {"tokens", step_line("tokens", R"("tokens": 9223372036854775808)")},
           {"sequence", R"({"version":1,"kind":"step","time_unix_ms":5})"},
           {"kind", R"({"version":1,"kind":4})"}}) {
    CHECK_THROWS_WITH(event_from_json_line(line),
                      Catch::StartsWith("not an event: ") && Catch::Contains("'" + key + "'"));
  }
}

TEST_CASE("what is not one whole JSON object is an error") {
  const std::string whole = to_json_line({.body = filled<StepDone>()});
  for (size_t size = 0; size < whole.size(); ++size) {
    INFO(whole.substr(0, size));
    CHECK_THROWS_WITH(event_from_json_line(whole.substr(0, size)),
                      Catch::StartsWith("not an event: "));
  }
  for (const std::string& text :
       {whole + "}", whole + whole, "[" + whole + "]", whole.substr(1), std::string("7"),
        std::string(4, '\0'), std::string("{\"kind\":\"\xff\"}")}) {
    INFO(text);
    CHECK_THROWS_WITH(event_from_json_line(text), Catch::StartsWith("not an event: "));
  }
}

// Limits the file size of this process during its lifetime. Longer writes fail as on a full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int);
};

StepDone step_number(int64_t number) {
  StepDone step;
  step.step = number;
  return step;
}

TEST_CASE("events that a full disk does not take are written whole when there is room again") {
  const TemporaryFolder folder;
  EventWriter writer(folder / "events.jsonl");
  {
    const FileSizeLimit limit(100);  // ends in the middle of a line
    for (int64_t step = 1; step <= 3; ++step) writer.write(step_number(step));
  }
  writer.write(step_number(4));
  std::ifstream file(folder / "events.jsonl");
  int64_t step = 0;
  for (std::string line; std::getline(file, line);) {
    const std::optional<Event> event = event_from_json_line(line);
    CHECK(event.value().sequence == step);
    CHECK(std::get<StepDone>(event->body).step == ++step);
  }
  CHECK(step == 4);
}

TEST_CASE("a run whose last events cannot be written does not end as finished") {
  const TemporaryFolder folder;
  EventWriter writer(folder / "events.jsonl");
  const FileSizeLimit limit(0);
  CHECK_NOTHROW(writer.write(step_number(1)));
  CHECK_THROWS_WITH(writer.write(RunFinished{.steps = 1}),
                    Catch::Contains("events.jsonl: cannot be written; ") &&
                        Catch::Contains("ulimit -f") && Catch::Contains("File too large"));
}

}  // namespace
}  // namespace fsdp
