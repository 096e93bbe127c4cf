#include "tests/runner/report/report_fixture.h"

namespace fsdp {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;

// Three runs. The second has a schedule and a model of its own.
Report report_of_specs() {
  Report report = training_report();
  for (ComparisonRow& row : report.rows) {
    RunSpec& spec = row.spec;
    const bool is_second = row.run == 2;
    spec.schedule.kind = is_second ? ScheduleKind::kCosine : ScheduleKind::kConstant;
    spec.optimizer.learning_rate = is_second ? 3e-4 : 1e-3;
    spec.model.config.hidden_size = is_second ? 512 : 256;
    spec.train.steps = row.run * 10;
    spec.method = is_second ? Method::kLora : Method::kFull;
  }
  return report;
}

std::string csv(View view) {
  Report report = report_of_specs();
  report.view = std::move(view);
  return render(Format::kCsv, report);
}

}  // namespace

TEST_CASE("every key of a run is a column, a condition, a group and an order") {
  CHECK(csv({.columns = {"point", "optimizer.learning_rate", "model.config.hidden_size"}}) ==
        "point,optimizer.learning_rate,model.config.hidden_size\r\n"
        "plain,0.001,256\r\nevaluated,3e-04,512\r\nresumed,0.001,256\r\n");
  CHECK(csv({.columns = {"point"}, .where = {"schedule.kind = cosine"}}) ==
        "point\r\nevaluated\r\n");
  CHECK(csv({.columns = {"point"}, .where = {"optimizer.learning_rate > 5e-4"}}) ==
        "point\r\nplain\r\nresumed\r\n");
  CHECK(csv({.columns = {"point"}, .sort = "-train.steps"}) ==
        "point\r\nresumed\r\nevaluated\r\nplain\r\n");
  CHECK(csv({.columns = {"data.shuffle"}, .where = {"data.shuffle = true"}}) ==
        "data.shuffle\r\ntrue\r\ntrue\r\ntrue\r\n");
  CHECK(csv({.columns = {"point", "method"}, .where = {"method = lora"}}) ==
        "point,method\r\nevaluated,lora\r\n");
  CHECK(csv({.columns = {"resume"}, .where = {"resume = "}}) == "resume\r\n\r\n\r\n\r\n");
  Report grouped = report_of_specs();
  grouped.view = {.group = "schedule.kind"};
  CHECK_THAT(table_of(grouped),
             Contains("schedule.kind: constant") && Contains("schedule.kind: cosine"));
}

TEST_CASE("keys are columns of what a run was asked for, beside those that are usual") {
  Report report = report_of_specs();
  report.view.columns = {"+optimizer.learning_rate"};
  CHECK_THAT(render(Format::kMarkdown, report),
             Contains("learning rate") && Contains("0.000300") && Contains("evaluated"));
  const std::string all = csv({});
  CHECK(all.find("optimizer.learning_rate") == std::string::npos);
  CHECK_THROWS_WITH(csv({.columns = {"optimizer.learning_rat"}}),
                    Contains("--columns: there is no column 'optimizer.learning_rat'") &&
                        EndsWith("did you mean 'optimizer.learning_rate'?"));
}

TEST_CASE("a column may be called by its printed heading, and a condition has its unit then") {
  const std::string name = "allocated GiB";
  CHECK(csv({.columns = {name}}).starts_with("memory_allocated_bytes_max\r\n"));
  CHECK(csv({.columns = {"tokens/s"}}).starts_with("tokens_per_second\r\n"));
  CHECK(csv({.columns = {"point"}, .where = {name + " > 2.5"}}) ==
        csv({.columns = {"point"}, .where = {"memory_allocated_bytes_max > 2.5 GiB"}}));
  CHECK(csv({.columns = {"point"}, .where = {name + " > 2.5"}}) != "point\r\n");
  CHECK(csv({.columns = {"point"}, .where = {name + " > 2.5e1"}}) == "point\r\n");
  CHECK(csv({.columns = {"point"}, .sort = "-token accuracy"}) ==
        csv({.columns = {"point"}, .sort = "-token_accuracy_last"}));
  CHECK(csv({.columns = {"point"}, .sort = "-token accuracy"}) != csv({.columns = {"point"}}));
  CHECK(csv({.columns = {"tokens_per_second_ratio"}, .group = "ranks"}) ==
        csv({.columns = {"tokens/s ratio"}, .group = "ranks"}));
}

}  // namespace fsdp
