#include "runner/plan/plan_report.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <sstream>

#include "runner/table/terminal_text.h"

namespace fsdp {
namespace {

constexpr int64_t kGib = int64_t{1} << 30;

PlannedRow row_of(const std::string& point, int64_t gib, Fit fit) {
  PlannedRow row{
      .point = point, .spec = {}, .device = "a GPU of 79 GiB", .plan = {}, .problem = {}};
  row.spec.strategy.ranks = 4;
  RunPlan& plan = row.plan.emplace();
  plan.memory_requested_bytes_max = gib * kGib;
  plan.memory_allocated_bytes_max = gib * kGib;
  plan.memory_reserved_bytes_max = (gib + 1) * kGib;
  plan.memory_device_bytes_max = (gib + 2) * kGib;
  plan.memory_limit_bytes = 79 * kGib;
  plan.fit = fit;
  plan.peak.phase = "backward";
  plan.peak.unit = 3;
  plan.peak.by_use[MemoryUse::kOptimizerState] = 20 * kGib;
  plan.peak.by_use[MemoryUse::kHead] = 5 * kGib;
  return row;
}

PlanReport report_of(std::vector<PlannedRow> rows) {
  return {.experiment = "lab",
          .profile = "a100x4",
          .profile_reason = "a100x4: this host has 4 GPUs",
          .rows = std::move(rows),
          .remarks = {"a: fastest as it is."}};
}

TEST_CASE("a table says of each run what it takes, and of what does not fit why") {
  const std::string text = render_plans(
      PlanFormat::kTable,
      report_of({row_of("small", 25, Fit::kFits), row_of("large", 90, Fit::kDoesNotFit)}), 0);
  INFO(text);
  CHECK_THAT(text, Catch::Contains("small      4  4 x 1       25.0    27.0   79.0  fits"));
  CHECK_THAT(
      text, Catch::Contains("large: optimizer state 20.0 GiB, head 5.00 GiB at backward, unit 3;"));
  CHECK_THAT(text, !Catch::Contains("small: optimizer state"));
  CHECK_THAT(text, Catch::Contains("a: fastest as it is."));
  CHECK_THAT(text, !Catch::Contains("Host"));
}

TEST_CASE("a run whose ranks do not fit into their host's memory says so") {
  PlannedRow row = row_of("offload", 25, Fit::kDoesNotFit);
  row.spec.device = DeviceKind::kCuda;
  row.spec.strategy.offload = Offload::kParameters;
  row.plan->memory_host_bytes_max = 186 * kGib;
  row.plan->memory_node_bytes_max = 744 * kGib;
  row.plan->memory_node_limit_bytes = 512 * kGib;
  CHECK(excess_text(*row.plan) == "744 GiB of 512 GiB of a node's memory");
  const std::string text = render_plans(PlanFormat::kTable, report_of({row}), 0);
  INFO(text);
  CHECK_THAT(text, Catch::Contains("79.0    744  does not fit"));
  CHECK_THAT(text, Catch::Contains("offload: 744 GiB of 512 GiB of a node's memory; offload less"));
  row.plan->memory_node_limit_bytes = 744 * kGib;
  CHECK(excess_text(*row.plan) == "27.0 GiB of 79.0 GiB");
}

TEST_CASE("a plan begins with what is planned: profile, model, parameters, ranks and device") {
  PlannedRow one = row_of("one", 25, Fit::kFits), four = row_of("four", 25, Fit::kFits);
  one.spec.strategy.ranks = 1;
  one.plan->parameter_count = four.plan->parameter_count = 6'740'000'000;
  PlannedRow without;
  for (const PlanFormat format : {PlanFormat::kTable, PlanFormat::kMarkdown}) {
    const std::string text = render_plans(format, report_of({one, four, without}), 0);
    INFO(text);
    CHECK_THAT(text,
               Catch::StartsWith(
                   "Profile a100x4: Llama 6.74B on 1 and 4 ranks, planned for a GPU of 79 GiB.\n"));
    CHECK_THAT(text, Catch::Contains("Why this profile: this host has 4 GPUs.\n"));
  }
  four.spec.model.source = "/hub/models--openlm-research--open_llama_7b/snapshots/abc";
  CHECK_THAT(render_plans(PlanFormat::kTable, report_of({four}), 0),
             Catch::Contains("openlm-research/open_llama_7b 6.74B on 4 ranks"));
  CHECK(plan_table(report_of({without})).blocks.at(0).introduction.empty());
}

TEST_CASE("a plan shows how many parameters are trained, unless all are") {
  PlannedRow full = row_of("full", 25, Fit::kFits), lora = row_of("lora", 25, Fit::kFits);
  full.plan->trained_parameter_count = 6'740'000'000;
  lora.plan->trained_parameter_count = 20'000'000;
  CHECK_THAT(render_plans(PlanFormat::kTable, report_of({full}), 0), !Catch::Contains("Trained"));
  lora.spec.method = Method::kLora;
  const std::string text = render_plans(PlanFormat::kTable, report_of({full, lora}), 0);
  INFO(text);
  CHECK_THAT(text, Catch::Contains("full       4  4 x 1        -       25.0"));
  CHECK_THAT(text, Catch::Contains("lora       4  4 x 1    20.0M       25.0"));
}

TEST_CASE("other methods stand apart, because they change what is trained") {
  PlannedRow run = row_of("run", 90, Fit::kDoesNotFit), sharded = row_of("run + sharded", 40, {}),
             lora = row_of("run + lora", 25, Fit::kFits), next = row_of("next", 20, Fit::kFits);
  lora.has_other_method = true;
  const std::string heading = "Other methods: they change what is trained, not only how";
  const PlanReport report = report_of({run, sharded, lora, next});
  const Table table = plan_table(report);
  REQUIRE(table.blocks.size() == 2);
  CHECK(table.blocks[0].rows.size() == 3);
  CHECK(table.blocks[1].rows.at(0).cells.at(0).text == "run + lora");
  const std::string text = render_plans(PlanFormat::kTable, report, 0);
  INFO(text);
  CHECK_THAT(text, Catch::StartsWith("Profile a100x4: Llama"));
  CHECK(text.find("\nnext ") < text.find("\n\n" + heading + "\nrun + lora "));
  const std::string markdown = render_plans(PlanFormat::kMarkdown, report, 0);
  CHECK(markdown.find("| next |") < markdown.find("#### " + heading));
  CHECK(markdown.find("#### " + heading) < markdown.find("| run + lora |"));
  const std::string page = render_plans(PlanFormat::kHtml, report, 0);
  CHECK(page.find("\"run + lora\"") < page.find("\"next\""));
  CHECK(plan_table(report_of({run, next})).blocks.size() == 1);
}

TEST_CASE("a step time that ignores the strategy stands in no row") {
  PlannedRow row = row_of("a", 25, Fit::kFits), other = row_of("b", 25, Fit::kFits);
  row.plan->step_time_ms = 425;
  other.plan->step_time_ms = 851;
  const Table table = plan_table(report_of({row, other}));
  for (const Cell& cell : table.blocks.at(0).rows.at(0).cells) {
    CHECK_THAT(cell.text, !Catch::Contains("425"));
  }
  CHECK(table.notes.back() ==
        "Without a calibration, the estimate for a step is about 425 ms to 851 ms, whatever the "
        "strategy.");
  row.plan->communication_exposed_ms = 10;
  CHECK_THAT(render_plans(PlanFormat::kTable, report_of({row}), 0), Catch::Contains("  425"));
  CHECK(plan_table(report_of({row})).notes.empty());
}

TEST_CASE("hours and cost stand in a table if they are known") {
  PlannedRow row = row_of("a", 25, Fit::kFits);
  CHECK_THAT(render_plans(PlanFormat::kTable, report_of({row}), 0), !Catch::Contains("Cost"));
  row.hours = 12.25;
  row.cost = 98;
  const std::string text = render_plans(PlanFormat::kTable, report_of({row}), 0);
  INFO(text);
  CHECK_THAT(text, Catch::Contains("12.2  98.0  fits"));
}

TEST_CASE("what else is known of rows is said once") {
  PlannedRow row = row_of("a", 25, Fit::kFits);
  row.notes = {"a GPU has no hardware for bf16."};
  CHECK(plan_table(report_of({row, row})).notes == row.notes);
}

TEST_CASE("lines of a narrow terminal are not longer than it") {
  const std::string text = render_plans(
      PlanFormat::kTable, report_of({row_of(std::string(70, 'x'), 25, Fit::kTight)}), 80);
  INFO(text);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) CHECK(display_width(line) <= 80);
}

TEST_CASE("runs without a plan say why, once for all that have the same reason") {
  PlannedRow first{.point = "a", .spec = {}, .device = {}, .plan = {}, .problem = "no config.json"};
  PlannedRow second = first;
  second.point = "b";
  const std::string text = render_plans(PlanFormat::kMarkdown, report_of({first, second}), 0);
  CHECK_THAT(text, Catch::Contains("No plan for a, b: no config.json"));
}

TEST_CASE("programs get every figure, and no figure for what has none") {
  const PlannedRow unknown{.point = "b", .spec = {}, .device = {}, .plan = {}, .problem = "why"};
  const auto rows = nlohmann::json::parse(
      render_plans(PlanFormat::kJson, report_of({row_of("a", 90, Fit::kDoesNotFit), unknown}), 0));
  CHECK(rows[0]["point"] == "a");
  CHECK(rows[0]["ranks"] == 4);
  CHECK(rows[0]["memory_device_bytes_max"] == 92 * kGib);
  CHECK(rows[0]["fits"] == false);
  CHECK(rows[0]["peak"]["optimizer_state_bytes"] == 20 * kGib);
  CHECK(rows[1]["fits"].is_null());
  CHECK(rows[1]["problem"] == "why");
}

TEST_CASE("what a user may do follows from what fills the memory") {
  PlannedRow row = row_of("a", 90, Fit::kDoesNotFit);
  CHECK_THAT(remedy_for(row.spec, *row.plan),
             Catch::Contains("over the 4 ranks: strategy.kind: fsdp"));
  row.spec.strategy.kind = StrategyKind::kFsdp;
  CHECK_THAT(remedy_for(row.spec, *row.plan), Catch::Contains("strategy.offload: optimizer"));
  row.plan->peak.by_use[MemoryUse::kMlp] = 30 * kGib;
  CHECK_THAT(remedy_for(row.spec, *row.plan), Catch::Contains("activation_checkpointing.every: 1"));
  row.spec.activation_checkpointing.every = 1;
  CHECK_THAT(remedy_for(row.spec, *row.plan), Catch::Contains("fewer sequences per rank"));
  CHECK_THAT(remedy_for(row.spec, *row.plan), Catch::Contains("more ranks"));
}

TEST_CASE("a remedy for what fills the memory was told where it does not suffice") {
  PlannedRow row = row_of("a", 90, Fit::kDoesNotFit);
  row.spec.strategy.kind = StrategyKind::kFsdp;
  MemoryByUse& by_use = row.plan->peak.by_use;
  by_use[MemoryUse::kMlp] = 30 * kGib;
  row.plan->memory_limit_bytes = 60 * kGib;  // 32 GiB less than needed
  CHECK_THAT(remedy_for(row.spec, *row.plan), Catch::Contains("fewer sequences per rank"));
  row.plan->memory_limit_bytes = 20 * kGib;
  CHECK(remedy_for(row.spec, *row.plan) ==
        "use more ranks, or a smaller model, or train adapters (method: lora)");
  row.spec.method = Method::kLora;
  CHECK(remedy_for(row.spec, *row.plan) == "use more ranks, or a smaller model");

  // A job on CPUs with a small slurm.mem has no room for the process itself.
  PlannedRow job = row_of("job", 1, Fit::kDoesNotFit);
  job.spec.device = DeviceKind::kCpu;
  job.plan->memory_limit_bytes.reset();
  job.plan->peak.by_use[MemoryUse::kOptimizerState] = 0;
  job.plan->peak.by_use[MemoryUse::kMlp] = kGib / 2;
  job.plan->memory_host_bytes_max = 5 * kGib;
  job.plan->memory_node_bytes_max = 20 * kGib;
  job.plan->memory_node_limit_bytes = 12 * kGib;
  CHECK(remedy_for(job.spec, *job.plan) ==
        "give the run more memory (slurm.mem, or the limit of this job), or use fewer ranks on a "
        "node");
  job.plan->memory_node_limit_bytes = 19 * kGib;
  CHECK_THAT(remedy_for(job.spec, *job.plan), Catch::Contains("activation_checkpointing.every"));
}

TEST_CASE("a run of one rank is not told to be one of several") {
  PlannedRow row = row_of("1 GPU", 90, Fit::kDoesNotFit);
  row.spec.strategy.ranks = 1;
  CHECK(remedy_for(row.spec, *row.plan) ==
        "keep optimizer state on the host: strategy.offload: optimizer");
  const RunPlan enough = *row.plan;
  row.plan->memory_device_bytes_max =
      *row.plan->memory_limit_bytes + row.plan->peak.by_use[MemoryUse::kOptimizerState] + 1;
  CHECK_THAT(remedy_for(row.spec, *row.plan),
             Catch::Contains("strategy.kind: fsdp, strategy.offload: parameters"));
  row.plan = enough;
  row.spec.strategy.offload = Offload::kOptimizer;
  CHECK(remedy_for(row.spec, *row.plan) == "use fewer sequences per rank, or shorter ones");
}

}  // namespace
}  // namespace fsdp
