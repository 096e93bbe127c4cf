#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "trainer/contract/fields.h"

// Event: what a rank reports, one JSON object a line in its events file.
namespace fsdp {

inline constexpr int kEventVersion = 1;

// The first event of every rank, before its first step.
struct RunStarted {
  static constexpr std::string_view kKind = "run_started";
  int64_t rank = 0;
  int64_t world_size = 1;
  int64_t local_rank = 0;
  std::string host;
  int64_t process_id = 0;
  std::string device;       // "cpu", "cuda:0"
  std::string device_name;  // of the processor or the GPU
  int64_t threads = 1;
  int64_t steps_planned = 0;
  int64_t parameter_count = 0;
  std::string torch_version;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("rank", self.rank, "This process among all.", any_value());
    visit("world_size", self.world_size, "Number of processes.", any_value());
    visit("local_rank", self.local_rank, "This process on its host.", any_value());
    visit("host", self.host, "Host name.", any_value());
    visit("process_id", self.process_id, "Process number on the host.", any_value());
    visit("device", self.device, "Where this rank computes.", any_value());
    visit("device_name", self.device_name, "Name of the processor or GPU.", any_value());
    visit("threads", self.threads, "CPU threads of this rank.", any_value());
    visit("steps_planned", self.steps_planned, "Optimizer steps of the whole run.", any_value());
    visit("parameter_count", self.parameter_count, "Parameters of the model.", any_value());
    visit("torch_version", self.torch_version, "Version of libtorch.", any_value());
  }
};

// One optimizer step of one rank.
struct StepDone {
  static constexpr std::string_view kKind = "step";
  int64_t step = 0;
  std::optional<double> loss;
  bool non_finite = false;
  double step_time_ms = 0;
  int64_t tokens = 0;
  int64_t label_count = 0;
  double learning_rate = 0;
  std::optional<double> gradient_norm;
  int64_t memory_allocated_bytes_forward = 0;
  int64_t memory_reserved_bytes_forward = 0;
  int64_t memory_allocated_bytes_max = 0;
  int64_t memory_reserved_bytes_max = 0;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("step", self.step, "Number of the optimizer step, from 1.", any_value());
    visit("loss", self.loss,
          "Mean over all unmasked tokens of the global batch; null when not finite.", any_value());
    visit("non_finite", self.non_finite, "Whether the loss was NaN or infinite.", any_value());
    visit("step_time_ms", self.step_time_ms, "Time of the whole step.", any_value());
    visit("tokens", self.tokens, "Tokens read by all ranks.", any_value());
    visit("label_count", self.label_count, "Unmasked labels of the global batch.", any_value());
    visit("learning_rate", self.learning_rate, "Learning rate of the step.", any_value());
    visit("gradient_norm", self.gradient_norm, "Global norm before clipping; only with clipping.",
          any_value());
    visit("memory_allocated_bytes_forward", self.memory_allocated_bytes_forward,
          "Allocated at the end of the last micro-batch's forward.", any_value());
    visit("memory_reserved_bytes_forward", self.memory_reserved_bytes_forward,
          "Reserved at the end of the last micro-batch's forward.", any_value());
    visit("memory_allocated_bytes_max", self.memory_allocated_bytes_max, "Peak of the step.",
          any_value());
    visit("memory_reserved_bytes_max", self.memory_reserved_bytes_max, "Peak of the step.",
          any_value());
  }
};

// The last event of a rank that did all its steps.
struct RunFinished {
  static constexpr std::string_view kKind = "run_finished";
  int64_t steps = 0;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("steps", self.steps, "Optimizer steps done.", any_value());
  }
};

// The last event of a rank that stopped by itself because of an error.
struct RunFailed {
  static constexpr std::string_view kKind = "run_failed";
  int64_t exit_code = 1;
  std::string reason;  // one line

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("exit_code", self.exit_code, "What the process exits with.", any_value());
    visit("reason", self.reason, "Why, in one line.", any_value());
  }
};

// The last event of a rank that was asked to stop.
struct RunInterrupted {
  static constexpr std::string_view kKind = "run_interrupted";
  int64_t step = 0;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("step", self.step, "Optimizer steps done.", any_value());
  }
};

struct Event {
  int version = kEventVersion;
  int64_t sequence = 0;      // from 0, per rank and attempt
  int64_t time_unix_ms = 0;  // when it was written
  std::variant<RunStarted, StepDone, RunFinished, RunFailed, RunInterrupted> body;
};

// One line of JSON without the line feed. Numbers that are not finite are written as null.
std::string to_json_line(const Event& event);

// Reads one line. Unknown keys are ignored and an unknown kind gives nullopt, so that an older
// reader survives a newer writer. Throws std::runtime_error on anything that is not such an object.
std::optional<Event> event_from_json_line(std::string_view line);

// Appends events to a file; each is one write, so a reader sees whole lines but for a torn last
// one.
class EventWriter {
 public:
  // Creates or truncates `path`; throws std::system_error.
  explicit EventWriter(const std::string& path);
  ~EventWriter();
  EventWriter(const EventWriter&) = delete;
  EventWriter& operator=(const EventWriter&) = delete;

  // Fills in version, sequence and time. Throws std::system_error, for instance when the disk is
  // full.
  void write(decltype(Event::body) body);

 private:
  int descriptor_;
  std::string path_;
  int64_t sequence_ = 0;
};

}  // namespace fsdp
