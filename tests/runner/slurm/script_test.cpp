#include "runner/cluster/script.h"

#include <stdlib.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>

#include "base/system/program.h"
#include "base/text/config_error.h"
#include "runner/cluster/request.h"
#include "tests/runner/slurm/fake_slurm.h"
#include "tests/runner/slurm/script_fixture.h"

namespace fsdp {
namespace {

std::string refusal_of(const std::string& text, const SlurmScript& script) {
  try {
    render_script(text, script);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

// Returns the refusal of a script of one run after the change.
std::string refusal_after(const std::function<void(SlurmScript&)>& change) {
  SlurmScript script = script_of_one_run();
  change(script);
  return refusal_of(template_text(script.slurm), script);
}

// Returns the words that the real sbatch reads in a script's header. No controller is needed, as a
// missing plugin ends sbatch right after that.
std::vector<std::string> words_of_sbatch(const std::string& text) {
  const TemporaryFolder folder;
  const auto script = folder.write("script.sh", text);
  const auto configuration = folder.write(
      "slurm.conf",
      "ClusterName=none\nSlurmctldHost=localhost(127.0.0.1)\nSelectType=select/none_such\n");
  const ProgramResult result = run_program(
      {"/usr/bin/sbatch", "-vvvv", "--test-only", script.string()},
      {"PATH=/usr/bin:/bin", "SLURM_CONF=" + configuration.string()}, std::chrono::seconds(60));
  REQUIRE(result.error.find("Can't find plugin for select/none_such") != std::string::npos);
  std::vector<std::string> words;
  for (const std::string& line : lines_of(result.error)) {
    const std::string before = "Found in script, argument \"";
    const size_t at = line.find(before);
    if (at == std::string::npos) continue;
    words.push_back(line.substr(at + before.size(), line.size() - at - before.size() - 1));
  }
  return words;
}

TEST_CASE("sbatch reads each option as one word, whatever is in it", "[.sbatch]") {
  const std::string hostile =
      R"(-a 'b' "c" \d\\ $(touch pwned) `touch pwned` # %j ;&|<>*?[]{}~! hetjob HetJob packjob : ')";
  SlurmScript script = script_of_one_run();
  script.experiment = hostile;
  script.slurm.job_name = "";
  script.slurm.partition = hostile;
  script.slurm.account = "#";
  script.slurm.qos = "\\";
  script.slurm.reservation = "\"";
  script.slurm.constraint = "[rack1*2&rack2*4]|gpu";
  script.slurm.output = hostile;
  script.slurm.sbatch_options = {"--comment=" + hostile};
  const std::vector<std::string> words =
      words_of_sbatch(render_script(template_text(script.slurm), script));
  CHECK(words == std::vector<std::string>{"--comment=" + hostile,
                                          "--job-name=" + hostile,
                                          "--partition=" + hostile,
                                          "--account=#",
                                          "--qos=\\",
                                          "--reservation=\"",
                                          "--nodes=1",
                                          "--ntasks=2",
                                          "--ntasks-per-node=2",
                                          "--cpus-per-task=10",
                                          "--gres=gpu:2",
                                          "--time=04:00:00",
                                          "--constraint=[rack1*2&rack2*4]|gpu",
                                          "--array=0-0",
                                          "--chdir=/project",
                                          "--output=" + hostile,
                                          "--error=%x-%j.err",
                                          "--open-mode=append",
                                          "--requeue",
                                          "--signal=B:USR1@120"});
}

TEST_CASE("The shipped output file is in the submission's folder, whose % is no pattern",
          "[.sbatch]") {
  SlurmScript script = script_of_one_run();
  script.slurm.output = "";
  script.folder = "/results/100%j/slurm";
  const auto output_of = [](const SlurmScript& of) {
    const std::vector<std::string> words =
        words_of_sbatch(render_script(template_text(of.slurm), of));
    const auto found = std::find_if(words.begin(), words.end(), [](const std::string& word) {
      return word.starts_with("--output=");
    });
    return found == words.end() ? "" : *found;
  };
  CHECK(output_of(script) == "--output=/results/100%%j/slurm/%A_%a.out");
  script.slurm.mode = SlurmMode::kAllocation;
  script.array_tasks = 0;
  CHECK(output_of(script) == "--output=/results/100%%j/slurm/%j.out");
}

TEST_CASE("A run that is never queued again asks for no requeue") {
  SlurmScript script = script_of_one_run();
  script.slurm.max_restarts = 0;
  CHECK_THAT(render_script(template_text(script.slurm), script),
             Catch::Contains("#SBATCH --no-requeue\n"));
}

TEST_CASE("A value with a line break is refused wherever it stands") {
  const std::string problem =
      ": has a line break or another control character, which a script cannot hold";
  const std::string bad = "a\ntouch pwned";
  const std::vector<std::pair<const char*, std::function<void(SlurmScript&)>>> cases{
      {"job_name", [&](auto& s) { s.slurm.job_name = bad; }},
      {"partition", [&](auto& s) { s.slurm.partition = bad; }},
      {"gpu_type", [&](auto& s) { s.slurm.gpu_type = bad; }},
      {"output", [&](auto& s) { s.slurm.output = bad; }},
      {"sbatch_options", [&](auto& s) { s.slurm.sbatch_options = {"--nice=" + bad}; }},
      {"modules", [&](auto& s) { s.slurm.modules = {bad}; }},
      {"prologue", [&](auto& s) { s.slurm.prologue = {bad}; }},
      {"environment", [&](auto& s) { s.slurm.environment = {"A=" + bad}; }}};
  for (const auto& [key, change] : cases) {
    CHECK(refusal_after(change) == fmt::format("'slurm.{}'{}", key, problem));
  }
  for (auto path : {&SlurmScript::working_directory, &SlurmScript::runner}) {
    CHECK_THAT(refusal_after([&](auto& s) { s.*path = "/" + bad; }), Catch::Contains(problem));
  }
}

TEST_CASE("Options, assignments and paths of a wrong form are refused with the right one") {
  for (const std::string option : {"--clusters=dawn", "--cluster=dawn", "--clusters"}) {
    CHECK(refusal_after([&](auto& s) {
            s.slurm.sbatch_options = {"--nice", option};
          }) == "'slurm.sbatch_options': '" + option +
                    "' sends jobs to another cluster, but fsdp-run asks only this cluster about "
                    "them; leave it out and call fsdp-run on a login node of the other cluster");
  }
  CHECK(refusal_after([](auto& s) { s.slurm.sbatch_options = {"--nice 100"}; }) ==
        "'slurm.sbatch_options': '--nice 100' would reach the program as one word; write "
        "'--nice=100', or give each word as an item of the list");
  for (const std::string item : {"A B=1", "$(touch pwned)=1"}) {
    CHECK(refusal_after([&](auto& s) { s.slurm.environment = {item}; }) ==
          "'slurm.environment': '" + item + "' is not NAME=value");
  }
  CHECK(refusal_after([](auto& s) { s.slurm.time = "2:00"; }) ==
        "'slurm.signal_before_end_s': a run is asked to stop 120 s before the end of its 120 s "
        "(slurm.time), so no time is left to train; lower slurm.signal_before_end_s or raise "
        "slurm.time");
}

TEST_CASE("An option of sbatch that a key or the script sets is not overridden without a word") {
  const auto refusal = [](const std::string& option, GpuRequest request = GpuRequest::kGres,
                          bool is_exclusive = false) {
    return refusal_after([&](auto& script) {
      script.slurm.sbatch_options = {option};
      script.slurm.gpu_request = request;
      script.slurm.exclusive = is_exclusive;
    });
  };
  const auto set_by = [](const std::string& option, const std::string& key) {
    return "'slurm.sbatch_options': '" + option + "' is set by " + key;
  };
  for (const auto& [option, key] : {std::pair("--nodes=4", "nodes"),
                                    {"--part=gpu", "partition"},
                                    {"--mem-per-cpu=4G", "mem"},
                                    {"--exclusive", "exclusive"},
                                    {"--gres=nvme:1", "gpu_request"}}) {
    CHECK(refusal(option) == set_by(option, std::string("slurm.") + key + "; set that key"));
  }
  CHECK(refusal("--open-mode=truncate") ==
        set_by("--open-mode=truncate", "fsdp-run; leave it out"));
  CHECK(refusal("--gres=nvme:1", GpuRequest::kGpusPerNode) == "accepted");
  CHECK(refusal("--exclusive=user", GpuRequest::kGres, true) ==
        set_by("--exclusive=user", "slurm.exclusive; set that key"));
  for (const std::string free :
       {"--comment=ml", "--nice", "--time-min=10", "--gres-flags=none", "--ntasks-per-core=1",
        "--wait-all-nodes=1", "--export=NONE", "--exclusive=user", "--exclusive=mcs"}) {
    INFO(free);
    CHECK(refusal(free) == "accepted");
  }
}

TEST_CASE("Every option of a script is one that sbatch_options may not have", "[.sbatch]") {
  for (const SlurmScript& script : {script_of_one_run(), script_of_array()}) {
    for (const std::string& word : words_of_sbatch(render_script(template_text({}), script))) {
      INFO(word);
      CHECK(std::ranges::count(script_options(), word.substr(0, word.find('=')),
                               &ScriptOption::name) == 1);
    }
  }
}

TEST_CASE("A time limit is read as Slurm reads it") {
  CHECK(seconds_of("") == std::nullopt);
  CHECK(seconds_of("0") == std::nullopt);
  CHECK(seconds_of("90") == 5400);
  CHECK(seconds_of("1:30") == 90);
  CHECK(seconds_of("04:00:00") == 14400);
  CHECK(seconds_of("1-12") == 129600);
  CHECK(seconds_of("1-12:30") == 131400);
  CHECK(seconds_of("1-00:00:01") == 86401);
}

TEST_CASE("A user's template is refused when names are unknown, missing or come too late") {
  const SlurmScript script = script_of_one_run();
  const std::string shipped = template_text(script.slurm);
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string text = shipped;
    text.replace(text.find(from), from.size(), to);
    return text;
  };
  const std::string names =
      "; allowed: {{sbatch_options}}, {{working_directory}}, {{modules}}, {{environment}}, "
      "{{prologue}}, {{runner}}, {{submission_folder}}";
  CHECK(
      refusal_of(replaced("{{modules}}", "{{module}}"), script) ==
      "slurm_templates/job.sh: 'slurm.template': {{module}} is not a name that a template may use" +
          names);
  CHECK(refusal_of(replaced("{{prologue}}", ""), script) ==
        "slurm_templates/job.sh: 'slurm.template': {{prologue}} is missing, so its value would "
        "have no effect" +
            names);
  CHECK(refusal_of(replaced("#!/bin/bash", "#!/bin/bash\nset -e"), script) ==
        "slurm_templates/job.sh: 'slurm.template': {{sbatch_options}} must be a line before the "
        "first command, 'set -e': sbatch reads no options after it");

  SlurmScript without_prologue = script;
  without_prologue.slurm.prologue.clear();
  CHECK(refusal_of(replaced("{{prologue}}\n", ""), without_prologue) == "accepted");
}

TEST_CASE("Braces of the script's own, and braces in values, stay as they are") {
  SlurmScript script = script_of_one_run();
  script.slurm.prologue = {"docker inspect -f '{{.State}} {{modules}}'"};
  const std::string text = render_script(template_text(script.slurm), script);
  CHECK(text.find("docker inspect -f '{{.State}} {{modules}}'\n") != std::string::npos);
}

TEST_CASE("A template is the user's file or the shipped one") {
  const TemporaryFolder folder;
  SlurmSpec slurm;
  slurm.template_file = folder.write("mine.sh", "#!/bin/bash\n{{sbatch_options}}\n");
  CHECK(template_text(slurm) == "#!/bin/bash\n{{sbatch_options}}\n");
  slurm.template_file = folder / "missing.sh";
  CHECK_THROWS_WITH(
      template_text(slurm),
      Catch::Matchers::Contains("'slurm.template'") &&
          Catch::Matchers::EndsWith("cannot be read or is empty; copy slurm_templates/job.sh"));
}

TEST_CASE("A run's configuration says how its total batch comes about") {
  RunSpec spec;
  spec.device = DeviceKind::kCuda;
  spec.strategy.kind = StrategyKind::kFsdp;
  spec.strategy.ranks = 4;
  spec.batch.size_per_rank = 2;
  spec.batch.total = 16;
  spec.slurm.nodes = 2;
  spec.slurm.gpus_per_node = 2;
  CHECK(run_configuration("4xFSDP", resolved(spec)) ==
        "4xFSDP: 4 GPUs on 2 nodes, total batch 16 = 4 GPUs x per-device batch 2 x accumulation "
        "2");
  spec.device = DeviceKind::kCpu;
  spec.strategy.kind = StrategyKind::kSingle;
  spec.strategy.ranks = 1;
  spec.batch.total = 2;
  CHECK(run_configuration("1", resolved(spec)) ==
        "1: 1 CPU rank on 1 node, total batch 2 = 1 CPU rank x per-device batch 2 x accumulation "
        "1");
}

TEST_CASE("What would keep a run from being submitted is found from its specification") {
  RunSpec spec;
  spec.device = DeviceKind::kCpu;
  spec = resolved(spec);
  const auto key_of_refusal = [&](const std::function<void(RunSpec&)>& change) {
    RunSpec wrong = spec;
    change(wrong);
    try {
      check_script(wrong);
    } catch (const ConfigError& error) {
      return error.key();
    }
    return std::string("accepted");
  };
  CHECK(key_of_refusal([](auto&) {}) == "accepted");
  spec.slurm.mode = SlurmMode::kAllocation;
  const std::vector<std::pair<const char*, std::function<void(RunSpec&)>>> cases{
      {"accepted", [](auto&) {}},
      {"slurm.gpus_per_node", [](auto& run) { run.device = DeviceKind::kCuda; }},
      {"slurm.sbatch_options", [](auto& run) { run.slurm.sbatch_options = {"--nice 100"}; }},
      {"slurm.signal_before_end_s",
       [](auto& run) { run.checkpoint.every_steps = 10, run.slurm.time = "1"; }},
      {"slurm.container.image",
       [](auto& run) { run.slurm.container.engine = ContainerEngine::kPyxis; }},
      {"slurm.container.options", [](auto& run) {
         run.slurm.container.engine = ContainerEngine::kApptainer;
         run.slurm.container.image = "i.sif";
         run.slurm.container.options = {"--cleanenv"};
       }}};
  for (const auto& [key, change] : cases) CHECK(key_of_refusal(change) == key);
}

}  // namespace
}  // namespace fsdp
