#include "runner/experiment/doubling_series.h"

#include <catch2/catch.hpp>

#include "tests/runner/experiment/expanded_experiment.h"

// `double:` in an experiment file, and the runs that follow from it.
using namespace fsdp;
using Catch::Matchers::Contains;

namespace {

const std::string kDoublingBase = "experiment: lab\nbase: {memory_limit_gib: 1, batch.total: 48}\n";
const std::string kDouble = "double: {batch.size_per_rank: {from: 1, refine: true}}";

// A loaded experiment. Runs can be made while the object exists.
class Doubled {
 public:
  explicit Doubled(const std::string& text, const ExpandOptions& options = {})
      : experiment_(Experiment::load(folder_.write("lab.yaml", text))),
        expansion_(experiment_.expand(options, kNoGpus)) {}

  const std::vector<Run>& runs() const { return expansion_.runs; }
  const std::vector<Run>& left_out() const { return expansion_.left_out; }
  const DoublingSeries& series(size_t run = 0) const { return *runs().at(run).doubling; }
  std::string family(size_t run = 0) const {
    return series(run).family([](const std::filesystem::path&) { return "digest"; });
  }
  Run run(int64_t value, size_t first = 0) const {
    return doubled_run(runs().at(first).doubling, value);
  }

 private:
  TemporaryFolder folder_;
  Experiment experiment_;
  Expansion expansion_;
};

std::vector<int64_t> while_all_fit(const Doubled& doubled, size_t run = 0) {
  return doubled.series(run).search().while_all_fit(12);
}

// The message for a sweep with this `double`.
std::string refusal(const std::string& doubled, const ExpandOptions& options = {}) {
  return message(kDoublingBase + "sweep:\n  double: " + doubled + "\n", options);
}

}  // namespace

TEST_CASE("each point and combination is a series, which begins with one run") {
  const Doubled doubled(kDoublingBase +
                        "points: [{name: a}, {name: b}]\nsweep:\n  product: "
                        "{activation_checkpointing.every: [0, 1]}\n  " +
                        kDouble + "\n");
  std::vector<std::string> names;
  for (const Run& run : doubled.runs()) {
    names.push_back(run.point);
    CHECK(run.series == run.point);
    CHECK(run.doubled_value == 1);
    CHECK(run.spec.batch.size_per_rank == 1);
  }
  CHECK(names == Names{"a every=0 size_per_rank=1", "a every=1 size_per_rank=1",
                       "b every=0 size_per_rank=1", "b every=1 size_per_rank=1"});
  const Run later = doubled.run(12, 1);
  CHECK(later.point == "a every=1 size_per_rank=12");
  CHECK(later.position == doubled.runs()[1].position);
  CHECK(later.doubled_value == 12);
  CHECK(later.spec.activation_checkpointing.every == 1);
  CHECK(later.spec.batch.size_per_rank == 12);
  CHECK(later.spec.batch.gradient_accumulation_steps == 4);
  CHECK(later.spec.device == DeviceKind::kCpu);
}

TEST_CASE("with a total batch, values that do not divide it are passed over") {
  CHECK(while_all_fit(Doubled(kDoublingBase + "sweep: {" + kDouble + "}\n")) ==
        std::vector<int64_t>{1, 2, 4, 8, 16, 48});
  CHECK(while_all_fit(Doubled(kDoublingBase +
                              "points: [{name: two, strategy: {kind: ddp, ranks: 2}}]\n"
                              "sweep: {" +
                              kDouble + "}\n")) == std::vector<int64_t>{1, 2, 4, 8, 24});
  // A prime total has only two divisors.
  CHECK(while_all_fit(Doubled("experiment: lab\nbase: {memory_limit_gib: 1, batch.total: 10007}\n"
                              "sweep: {" +
                              kDouble + "}\n")) == std::vector<int64_t>{1, 10007});
}

TEST_CASE("a total batch is refined however far apart its values are") {
  const Doubled doubled(
      "experiment: lab\nbase: {memory_limit_gib: 1, batch.size_per_rank: 10000}\n"
      "sweep: {double: {batch.total: {from: 10000, to: 50000, refine: true}}}\n");
  CHECK(while_all_fit(doubled) == std::vector<int64_t>{10000, 20000, 40000, 50000});
  Doubling search = doubled.series().search();
  search.fits(20000);
  search.does_not_fit(40000);
  CHECK(search.next() == 30000);
}

TEST_CASE("any key that holds an integer can be doubled, to where it ends to be valid") {
  CHECK(while_all_fit(
            Doubled(kDoublingBase +
                    "sweep: {double: {data.sequence_length: {from: 100, refine: true}}}\n")) ==
        std::vector<int64_t>{100, 200, 400, 800, 1600, 2048});  // the model has 2048 positions
  CHECK(while_all_fit(
            Doubled(kDoublingBase +
                    "sweep: {double: {model.config.num_hidden_layers: {from: 3, to: 24}}}\n")) ==
        std::vector<int64_t>{3, 6, 12, 24});
  // The values are multiples of 12, as heads need an even width.
  CHECK(while_all_fit(Doubled(
            kDoublingBase + "sweep: {double: {model.config.hidden_size: {from: 12, "
                            "to: 100, refine: true}}}\n")) == std::vector<int64_t>{12, 24, 48, 96});
}

TEST_CASE("the family is all but the key and what is derived from it") {
  const std::string sweep = "sweep: {" + kDouble + "}\n";
  const std::string family = Doubled(kDoublingBase + sweep).family();
  const std::string from_3 = "sweep: {double: {batch.size_per_rank: {from: 3, to: 24}}}\n";
  CHECK(Doubled(kDoublingBase + from_3).family() == family);
  // Another name, or another base value of the doubled key, keeps the family.
  CHECK(Doubled("experiment: other\nbase: {memory_limit_gib: 1, batch: {total: 48, size_per_rank: "
                "2}}\npoints: [{name: x}]\n" +
                sweep)
            .family() == family);
  const std::string derived =
      "points: [{name: x, optimizer.learning_rate: '${batch.size_per_rank} * 1e-4'}]\n";
  CHECK(Doubled(kDoublingBase + derived + sweep).family() ==
        Doubled(kDoublingBase + derived + from_3).family());

  CHECK(
      Doubled("experiment: lab\nbase: {memory_limit_gib: 2, batch.total: 48}\n" + sweep).family() !=
      family);
  CHECK(
      Doubled("experiment: lab\nbase: {memory_limit_gib: 1, batch.total: 96}\n" + sweep).family() !=
      family);
  CHECK(Doubled(kDoublingBase + "points: [{name: x, data.sequence_length: 128}]\n" + sweep)
            .family() != family);
  CHECK(Doubled(kDoublingBase + "sweep: {double: {data.sequence_length: {from: 4}}}\n").family() !=
        family);
}

TEST_CASE("every repeat is a series of its own") {
  const Doubled doubled(kDoublingBase + "sweep: {repeats: {count: 2, change_seed: true}, " +
                        kDouble + "}\n");
  REQUIRE(doubled.runs().size() == 2);
  const Run later = doubled.run(8, 1);
  CHECK(later.point == "lab size_per_rank=8 #2");
  CHECK(later.series == "lab size_per_rank=8");
  CHECK(later.repeat == 1);
  CHECK(later.spec.train.seed == doubled.runs()[0].spec.train.seed + 1);
  CHECK(doubled.runs()[0].position != doubled.runs()[1].position);
}

TEST_CASE("what follows the first run, in words") {
  CHECK(Doubled(kDoublingBase + "sweep: {" + kDouble + "}\n").series().outlook() ==
        "then batch.size_per_rank 2, 4, 8, 16, 48, until one does not fit; then values between "
        "the last two");
  CHECK(Doubled(kDoublingBase + "sweep: {double: {train.seed: {from: 1}}}\n").series().outlook() ==
        "then train.seed 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, ..., until one does not fit");
  CHECK(Doubled(kDoublingBase + "sweep: {double: {batch.size_per_rank: {from: 48}}}\n")
            .series()
            .outlook() == "no other value of batch.size_per_rank follows");
}

TEST_CASE("labels that would be ambiguous are the whole key") {
  const Doubled doubled(
      "experiment: lab\nbase: {memory_limit_gib: 1}\nsweep:\n  product: "
      "{evaluation.every_steps: [null]}\n  double: {checkpoint.every_steps: "
      "{from: 1, to: 4}}\n");
  CHECK(doubled.run(2).point == "lab evaluation.every_steps=null checkpoint.every_steps=2");
}

TEST_CASE("--only chooses a series by its point or combination, or as its first run is named") {
  const std::string text = kDoublingBase +
                           "points: [{name: a}, {name: b}]\nsweep:\n  product: "
                           "{activation_checkpointing.every: [0, 1]}\n  " +
                           kDouble + "\n";
  const auto chosen = [&](const std::string& only) {
    return Doubled(text, {.only = {only}}).runs().size();
  };
  CHECK(chosen("a") == 2);
  CHECK(chosen("a every=1") == 1);
  CHECK(chosen("a every=1 size_per_rank=1") == 1);
  const Doubled one(text, {.only = {"b every=0"}});
  REQUIRE(one.left_out().size() == 3);
  CHECK(one.left_out()[0].doubling);
}

TEST_CASE("doubling ends at the largest value that a key can have") {
  const Doubled doubled(
      "experiment: lab\nbase: {memory_limit_gib: 1}\nsweep:\n  double: "
      "{batch.size_per_rank: {from: 262144}}\n");
  CHECK(doubled.run(524288).spec.batch.size_per_rank == 524288);
  CHECK_THAT(doubled.runs().front().doubling->outlook(),
             Contains("then batch.size_per_rank 524288, until"));
}

TEST_CASE("nothing else may give the key that is doubled") {
  CHECK_THAT(
      refusal("{batch.size_per_rank: {from: 1}}", {.set = {"batch.size_per_rank=2"}}),
      Contains("--set batch.size_per_rank=2") && Contains("overrides what the sweep doubles at"));
  // The first value is refused, too. All later runs would have it, under names with other values.
  CHECK_THAT(
      refusal("{batch.size_per_rank: {from: 1}}", {.set = {"batch.size_per_rank=1"}}),
      Contains("--set batch.size_per_rank=1") && Contains("overrides what the sweep doubles at"));
  CHECK_THAT(refusal("{batch.gradient_accumulation_steps: {from: 1}}", {.set = {"batch.total=8"}}),
             Contains("overrides what the sweep doubles at"));
  CHECK_THAT(message(kDoublingBase + "sweep:\n  - " + kDouble +
                     "\n  - product: {batch.size_per_rank: [3, 4]}\n"),
             Contains("'lab size_per_rank=3' may also be met by the doubling at"));
}

TEST_CASE("on the CPU, doubling has an end or a limit") {
  const std::string text = "experiment: lab\nsweep: {double: {batch.size_per_rank: {from: 1";
  CHECK_THAT(message(text + "}}}\n"), Contains("give `to`, or memory_limit_gib"));
  CHECK(message(text + ", to: 8}}}\n") == "no error");
  CHECK(message(text + "}}}\n", {.set = {"memory_limit_gib=1"}}) == "no error");
  CHECK(message(text + "}}}\n", {}, kFourGpus) == "no error");
}

TEST_CASE("the shipped experiment doubles the batch at equal totals on either hardware") {
  const Experiment experiment = Experiment::load(FSDP_EXPERIMENTS_FOLDER "/batch_doubling.yaml");
  for (const Resources& resources : {kNoGpus, kFourGpus}) {
    const Expansion expansion = experiment.expand({}, resources);
    CHECK(names(expansion) == Names{"1 GPU size_per_rank=1", "FSDP size_per_rank=1",
                                    "FSDP, checkpointing size_per_rank=1"});
    for (const Run& run : expansion.runs) {
      const Run later = doubled_run(run.doubling, 8);
      CHECK(total_batch(later.spec) == total_batch(run.spec));
      CHECK(later.spec.device == (resources.gpu_count > 0 ? DeviceKind::kCuda : DeviceKind::kCpu));
    }
  }
  CHECK(experiment.compare() == Comparison::kThroughput);
}
