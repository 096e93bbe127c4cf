#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <map>
#include <memory>
#include <system_error>

#include "base/files/file_digest.h"
#include "base/system/program.h"
#include "base/text/config_error.h"
#include "base/text/utf8.h"
#include "contract/plan/calibration.h"
#include "contract/spec/run_spec_yaml.h"
#include "formats/data/prepared_file.h"
#include "formats/inputs/hub_inputs.h"
#include "formats/inputs/inputs.h"
#include "runner/cluster/step_launcher.h"
#include "runner/commands/commands.h"
#include "runner/commands/options.h"
#include "runner/experiment/experiment_keys.h"
#include "runner/fetch/fetch.h"
#include "runner/host/doctor.h"
#include "runner/host/host.h"
#include "base/files/whole_file.h"
#include "runner/progress/run_progress.h"
#include "runner/run/local_launcher.h"
#include "runner/run/locks.h"
#include "runner/run/planned_runs.h"
#include "runner/run/run_loop.h"
#include "runner/table/names.h"

// The commands that help before runs: calibrate, doctor, fetch, prepare and schema.
namespace fsdp {
namespace {

// Expands the experiment. `check_gpus` must be true if its runs start on this host.
Expansion expanded(const Choice& choice, const Host& host, bool check_gpus = false,
                   bool from_hub_cache = true) {
  ExpandOptions options = choice.expand;
  options.check_gpus = check_gpus;
  options.from_hub_cache = from_hub_cache;
  return Experiment::load(choice.file).expand(options, host.resources);
}

// --- calibrate: measures the parts of an experiment's steps, on this host's devices or those of
// the surrounding Slurm job ---

// Runs with steps made of the same pieces. `spec` belongs to the run with the largest micro-batch.
struct Family {
  RunSpec spec;
  std::vector<std::string> points;
};

std::map<std::string, Family> families_of(const Expansion& expansion) {
  std::map<std::string, Family> families;
  for (const Run& run : expansion.runs) {
    if (run.repeat != 0) continue;
    const auto [found, is_new] = families.try_emplace(
        calibration_identity(run.spec, model_config(run.spec)), Family{run.spec, {}});
    Family& family = found->second;
    family.points.push_back(run.series);
    if (run.spec.batch.size_per_rank > family.spec.batch.size_per_rank) family.spec = run.spec;
    family.spec.memory_limit_gib = RunSpec().memory_limit_gib;  // a calibration holds no whole run
  }
  return families;
}

DeviceNames devices_of(const Host& host) {
  DeviceNames names = own_cores(host.name);
  for (const Gpu& gpu : host.gpus) names.insert(gpu.uuid);
  return names;
}

// Claims the devices, because two measurements on one device would disturb each other.
std::optional<DeviceClaim> claim_devices(const Host& host) {
  const std::string who = fmt::format("process {} on {}, fsdp-run calibrate", getpid(), host.name);
  std::string holders;
  try {
    auto claim = DeviceClaim::take(devices_of(host), who, false, holders);
    if (!claim) {
      throw ConfigError("", "calibrate",
                        holders + " measures on the same devices; calibrate when it has ended");
    }
    return claim;
  } catch (const std::system_error&) {
    return std::nullopt;  // the claims of others cannot be read
  }
}

std::unique_ptr<Launcher> make_launcher(const Host& host, const RunSpec& spec) {
  if (const char* job = std::getenv("SLURM_JOB_ID")) {
    return std::make_unique<StepLauncher>(
        Allocation{.job = job,
                   .slurm = spec.slurm,
                   .size = slurm_request(spec),
                   .working_directory = std::filesystem::current_path()});
  }
  const bool uses_gpus = spec.device == DeviceKind::kCuda;
  const auto ranks = static_cast<size_t>(spec.strategy.ranks);
  return std::make_unique<LocalLauncher>(
      LocalSlots{.gpus = uses_gpus ? unheld_gpus(host.gpus, ranks) : host.gpus,
                 .cpu_ranks = static_cast<int>(host.resources.cpu_cores)});
}

struct CalibrateArguments : TrainerQuestion {
  int rounds = 3;
};

LaunchRequest request_for(const RunSpec& spec, const std::filesystem::path& folder,
                          const CalibrateArguments& arguments) {
  const std::filesystem::path file = folder / "run.yaml";
  std::filesystem::create_directories(folder);
  write_whole_file(file, to_yaml(spec));
  LaunchRequest request{
      .trainer = find_trainer(arguments.trainer),
      .arguments = {"--calibrate", std::filesystem::absolute(arguments.results).string(), "--spec",
                    file.string(), "--rounds", std::to_string(arguments.rounds)},
      .environment = spec.environment,
      .uses_gpus = spec.device == DeviceKind::kCuda};
  for (int64_t rank = 0; rank < spec.strategy.ranks; ++rank) {
    request.rank_logs.push_back(folder / fmt::format("rank{}.log", rank));
  }
  return request;
}

AttemptEnd launch(Launcher& launcher, const LaunchRequest& request) {
  StopSignals stop_signals;
  launcher.start(request);
  while (true) {
    if (stop_signals.take(std::chrono::seconds(0)) != 0) launcher.stop_all();
    const std::vector<AttemptEnd> ended = launcher.wait(std::chrono::milliseconds(200));
    if (!ended.empty()) return ended.front();
  }
}

ExitCode calibrate(const CalibrateArguments& arguments) {
  const Host host = find_host(arguments.choice.gpus);
  const bool in_job = std::getenv("SLURM_JOB_ID") != nullptr;  // ranks may be on several nodes
  const Expansion expansion = expanded(arguments.choice, host, /*check_gpus=*/!in_job);
  const std::map<std::string, Family> families = families_of(expansion);
  const std::optional<DeviceClaim> claim = claim_devices(host);
  size_t failures = 0;
  for (const auto& [identity, family] : families) {
    const std::filesystem::path folder =  // of this call: others may calibrate the same elsewhere
        std::filesystem::absolute(calibration_folder(arguments.results, identity)) /
        fmt::format("{}-{}", host.name, getpid());
    const auto launcher = make_launcher(host, family.spec);
    const auto start = std::chrono::steady_clock::now();
    const AttemptEnd result = launch(*launcher, request_for(family.spec, folder, arguments));
    if (result.outcome == LaunchOutcome::kInterrupted) return ExitCode::kInterrupted;
    if (result.outcome != LaunchOutcome::kExited) {
      std::cerr
          << visible_line(fmt::format(
                 "fsdp-run: calibrating {} failed: {}; see {}", fmt::join(family.points, ", "),
                 result.reason,
                 (folder / fmt::format("rank{}.log", std::max(0, result.first_rank))).string()))
          << std::endl;
      ++failures;
      continue;
    }
    std::filesystem::remove_all(folder);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    std::cout << fmt::format("calibrated in {:.0f} s: {}", elapsed.count(),
                             fmt::join(family.points, ", "))
              << std::endl;
  }
  if (failures < families.size()) {
    std::cout << "`fsdp-run plan` now tells the step times of these runs." << std::endl;
  }
  return failures == 0 ? ExitCode::kOk : ExitCode::kRunFailed;
}

// --- doctor ---

constexpr size_t kWidth = 80;

struct DoctorArguments {
  std::filesystem::path results = "results";
  std::filesystem::path trainer;  // empty: fsdp-train beside this program
  bool is_self_test = false;
};

ExitCode doctor(const DoctorArguments& arguments) {
  const std::vector<Finding> findings = examine(trainer_path(arguments.trainer), arguments.results);
  std::cout << findings_text(findings, kWidth);
  if (arguments.is_self_test && lab_can_run(findings)) {
    std::cout.flush();
    become_program({trainer_path(arguments.trainer).string(), "--self-test"});
  }
  return lab_can_run(findings) ? ExitCode::kOk : ExitCode::kRunFailed;
}

// --- fetch ---

// Returns the hub's inputs that the chosen runs name, each once.
std::vector<HubInput> inputs_of(const Choice& choice) {
  const Expansion expansion =
      expanded(choice, find_host(choice.gpus), /*check_gpus=*/false, /*from_hub_cache=*/false);
  std::vector<HubInput> inputs;
  for (const Run& run : expansion.runs) {
    for (HubInput& input : hub_inputs(run.spec)) {
      const bool is_known = std::ranges::any_of(inputs, [&](const HubInput& other) {
        return other.key == input.key && other.name == input.name;
      });
      if (is_known) continue;
      input.place = expansion.place(run, input.key);
      inputs.push_back(std::move(input));
    }
  }
  return inputs;
}

struct Interrupted : std::exception {};

ExitCode fetch_inputs(const Choice& choice) {
  const std::vector<HubInput> inputs = inputs_of(choice);
  if (inputs.empty()) {
    std::cout << visible_line(choice.file.string())
              << " names no model or data on a hub; there is nothing to fetch\n";
    return ExitCode::kOk;
  }
  StopSignals signals;
  FetchView view;
  const auto show = [&](const FetchProgress& progress) {
    view.show(progress);
    if (signals.take() != 0) throw Interrupted();
  };
  try {
    for (const FetchedRepository& repository : fetch(inputs, show)) {
      std::cout << visible_line(fmt::format("{}: {}, {}, in {}", repository.name.repository_text(),
                                            counted(repository.files, "file"),
                                            memory_text(repository.bytes),
                                            repository.snapshot.string()))
                << '\n';
    }
  } catch (const Interrupted&) {
    std::cerr << "fsdp-run: interrupted; what was fetched so far is kept, and the same command "
                 "continues from there\n";
    return ExitCode::kInterrupted;
  }
  return ExitCode::kOk;
}

// --- prepare ---

// Returns the document as text. "[[" and "]]" enclose the tokens that are trained on.
std::string marked_text(const Document& document, const Tokenizer& tokenizer) {
  std::string text;
  for (auto token = document.begin(); token != document.end();) {
    const uint32_t flag = *token & kTrainedOn;
    const auto end = std::find_if(token, document.end(),
                                  [&](uint32_t next) { return (next & kTrainedOn) != flag; });
    std::vector<int32_t> ids;
    for (; token != end; ++token) ids.push_back(static_cast<int32_t>(token_id(*token)));
    const std::string part = tokenizer.decode_with_special(ids);
    text += flag == 0 ? part : "[[" + part + "]]";
  }
  return text;
}

// Returns the tokenizer that made the prepared data.
std::unique_ptr<Tokenizer> tokenizer_that_made(const PreparedData& data, const Expansion& expansion,
                                               const FileDigest& digest) {
  for (const Run& run : expansion.runs) {
    if (!needs_tokenizer(run.spec.data.kind)) continue;
    const DataSource source = data_source(run.spec, data.source);
    if (data.file.filename() == prepared_name(source, digest)) {
      return open_tokenizer(source.tokenizer);
    }
  }
  throw std::logic_error("data of no run");
}

// Shows of each document what the longest of the runs' sequences keeps.
void show_documents(const PreparedData& data, const Tokenizer& tokenizer, int64_t most) {
  const PreparedFile file(data.file);
  const int64_t count = std::min(most, file.count());
  if (count > 0) std::cout << "  The first documents; [[...]] is trained on:\n";
  const auto longest = std::ranges::max_element(data.cuts, {}, &PreparedData::Cut::sequence_length);
  for (int64_t number = 0; number < count; ++number) {
    Document document;
    file.read(number, document);
    std::string heading = fmt::format("{}, {}", number + 1, counted(std::ssize(document), "token"));
    if (longest != data.cuts.end() && std::ssize(document) > longest->sequence_length + 1) {
      document.resize(longest->sequence_length + 1);
      heading += fmt::format(", cut to {} by sequence_length {}", document.size(),
                             longest->sequence_length);
    }
    std::cout << fmt::format("  --- {}\n{}\n", heading,
                             visible_lines(marked_text(document, tokenizer)));
  }
}

ExitCode prepare(const Choice& choice, const std::filesystem::path& results, int64_t shown) {
  const Expansion expansion = expanded(choice, find_host(choice.gpus));
  check_inputs_of(expansion);
  const FileDigest digest = remembered(file_digest);
  const auto prepared = prepare_data_of(mapped(expansion.runs, &Run::spec), results, digest);
  if (prepared.empty()) std::cout << "nothing to prepare: the runs read tokens\n";
  for (const PreparedData& data : prepared) {
    std::cout << visible_line(summary_of(data)) << '\n'
              << "  " << (data.was_made ? "made " : "is there: ")
              << visible_line(data.file.string()) << '\n';
    if (shown > 0) {
      show_documents(data, *tokenizer_that_made(data, expansion, digest), shown);
    }
  }
  return ExitCode::kOk;
}

}  // namespace

CommandFunction add_calibrate_command(CLI::App& command) {
  const auto arguments = std::make_shared<CalibrateArguments>();
  command.footer(R"(Examples:
  fsdp-run calibrate experiments/lab.yaml
  fsdp-run calibrate experiments/lab.yaml --only 4xFSDP
  sbatch -N1 -n4 --gpus-per-node=4 --wrap "fsdp-run calibrate my.yaml")");
  add_question_options(command, *arguments);
  add_option(command, "--rounds N=3", arguments->rounds,
             "Times each piece of a step N times and keeps the medians")
      ->check(CLI::Range(1, 1000, "from 1 to 1000"));
  return [arguments] { return calibrate(*arguments); };
}

CommandFunction add_doctor_command(CLI::App& command) {
  const auto arguments = std::make_shared<DoctorArguments>();
  command.footer(R"(Examples:
  fsdp-run doctor
  fsdp-run doctor --self-test
  fsdp-run doctor --results /scratch/$USER/results)");
  add_results_option(command, arguments->results);
  command.add_flag(
      "--self-test", arguments->is_self_test,
      "Also let the trainer check its results on this host's device, and measure its speed");
  command.add_option("--trainer", arguments->trainer)->group("");
  return [arguments] { return doctor(*arguments); };
}

CommandFunction add_fetch_command(CLI::App& command) {
  const auto choice = std::make_shared<Choice>();
  command.footer(
      R"(Examples:
  fsdp-run fetch my.yaml
  fsdp-run fetch my.yaml --profile a100x4 --only 4xFSDP
  HF_ENDPOINT=https://hub.example.org fsdp-run fetch my.yaml)");
  add_choice_options(command, *choice);
  return [choice] { return fetch_inputs(*choice); };
}

CommandFunction add_prepare_command(CLI::App& command) {
  const auto choice = std::make_shared<Choice>();
  const auto results = std::make_shared<std::filesystem::path>("results");
  command.footer(R"(Examples:
  fsdp-run prepare experiments/lab.yaml
  fsdp-run prepare experiments/lab.yaml --show 3    a preview
  fsdp-run prepare experiments/chess.yaml --results /scratch/results)");
  add_choice_options(command, *choice);
  add_results_option(command, *results);
  const auto shown = std::make_shared<int64_t>(0);
  add_option(command, "--show N", *shown,
             "Also print the first N documents as text, with what is trained on in [[ ]]")
      ->check(CLI::PositiveNumber);
  return [choice, results, shown] { return prepare(*choice, *results, *shown); };
}

CommandFunction add_schema_command(CLI::App& command) {
  const auto section = std::make_shared<std::string>();
  command.footer(R"(Examples:
  fsdp-run schema | less
  fsdp-run schema strategy                 the keys below it
  fsdp-run schema optimizer.learning_rate)");
  command.add_option("KEY", *section, "Only this key and those below it");
  return [section] {
    std::cout << (section->empty() ? experiment_reference() : experiment_reference(*section));
    return ExitCode::kOk;
  };
}

}  // namespace fsdp
