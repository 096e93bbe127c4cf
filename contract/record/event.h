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
#include "contract/record/step_account.h"

// Event: what a rank reports, one JSON object a line in its events file.
namespace fsdp {

inline constexpr int kEventVersion = 1;

// The first event of every rank, before its first step.
struct RunStarted {
  static constexpr std::string_view kKind = "run_started";
  int64_t rank = 0;             // number of this process among all, from 0
  int64_t world_size = 1;       // number of processes
  int64_t local_rank = 0;       // the same among the processes of its host
  std::string host;             // host name
  int64_t process_id = 0;       // process number on the host
  std::string device;           // where this rank computes: "cpu", "cuda:0"
  std::string device_name;      // name of the processor or GPU
  int64_t threads = 1;          // CPU threads of this rank
  int64_t steps_planned = 0;    // optimizer steps of the whole run
  int64_t parameter_count = 0;  // parameters of the model, without adapters
  // Trained parameters, including those of adapters. nullopt if the trainer is an older one.
  std::optional<int64_t> trained_parameter_count;
  // Optimizer step of the checkpoint that the run resumes from; 0: it starts from the beginning.
  int64_t resumed_from_step = 0;
  std::string warning;             // for the user, in one line; empty: none
  std::string torch_version;       // version of libtorch
  std::string cuda_version;        // empty on the CPU, like the next four
  std::string nccl_version;        // "2.28.9"
  std::string driver_version;      // "580.65.06"
  std::string compute_capability;  // which kernels the GPU can run: "8.0"
  std::string gpu;                 // "gpu:3" as in device samples; for a MIG slice, its GPU
  // The settings of libtorch's allocator of GPU memory. The trainer's read
  // "expandable_segments:True", the user's "PYTORCH_ALLOC_CONF=...". Empty: the defaults.
  std::string allocator_settings;
  // CPUs that the rank was bound to because they are next to its GPU, such as "0-15,64-79"; empty:
  // none were chosen.
  std::string bound_cpus;
  // Memory that the rank may use: the GPU's, or on the CPU the node's within its cgroup's limit. It
  // is at most memory_limit_gib.
  std::optional<int64_t> device_memory_bytes;
  std::optional<double> power_limit_watts;  // power limit of the GPU
  std::optional<double> sm_clock_mhz_max;   // highest clock of the GPU's multiprocessors
  // Other processes that compute on the rank's GPU when the rank starts: all that the driver
  // counts, less one. A container has process numbers of its own, so they cannot be compared.
  std::optional<int64_t> other_processes;

  static void visit_fields(auto& self, auto&& visit) {
    visit("rank", self.rank);
    visit("world_size", self.world_size);
    visit("local_rank", self.local_rank);
    visit("host", self.host);
    visit("process_id", self.process_id);
    visit("device", self.device);
    visit("device_name", self.device_name);
    visit("threads", self.threads);
    visit("steps_planned", self.steps_planned);
    visit("parameter_count", self.parameter_count);
    visit("trained_parameter_count", self.trained_parameter_count);
    visit("resumed_from_step", self.resumed_from_step);
    visit("warning", self.warning);
    visit("torch_version", self.torch_version);
    visit("cuda_version", self.cuda_version);
    visit("nccl_version", self.nccl_version);
    visit("driver_version", self.driver_version);
    visit("compute_capability", self.compute_capability);
    visit("gpu", self.gpu);
    visit("allocator_settings", self.allocator_settings);
    visit("bound_cpus", self.bound_cpus);
    visit("device_memory_bytes", self.device_memory_bytes);
    visit("power_limit_watts", self.power_limit_watts);
    visit("sm_clock_mhz_max", self.sm_clock_mhz_max);
    visit("other_processes", self.other_processes);
  }
};

// One optimizer step of one rank.
struct StepDone {
  static constexpr std::string_view kKind = "step";
  int64_t step = 0;  // number of the optimizer step, from 1
  // Mean over all unmasked tokens of the global batch; null when not finite.
  std::optional<double> loss;
  bool non_finite = false;  // whether the loss was NaN or infinite
  // True if parameters were left as they are, because loss or gradients were not finite.
  bool skipped = false;
  double step_time_ms = 0;      // time of the whole step
  bool suspended = false;       // whether the process was stopped in this step or next to it
  int64_t tokens = 0;           // tokens read by all ranks, with padding
  int64_t unpadded_tokens = 0;  // tokens read by all ranks, without padding
  int64_t label_count = 0;      // unmasked labels of the global batch
  double learning_rate = 0;     // learning rate of the step
  // Global norm (L2) before clipping; null unless clipping or train.report_gradient_norm is on.
  std::optional<double> gradient_norm;
  // Factor on the loss that keeps float16 gradients from vanishing; only with fp16_mixed.
  std::optional<double> gradient_scale;
  // Allocated at the end of the last micro-batch's forward.
  int64_t memory_allocated_bytes_forward = 0;
  // Reserved at the end of the last micro-batch's forward.
  int64_t memory_reserved_bytes_forward = 0;
  int64_t memory_allocated_bytes_max = 0;  // peak of the step
  int64_t memory_reserved_bytes_max = 0;   // peak of the step
  // Time in which at least one collective of this rank was under way. Waiting for slower ranks
  // counts. Collectives that overlap count once. 0 with one rank; null: not measured.
  std::optional<double> communication_time_ms;
  // Floating point operations of this rank's matrix products, forward and backward (see
  // contract/families/flops.h). Padding counts.
  std::optional<double> model_flops;
  // model_flops, and the operations that activation checkpointing repeats.
  std::optional<double> hardware_flops;

  static void visit_fields(auto& self, auto&& visit) {
    visit("step", self.step);
    visit("loss", self.loss);
    visit("non_finite", self.non_finite);
    visit("skipped", self.skipped);
    visit("step_time_ms", self.step_time_ms);
    visit("suspended", self.suspended);
    visit("tokens", self.tokens);
    visit("unpadded_tokens", self.unpadded_tokens);
    visit("label_count", self.label_count);
    visit("learning_rate", self.learning_rate);
    visit("gradient_norm", self.gradient_norm);
    visit("gradient_scale", self.gradient_scale);
    visit("memory_allocated_bytes_forward", self.memory_allocated_bytes_forward);
    visit("memory_reserved_bytes_forward", self.memory_reserved_bytes_forward);
    visit("memory_allocated_bytes_max", self.memory_allocated_bytes_max);
    visit("memory_reserved_bytes_max", self.memory_reserved_bytes_max);
    visit("communication_time_ms", self.communication_time_ms);
    visit("model_flops", self.model_flops);
    visit("hardware_flops", self.hardware_flops);
  }
};

// The results on the validation set after a step. They are over all ranks, so every rank reports
// the same, except for the time.
struct EvaluationDone {
  static constexpr std::string_view kKind = "evaluation";
  int64_t step = 0;  // optimizer steps done before it
  // Mean over all unmasked tokens; null when not finite or without labels.
  std::optional<double> loss;
  bool non_finite = false;  // whether the loss was NaN or infinite
  // Share of the unmasked tokens that the model found most likely, 0 to 1; null without labels.
  std::optional<double> token_accuracy;
  int64_t label_count = 0;  // unmasked labels of all ranks
  double evaluation_time_ms = 0;

  static void visit_fields(auto& self, auto&& visit) {
    visit("step", self.step);
    visit("loss", self.loss);
    visit("non_finite", self.non_finite);
    visit("token_accuracy", self.token_accuracy);
    visit("label_count", self.label_count);
    visit("evaluation_time_ms", self.evaluation_time_ms);
  }
};

// A checkpoint that is complete; reported by rank 0.
struct CheckpointDone {
  static constexpr std::string_view kKind = "checkpoint";
  int64_t step = 0;          // optimizer steps done before it
  std::string path;          // its folder, relative to the run's
  int64_t size_bytes = 0;    // bytes of its files
  double write_time_ms = 0;  // time of gathering, writing and syncing

  static void visit_fields(auto& self, auto&& visit) {
    visit("step", self.step);
    visit("path", self.path);
    visit("size_bytes", self.size_bytes);
    visit("write_time_ms", self.write_time_ms);
  }
};

// A sample of one GPU of a node, or of the node's processors and memory. The node's first rank
// reports it. Figures that the device does not give are absent.
struct DeviceSample {
  static constexpr std::string_view kKind = "device_sample";
  std::string host;         // host name
  std::string device;       // "gpu:<N>" as NVML counts, or "cpu" for the node
  std::string device_name;  // name of the GPU or processor
  // Share of time that the device was busy. For the node, since its last sample. For a GPU, over
  // NVML's own period.
  std::optional<double> utilization_percent;
  std::optional<int64_t> cpu_count;  // processors of the node; null for a GPU
  // Memory in use; for the node: total minus available.
  std::optional<int64_t> memory_used_bytes;
  // Memory of the node that nothing uses, not even as a cache; null for a GPU.
  std::optional<int64_t> memory_free_bytes;
  std::optional<int64_t> memory_total_bytes;
  std::optional<double> power_watts;          // power drawn
  std::optional<double> temperature_celsius;  // temperature of the GPU
  std::optional<double> sm_clock_mhz;         // clock of the multiprocessors
  std::optional<double> memory_clock_mhz;     // clock of the memory

  static void visit_fields(auto& self, auto&& visit) {
    visit("host", self.host);
    visit("device", self.device);
    visit("device_name", self.device_name);
    visit("utilization_percent", self.utilization_percent);
    visit("cpu_count", self.cpu_count);
    visit("memory_used_bytes", self.memory_used_bytes);
    visit("memory_free_bytes", self.memory_free_bytes);
    visit("memory_total_bytes", self.memory_total_bytes);
    visit("power_watts", self.power_watts);
    visit("temperature_celsius", self.temperature_celsius);
    visit("sm_clock_mhz", self.sm_clock_mhz);
    visit("memory_clock_mhz", self.memory_clock_mhz);
  }
};

// How a rank and other processes used the CPUs that the rank may run on. A rank reports it once,
// after its last step. It covers the steps after the warm-up, without evaluations and checkpoints.
// Figures that the kernel does not give are absent.
struct CpuUse {
  static constexpr std::string_view kKind = "cpu_use";
  std::string cpus;             // CPUs that the rank may run on: "0-15,64-79"
  int64_t cpu_count = 0;        // number of these CPUs
  double measured_time_ms = 0;  // time of the steps that are measured
  double cpu_time_ms = 0;       // CPU time of the rank's process in this time
  // CPU time that all processes, the kernel and the hypervisor took on these CPUs.
  std::optional<double> cpus_busy_time_ms;
  // Time that the rank's threads were ready to run but waited for a CPU, summed over threads.
  std::optional<double> run_queue_wait_time_ms;

  static void visit_fields(auto& self, auto&& visit) {
    visit("cpus", self.cpus);
    visit("cpu_count", self.cpu_count);
    visit("measured_time_ms", self.measured_time_ms);
    visit("cpu_time_ms", self.cpu_time_ms);
    visit("cpus_busy_time_ms", self.cpus_busy_time_ms);
    visit("run_queue_wait_time_ms", self.run_queue_wait_time_ms);
  }
};

// The last event of a rank that did all its steps.
struct RunFinished {
  static constexpr std::string_view kKind = "run_finished";
  int64_t steps = 0;  // optimizer steps done
  // Peak of the process's resident memory on the host, without mapped files.
  std::optional<int64_t> memory_host_bytes_max{};

  static void visit_fields(auto& self, auto&& visit) {
    visit("steps", self.steps);
    visit("memory_host_bytes_max", self.memory_host_bytes_max);
  }
};

// The last event of a rank that stopped by itself because of an error.
struct RunFailed {
  static constexpr std::string_view kKind = "run_failed";
  int64_t exit_code = 1;  // what the process exits with
  std::string reason;     // why, in one line

  static void visit_fields(auto& self, auto&& visit) {
    visit("exit_code", self.exit_code);
    visit("reason", self.reason);
  }
};

// The last event of a rank that was asked to stop.
struct RunInterrupted {
  static constexpr std::string_view kKind = "run_interrupted";
  int64_t step = 0;  // optimizer steps done

  static void visit_fields(auto& self, auto&& visit) { visit("step", self.step); }
};

// To add an event: write a struct like those above, and list it in `body`. The ranks write it in
// trainer/train/. Programs that imitate ranks write it, too: tests/fakes/stub_trainer.cpp and
// tests/hostile/event_model.py.
struct Event {
  int version = kEventVersion;
  int64_t sequence = 0;  // from 0, per rank and attempt
  // The time of writing. Within one rank, changes of the system clock do not affect it.
  int64_t time_unix_ms = 0;
  std::optional<int64_t> elapsed_ms{};  // since the rank's process was started
  std::variant<RunStarted, StepDone, EvaluationDone, CheckpointDone, DeviceSample, MemoryPeak,
               StepAccount, CpuUse, RunFinished, RunFailed, RunInterrupted>
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
  // run_failed or run_interrupted, which are a rank's last events: another thread may still report.
  // If a disk is full or read-only, up to 64 MiB of events stay in memory and are written later.
  // run_finished waits up to 10 minutes for the disk. Throws std::system_error beyond these limits,
  // and for other errors.
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
  std::string pending_;  // text that is not in the file yet
};

}  // namespace fsdp
