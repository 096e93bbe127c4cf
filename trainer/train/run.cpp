// Starts a rank, runs it, and reports its end. Only the first failure of a rank is reported.
#include "trainer/train/run.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iostream>
#include <map>
#include <ranges>
#include <utility>
#include <vector>

#include "base/system/log.h"
#include "base/system/start_up.h"
#include "base/text/bytes_text.h"
#include "base/text/config_error.h"
#include "base/text/json.h"
#include "base/text/utf8.h"
#include "contract/plan/calibration.h"
#include "contract/record/run_paths.h"
#include "contract/spec/run_spec_yaml.h"
#include "formats/inputs/hub_inputs.h"
#include "formats/inputs/inputs.h"
#include "trainer/calibrate/calibrate.h"
#include "trainer/checkpoint/output_file.h"
#include "trainer/comm/environment.h"
#include "trainer/train/determinism.h"
#include "trainer/train/device.h"
#include "trainer/train/same_run.h"
#include "trainer/train/sample.h"
#include "trainer/train/stop_signal.h"
#include "trainer/train/trainer.h"

namespace fsdp {
namespace {

constexpr int kFailure = static_cast<int>(ExitCode::kRunFailed);

RunPaths paths_of(const std::filesystem::path& spec_file) {
  return RunPaths(std::filesystem::absolute(spec_file).parent_path());
}

void check_world(const RunSpec& spec, const WorldEnvironment& world) {
  if (spec.strategy.ranks != world.world_size) {
    throw ConfigError("", "strategy.ranks",
                      "is " + std::to_string(spec.strategy.ranks) + ", but the launcher started " +
                          std::to_string(world.world_size) +
                          " processes (WORLD_SIZE or its like); start as many as ranks");
  }
}

// Returns "8 x 16.0 MiB attention, 12.0 MiB head", the most bytes first. Allocations of one size
// and use are counted together.
std::string largest_text(const std::vector<CountedAllocation>& allocations) {
  constexpr size_t kMostGroups = 6;
  struct Sum {
    int64_t count = 0;
    int64_t bytes = 0;
  };
  std::map<std::string, Sum> sums;
  for (const CountedAllocation& allocation : allocations) {
    Sum& sum =
        sums[bytes_text(allocation.bytes) + ' ' + std::string(name_of(allocation.label.use))];
    ++sum.count;
    sum.bytes += allocation.bytes;
  }
  std::vector<std::pair<std::string, Sum>> groups(sums.begin(), sums.end());
  std::ranges::sort(groups, std::greater(), [](const auto& group) { return group.second.bytes; });
  std::string text;
  for (const auto& [of_one, sum] : groups | std::views::take(kMostGroups)) {
    if (!text.empty()) text += ", ";
    text += (sum.count > 1 ? std::to_string(sum.count) + " x " : "") + of_one;
  }
  return text;
}

std::chrono::milliseconds to_milliseconds(double seconds) {
  return std::chrono::milliseconds(std::llround(1000 * seconds));
}

}  // namespace

RankRun::RankRun(std::filesystem::path spec_file, int attempt)
    : spec_file_(std::move(spec_file)),
      attempt_(attempt),
      failure_notice_(
          [this](const std::string& reason) { fail(ExitCode::kCommunication, reason); }) {}

RankRun::~RankRun() = default;

void RankRun::open_events(int rank) {
  const RunPaths paths = paths_of(spec_file_);
  std::filesystem::create_directory(paths.attempt(attempt_));
  auto events = std::make_unique<EventWriter>(paths.events(attempt_, rank));
  const std::lock_guard lock(events_mutex_);
  events_ = std::move(events);
  const auto line = [](const std::string& reason, int64_t time_unix_ms) {
    return to_json_line(
        {.time_unix_ms = time_unix_ms, .body = RunFailed{.exit_code = kFailure, .reason = reason}});
  };
  set_start_up_events(events_->descriptor(), line);
}

void RankRun::meet_other_ranks(const RunSpec& spec, const WorldEnvironment& world,
                               at::Device device) {
  ProcessGroupOptions options;
  options.rendezvous_timeout = to_milliseconds(spec.communication.rendezvous_timeout_s);
  options.operation_timeout = to_milliseconds(spec.communication.timeout_s);
  options.nccl_for_single_rank = spec.strategy.kind != StrategyKind::kSingle;
  options.on_timeout = [this](const std::string& reason) {
    fail(ExitCode::kCommunication, reason);
  };
  options.failure_notice = &failure_notice_;
  group_ = make_process_group(world, device, options);
}

RankRun::Rank RankRun::start(std::optional<DeviceKind> alone_on) {
  hold_stop_signals();
  Rank rank;
  if (!alone_on) rank.world = read_world_environment();
  const WorldEnvironment& world = rank.world;
  // Opened as early as possible. A failure of the start is then an event.
  if (attempt_ != 0) open_events(world.rank);
  begin_start_up_part("reading " + spec_file_.string());
  RunSpec& spec = rank.spec;
  spec = read_run_spec(spec_file_);
  if (alone_on) {
    spec.strategy = {};
    spec.device = *alone_on;
  }
  take_from_cache(spec);
  watch_start_up(spec.communication.start_up_timeout_s, kFailure);
  check_world(spec, world);
  check_inputs_of_rank(spec);
  const std::vector<NamedInput> files = compared_files(spec);

  if (spec.train.deterministic) make_deterministic();
  begin_start_up_part("opening the device");
  rank.device = pick_device(spec.device, world);
  limit_kept_products(spec, rank.device);
  begin_start_up_part("starting its threads");
  const int cores = available_cores();
  rank.bound_cpus = bind_to_device(spec, world, rank.device);
  start_threads(spec, world, cores);
  set_allocator(rank.device);
  set_memory_limit(spec, rank.device);
  pause_start_up();
  meet_other_ranks(spec, world, rank.device);
  require_same_run(spec, attempt_, files, *group_);
  refuse_shared_gpu(*group_, rank.device);
  backend_ = make_backend(rank.device, spec.kernels);
  begin_attention(spec, rank.device);
  return rank;
}

ExitCode RankRun::calibrate(const std::filesystem::path& results, int rounds) {
  const Rank rank = start();
  end_start_up();
  const ModelConfig config = model_config(rank.spec);
  Calibration calibration = fsdp::calibrate(rank.spec, config, *backend_, *group_, rounds);
  failure_notice_.let_others_end();
  group_->barrier();
  if (rank.world.rank != 0) return ExitCode::kOk;
  calibration.device = device_name(rank.device);
  const std::filesystem::path file = calibration_file(
      results, calibration_identity(rank.spec, config), calibration.device, calibration.libtorch);
  const std::filesystem::path written = file.string() + '.' + std::to_string(getpid());
  write_file(written, json_text(calibration));
  // A plan may read the old file meanwhile.
  std::filesystem::rename(written, file);
  return ExitCode::kOk;
}

ExitCode RankRun::sample(const std::string& prompt, int64_t tokens, DeviceKind device) {
  const Rank rank = start(device);
  end_start_up();
  const std::string answer =
      fsdp::sample(rank.spec, paths_of(spec_file_), rank.device, *group_, prompt, tokens);
  std::cout << visible_lines(answer) << std::endl;
  return ExitCode::kOk;
}

ExitCode RankRun::run() {
  const Rank rank = start();
  const auto& [spec, world, device, bound_cpus] = rank;
  if (attempt_ == 0) {
    const std::string free = std::to_string(first_free_attempt(paths_of(spec_file_)));
    attempt_ = std::stoi(group_->agree("attempt", free));
    open_events(world.rank);
  }

  trainer_ =
      std::make_unique<Trainer>(spec, paths_of(spec_file_), attempt_, *backend_, *group_, *events_);
  RunStarted started = describe_rank(spec, world, device);
  started.bound_cpus = bound_cpus;
  trainer_->describe(started);
  events_->write(started);
  end_start_up();
  log(LogLevel::kInfo, "start",
      "rank " + std::to_string(world.rank) + " of " + std::to_string(world.world_size) + " on " +
          started.host + ", " + started.device +
          (bound_cpus.empty() ? "" : ", bound to CPUs " + bound_cpus) + ", " +
          std::to_string(started.steps_planned) + " steps from step " +
          std::to_string(started.resumed_from_step));
  if (spec.device_samples.every_s && world.local_rank == 0) {
    device_sampler_ = std::make_unique<DeviceSampler>(
        *events_, std::chrono::duration<double>(*spec.device_samples.every_s), started.host,
        device_name(at::kCPU));
  }
  const int64_t steps = trainer_->run();
  device_sampler_.reset();
  failure_notice_.let_others_end();
  group_->barrier();
  if (steps < trainer_->steps_planned()) {
    events_->write(RunInterrupted{.step = steps});
    log(LogLevel::kInfo, "end", "asked to stop after step " + std::to_string(steps));
    return ExitCode::kInterrupted;
  }
  events_->write(
      RunFinished{.steps = steps, .memory_host_bytes_max = backend_->memory().host_bytes_max()});
  log(LogLevel::kInfo, "end", "finished after step " + std::to_string(steps));
  return ExitCode::kOk;
}

void RankRun::fail(ExitCode code, const std::string& reason) {
  failing_.lock();  // other threads that fail wait here until the process ends
  if (!std::exchange(is_failing_, true)) {
    std::cerr << "fsdp-train: " << reason << std::endl;
    const std::string line = reason.substr(0, reason.find('\n'));
    const std::string first = failure_notice_.post(line);
    const bool is_consequence = code == ExitCode::kCommunication && !first.empty();
    if (is_consequence && first != line) std::cerr << "fsdp-train: " << first << std::endl;
    report_failure(code, is_consequence ? first : line);
    failure_notice_.wait_until_seen();
  }
  std::cout.flush();
  // exit() would run destructors of NCCL, which wait for ranks that are gone.
  _exit(static_cast<int>(code));
}

void RankRun::report_failure(ExitCode code, const std::string& reason) {
  const std::lock_guard lock(events_mutex_);
  if (!events_) return;
  try {
    if (code == ExitCode::kOutOfMemory && backend_) {
      const int64_t step = trainer_ ? trainer_->steps_done() + 1 : 0;
      const AllocationCounter& requests = backend_->memory().requests();
      events_->write(memory_peak(requests.peak(), step));
      const std::string largest = largest_text(requests.large_at_refusal());
      if (!largest.empty()) {
        std::cerr << "fsdp-train: the largest tensors at that time: " << largest << std::endl;
      }
    }
    events_->write(RunFailed{.exit_code = static_cast<int64_t>(code), .reason = reason});
  } catch (const std::exception& error) {
    std::cerr << "fsdp-train: " << error.what() << std::endl;
  }
}

}  // namespace fsdp
