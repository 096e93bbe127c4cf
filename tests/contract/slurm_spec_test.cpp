#include "contract/spec/slurm_spec.h"

#include <catch2/catch.hpp>

#include "base/text/json.h"
#include "tests/contract/applied_overrides.h"

namespace fsdp {
namespace {

using Lines = std::vector<std::string>;

std::string slurm_message(const std::string& text) { return message("slurm." + text); }

}  // namespace

TEST_CASE("a list of text is read, and a later layer's takes its place") {
  RunSpec spec =
      applied("slurm:\n  modules: [cuda/12.4, gcc]\n  prologue:\n    - ulimit -n 4096\n");
  CHECK(spec.slurm.modules == Lines{"cuda/12.4", "gcc"});
  CHECK(spec.slurm.prologue == Lines{"ulimit -n 4096"});
  overlay(spec, "slurm.modules: [python]");
  CHECK(spec.slurm.modules == Lines{"python"});
  for (const std::string none : {"slurm.modules:", "slurm.modules: []"}) {
    RunSpec cleared = spec;
    overlay(cleared, none);
    CHECK(cleared.slurm.modules.empty());
  }
}

TEST_CASE("a single word is a list of one item, and a shell's variable in an item no expression") {
  CHECK(applied("slurm.modules: cuda/12.4").slurm.modules == Lines{"cuda/12.4"});
  CHECK(applied("slurm.environment: A=b").slurm.environment == Lines{"A=b"});
  CHECK_THAT(slurm_message("environment: A"), Catch::Contains("allowed: a list"));
  CHECK(applied("slurm.environment: ['A=${SLURM_JOB_ID}']").slurm.environment ==
        Lines{"A=${SLURM_JOB_ID}"});
}

TEST_CASE("a list of text is written as YAML and as JSON") {
  const Lines lines{"a", "it's \"b\""};
  CHECK(yaml_text(lines) == R"(["a", "it's \"b\""])");
  CHECK(yaml_text(Lines{}) == "[]");
  std::string json;
  append_json(json, lines);
  CHECK(json == R"(["a","it's \"b\""])");
}

TEST_CASE("what is no list of text is refused with its place") {
  const std::string allowed = "; allowed: a list, each item one line of text";
  for (const std::string several : {"cuda gcc", "cuda,gcc"}) {
    CHECK(slurm_message("modules: " + several) ==
          "lab.yaml:1:16: 'slurm.modules': '" + several + "' is not a list" + allowed);
  }
  for (const auto& [modules, column, words] :
       {std::tuple("''", "16", "'' in quotes is text, not a list"),
        std::tuple("{a: b}", "16", "a map is not a list"),
        std::tuple("[a, [b]]", "20", "a list is not text"),
        std::tuple("[a, '']", "20", "an item is empty")}) {
    CHECK(slurm_message(std::string("modules: ") + modules) ==
          std::string("lab.yaml:1:") + column + ": 'slurm.modules': " + words + allowed);
  }
}

TEST_CASE("no text of the section holds a line feed or another control character") {
  for (const std::string key : {"job_name",          "partition", "account",  "qos",
                                "reservation",       "gpu_type",  "mem",      "time",
                                "constraint",        "exclude",   "output",   "error",
                                "mail_user",         "mail_type", "template", "container.image",
                                "container.trainer", "nodelist",  "licenses", "dependency"}) {
    for (const std::string value : {R"("a\nb")", R"("a\tb")", R"("\e[2J")", R"("a\x7f")"}) {
      INFO(key << " " << value);
      CHECK_THAT(slurm_message(key + ": " + value),
                 Catch::Contains("holds a line feed or another control character"));
    }
  }
  for (const std::string key : {"modules", "prologue", "environment", "sbatch_options",
                                "srun_options", "container.options"}) {
    INFO(key);
    CHECK_THAT(slurm_message(key + R"(: ["--A=\n#SBATCH --uid=0"])"),
               Catch::StartsWith("lab.yaml:1:") &&
                   Catch::Contains("holds a line feed or another control character"));
  }
}

TEST_CASE("times and amounts of memory are those that Slurm reads") {
  for (const std::string time : {"90", "90:30", "04:00:00", "1-0", "2-12:30", "2-12:30:15", "''"}) {
    INFO(time);
    CHECK(slurm_message("time: " + time) == "no error");
  }
  for (const std::string time : {"4h", "1:2:3:4", "1-", "-1", "1-2:3:4:5", "1 2", "\"1\\n\""}) {
    INFO(time);
    CHECK_THAT(slurm_message("time: " + time),
               Catch::EndsWith("; allowed: a time as Slurm writes it: minutes, MM:SS, HH:MM:SS, "
                               "D-HH, D-HH:MM, D-HH:MM:SS, or \"\""));
  }
  for (const std::string mem : {"0", "4000", "16G", "1t"}) {
    INFO(mem);
    CHECK(slurm_message("mem: " + mem) == "no error");
  }
  for (const std::string mem : {"16GB", "1.5G", "-1", "G", "16 G"}) {
    INFO(mem);
    CHECK_THAT(slurm_message("mem: " + mem), Catch::Contains("4000, 16G; 0: all of a node's"));
  }
}

TEST_CASE("items of the environment assign to a name that a shell allows") {
  CHECK(slurm_message("environment: [A=, _b2=c d=e]") == "no error");
  for (const std::string item : {"A", "=a", "2A=b", "A-B=c", "'A B=c'", "'A=$(x)', '$(x)=A'"}) {
    INFO(item);
    CHECK_THAT(slurm_message("environment: [" + item + "]"), Catch::Contains("allowed: a list"));
  }
}

TEST_CASE("the memory that is asked of a node is in bytes") {
  const auto bytes = [](const std::string& mem) {
    SlurmSpec slurm;
    slurm.mem = mem;
    return node_memory_bytes(slurm);
  };
  CHECK(bytes("") == std::nullopt);
  CHECK(bytes("0") == std::nullopt);  // all memory of a node
  CHECK(bytes("4000") == int64_t{4000} << 20);
  CHECK(bytes("16G") == int64_t{16} << 30);
  CHECK(bytes("5k") == 5 << 10);
  CHECK(bytes("999999999999T") == int64_t{1} << 60);
}

TEST_CASE("an option of sbatch may be written as in a script") {
  CHECK(applied("slurm.sbatch_options: ['#SBATCH --nice=1', --hint=nomultithread]")
            .slurm.sbatch_options == Lines{"--nice=1", "--hint=nomultithread"});
  for (const std::string item : {"-N 1", "nice=1", "'#SBATCH -N 1'", "--", "'#SBATCH '"}) {
    INFO(item);
    CHECK_THAT(slurm_message("sbatch_options: [" + item + "]"),
               Catch::EndsWith("allowed: a list, each item an option such as --nice=100"));
  }
}

}  // namespace fsdp
