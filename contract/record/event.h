#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "base/system/unix_time.h"
#include "base/text/fields.h"
#include "contract/record/memory_peak.h"

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
  int64_t resumed_from_step = 0;
  std::string warning;
  std::string torch_version;
  std::string cuda_version;        // empty on the CPU, as the next four
  std::string nccl_version;        // "2.28.9"
  std::string driver_version;      // "580.65.06"
  std::string compute_capability;  // "8.0"
  std::string gpu;                 // "gpu:3" as device samples name it; of a MIG slice, its GPU
  std::string allocator_settings;  // "expandable_segments:True"; empty on the CPU
  std::string bound_cpus;          // "0-15,64-79"
  std::optional<int64_t> device_memory_bytes;
  std::optional<double> power_limit_watts;
  std::optional<double> sm_clock_mhz_max;
  std::optional<int64_t> other_processes;

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
    visit("resumed_from_step", self.resumed_from_step,
          "Optimizer step of the checkpoint that the run goes on from; 0: from the beginning.",
          any_value());
    visit("warning", self.warning, "What the user should know, in one line; else empty.",
          any_value());
    visit("torch_version", self.torch_version, "Version of libtorch.", any_value());
    visit("cuda_version", self.cuda_version, "Version of CUDA; empty on the CPU.", any_value());
    visit("nccl_version", self.nccl_version, "Version of NCCL; empty on the CPU.", any_value());
    visit("driver_version", self.driver_version, "Version of the GPU's driver; empty on the CPU.",
          any_value());
    visit("compute_capability", self.compute_capability,
          "Which kernels the GPU can run; empty on the CPU.", any_value());
    visit("gpu", self.gpu, "The rank's GPU as device samples name it; empty on the CPU.",
          any_value());
    visit(
        "allocator_settings", self.allocator_settings,
        "How libtorch's allocator of GPU memory is set: by the trainer, or by the variable of the "
        "user's that is named; empty: its defaults.",
        any_value());
    visit("bound_cpus", self.bound_cpus,
          "CPUs that the rank was bound to because they are next to its GPU; empty: none were "
          "chosen.",
          any_value());
    visit("device_memory_bytes", self.device_memory_bytes,
          "Memory that the rank may use: the GPU's, on the CPU the node's, or memory_limit_gib "
          "where that is less.",
          any_value());
    visit("power_limit_watts", self.power_limit_watts, "Power limit of the GPU.", any_value());
    visit("sm_clock_mhz_max", self.sm_clock_mhz_max, "Highest clock of the GPU's multiprocessors.",
          any_value());
    visit("other_processes", self.other_processes,
          "Processes of others that compute on the rank's GPU when it starts.", any_value());
  }
};

// One optimizer step of one rank.
struct StepDone {
  static constexpr std::string_view kKind = "step";
  int64_t step = 0;
  std::optional<double> loss;
  bool non_finite = false;
  bool skipped = false;
  double step_time_ms = 0;
  int64_t tokens = 0;
  int64_t unpadded_tokens = 0;
  int64_t label_count = 0;
  double learning_rate = 0;
  std::optional<double> gradient_norm;
  std::optional<double> gradient_scale;
  int64_t memory_allocated_bytes_forward = 0;
  int64_t memory_reserved_bytes_forward = 0;
  int64_t memory_allocated_bytes_max = 0;
  int64_t memory_reserved_bytes_max = 0;
  std::optional<double> communication_time_ms;
  std::optional<double> model_flops;
  std::optional<double> hardware_flops;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("step", self.step, "Number of the optimizer step, from 1.", any_value());
    visit("loss", self.loss,
          "Mean over all unmasked tokens of the global batch; null when not finite.", any_value());
    visit("non_finite", self.non_finite, "Whether the loss was NaN or infinite.", any_value());
    visit("skipped", self.skipped,
          "Whether parameters were left as they are, because loss or gradients were not finite.",
          any_value());
    visit("step_time_ms", self.step_time_ms, "Time of the whole step.", any_value());
    visit("tokens", self.tokens, "Tokens read by all ranks, with those that fill sequences up.",
          any_value());
    visit("unpadded_tokens", self.unpadded_tokens,
          "Tokens read by all ranks, without those that fill sequences up.", any_value());
    visit("label_count", self.label_count, "Unmasked labels of the global batch.", any_value());
    visit("learning_rate", self.learning_rate, "Learning rate of the step.", any_value());
    visit("gradient_norm", self.gradient_norm,
          "Global norm before clipping; with clipping or train.report_gradient_norm.", any_value());
    visit("gradient_scale", self.gradient_scale,
          "Factor on the loss that keeps float16 gradients from vanishing; only with fp16_mixed.",
          any_value());
    visit("memory_allocated_bytes_forward", self.memory_allocated_bytes_forward,
          "Allocated at the end of the last micro-batch's forward.", any_value());
    visit("memory_reserved_bytes_forward", self.memory_reserved_bytes_forward,
          "Reserved at the end of the last micro-batch's forward.", any_value());
    visit("memory_allocated_bytes_max", self.memory_allocated_bytes_max, "Peak of the step.",
          any_value());
    visit("memory_reserved_bytes_max", self.memory_reserved_bytes_max, "Peak of the step.",
          any_value());
    visit("communication_time_ms", self.communication_time_ms,
          "Time in which at least one collective of this rank was under way: waiting for slower "
          "ranks counts, and time that several share counts once. 0 with one rank; null: not "
          "measured.",
          any_value());
    visit("model_flops", self.model_flops,
          "Floating point operations of the products of this rank's micro-batches, forward and "
          "backward; tokens that fill sequences up count.",
          any_value());
    visit("hardware_flops", self.hardware_flops,
          "The same with those that activation checkpointing does again.", any_value());
  }
};

// The validation set's figures after a step, over all ranks; every rank reports the same.
struct EvaluationDone {
  static constexpr std::string_view kKind = "evaluation";
  int64_t step = 0;
  std::optional<double> loss;
  bool non_finite = false;
  std::optional<double> token_accuracy;
  int64_t label_count = 0;
  double evaluation_time_ms = 0;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("step", self.step, "Optimizer steps done before it.", any_value());
    visit("loss", self.loss,
          "Mean over all unmasked tokens; null when not finite, and without labels.", any_value());
    visit("non_finite", self.non_finite, "Whether the loss was NaN or infinite.", any_value());
    visit("token_accuracy", self.token_accuracy,
          "Part of the unmasked tokens that were the most likely ones; null without labels.",
          any_value());
    visit("label_count", self.label_count, "Unmasked labels of all ranks.", any_value());
    visit("evaluation_time_ms", self.evaluation_time_ms, "Time of the evaluation.", any_value());
  }
};

// A checkpoint that is complete; reported by rank 0.
struct CheckpointDone {
  static constexpr std::string_view kKind = "checkpoint";
  int64_t step = 0;
  std::string path;
  int64_t size_bytes = 0;
  double write_time_ms = 0;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("step", self.step, "Optimizer steps done before it.", any_value());
    visit("path", self.path, "Its folder, relative to the run's.", any_value());
    visit("size_bytes", self.size_bytes, "Bytes of its files.", any_value());
    visit("write_time_ms", self.write_time_ms, "Time of gathering, writing and syncing.",
          any_value());
  }
};

// A sample of one GPU of a node, or of the node's processors and memory. The node's first rank
// reports it. Figures that the device does not give are absent.
struct DeviceSample {
  static constexpr std::string_view kKind = "device_sample";
  std::string host;
  std::string device;  // "gpu:0" as NVML counts, or "cpu"
  std::string device_name;
  std::optional<double> utilization_percent;
  std::optional<int64_t> cpu_count;
  std::optional<int64_t> memory_used_bytes;
  std::optional<int64_t> memory_free_bytes;
  std::optional<int64_t> memory_total_bytes;
  std::optional<double> power_watts;
  std::optional<double> temperature_celsius;
  std::optional<double> sm_clock_mhz;
  std::optional<double> memory_clock_mhz;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("host", self.host, "Host name.", any_value());
    visit("device", self.device, "gpu:<N> as NVML counts, or cpu for the whole node.", any_value());
    visit("device_name", self.device_name, "Name of the GPU or processor.", any_value());
    visit("utilization_percent", self.utilization_percent,
          "Part of the time since the last sample that it was busy.", any_value());
    visit("cpu_count", self.cpu_count, "Processors of the node; null for a GPU.", any_value());
    visit("memory_used_bytes", self.memory_used_bytes,
          "Memory in use; of the node: what is not available.", any_value());
    visit("memory_free_bytes", self.memory_free_bytes,
          "Memory of the node that nothing uses, not even as a cache; null for a GPU.",
          any_value());
    visit("memory_total_bytes", self.memory_total_bytes, "Memory there is.", any_value());
    visit("power_watts", self.power_watts, "Power drawn.", any_value());
    visit("temperature_celsius", self.temperature_celsius, "Temperature of the GPU.", any_value());
    visit("sm_clock_mhz", self.sm_clock_mhz, "Clock of the multiprocessors.", any_value());
    visit("memory_clock_mhz", self.memory_clock_mhz, "Clock of the memory.", any_value());
  }
};

// How a rank and others used the CPUs that the rank may run on. A rank reports it once, after its
// last step. It covers the steps after the warm-up, without evaluations and checkpoints. Figures
// that the kernel does not give are absent.
struct CpuUse {
  static constexpr std::string_view kKind = "cpu_use";
  std::string cpus;  // "0-15,64-79"
  int64_t cpu_count = 0;
  double measured_time_ms = 0;
  double cpu_time_ms = 0;
  std::optional<double> cpus_busy_time_ms;
  std::optional<double> run_queue_wait_time_ms;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("cpus", self.cpus, "CPUs that the rank may run on.", any_value());
    visit("cpu_count", self.cpu_count, "How many these are.", any_value());
    visit("measured_time_ms", self.measured_time_ms, "Time of the steps that are measured.",
          any_value());
    visit("cpu_time_ms", self.cpu_time_ms, "CPU time of the rank's process in this time.",
          any_value());
    visit("cpus_busy_time_ms", self.cpus_busy_time_ms,
          "CPU time that all processes, the kernel and the hypervisor took on these CPUs.",
          any_value());
    visit("run_queue_wait_time_ms", self.run_queue_wait_time_ms,
          "Time that the rank's threads were ready to run and waited for a CPU, summed over them.",
          any_value());
  }
};

// The last event of a rank that did all its steps.
struct RunFinished {
  static constexpr std::string_view kKind = "run_finished";
  int64_t steps = 0;
  std::optional<int64_t> memory_host_bytes_max{};

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("steps", self.steps, "Optimizer steps done.", any_value());
    visit("memory_host_bytes_max", self.memory_host_bytes_max,
          "The most of the host's memory that the process had resident, without mapped files.",
          any_value());
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
  int64_t sequence = 0;  // from 0, per rank and attempt
  // The time of writing. Within one rank, changes of the system clock do not affect it.
  int64_t time_unix_ms = 0;
  std::optional<int64_t> elapsed_ms{};  // since the rank's process was started
  std::variant<RunStarted, StepDone, EvaluationDone, CheckpointDone, DeviceSample, MemoryPeak,
               CpuUse, RunFinished, RunFailed, RunInterrupted>
      body;
};

// One line of JSON without the line feed. Numbers that are not finite are written as null.
std::string to_json_line(const Event& event);

// Reads one line. Unknown keys are ignored and an unknown kind gives nullopt, so an older reader
// can read a newer writer's file. Throws std::runtime_error for any other text.
std::optional<Event> event_from_json_line(std::string_view line);

// Appends events to a file, from any thread. Each event is one write, so a reader sees whole lines,
// except for a torn last one.
class EventWriter {
 public:
  // Creates or truncates `path`; throws std::system_error.
  explicit EventWriter(const std::string& path);
  ~EventWriter();
  EventWriter(const EventWriter&) = delete;
  EventWriter& operator=(const EventWriter&) = delete;

  int descriptor() const { return descriptor_; }

  // Fills in version, sequence and time, and appends the event. Does nothing after run_finished,
  // run_failed or run_interrupted, which are a rank's last: another thread may report too late. If
  // a disk is full or read-only, up to 64 MiB of events stay in memory and are written later.
  // run_finished waits up to 10 minutes for the disk. Throws std::system_error beyond these limits.
  void write(decltype(Event::body) body);

 private:
  // Returns 0, or the errno of a write that failed.
  int write_pending();
  [[noreturn]] void fail(int error_number) const;

  int descriptor_;
  std::string path_;
  std::mutex mutex_;
  UnixClock clock_;
  int64_t process_started_unix_ms_;  // by clock_
  int64_t sequence_ = 0;
  bool ended_ = false;
  std::string pending_;  // what is not in the file yet
};

}  // namespace fsdp
