// Runs the parts of the self-test and prints a line for each check.
#include "trainer/self_test/self_test.h"

#include <iomanip>

#include "base/text/config_error.h"

namespace fsdp {
namespace {

// A group of checks. `failure` says what a failed one means.
struct Part {
  std::string name;  // of self_test_parts()
  std::string title;
  std::string failure;
  std::function<void(const ShowRow&)> check;
};

class Report {
 public:
  // `chosen` is a part's name, or "all".
  Report(std::string chosen, int rank, std::ostream& out)
      : chosen_(std::move(chosen)), rank_(rank), out_(out) {}

  // Runs a part and prints its rows and errors. Returns false if the device or this build does not
  // support it.
  bool check(const Part& part) {
    bool is_titled = false;
    const ShowRow show = show_of(part, is_titled);
    try {
      run(part, show);
    } catch (const ConfigError& error) {
      show({"left out", error.what()});
      return false;
    } catch (const c10::Error& error) {
      show({"error", error.what_without_backtrace(), "none", false});
    } catch (const std::exception& error) {
      show({"error", error.what(), "none", false});
    }
    return true;
  }
  // Runs a part that all ranks run together. Lets its errors pass: destructors on their way would
  // wait for the other ranks.
  void check_together(const Part& part) {
    bool is_titled = false;
    run(part, show_of(part, is_titled));
  }
  bool passed() const { return passed_; }

 private:
  static constexpr int kNameWidth = 32;

  void run(const Part& part, const ShowRow& show) const {
    if (chosen_ == part.name || chosen_ == self_test_parts().front()) part.check(show);
  }

  ShowRow show_of(const Part& part, bool& is_titled) {
    return [&](const SelfTestRow& row) {
      passed_ = passed_ && row.passed;
      if (rank_ != 0 && row.passed) return;
      if (!is_titled) begin(part);
      is_titled = true;
      const char* const judged = row.passed ? "pass  " : "FAIL  ";
      out_ << (row.expected.empty() ? "      " : judged) << std::left << std::setw(kNameWidth)
           << row.name << ' ' << row.found
           << (row.expected.empty() ? "" : "; expected " + row.expected) << std::endl;
    };
  }

  void begin(const Part& part) {
    out_ << '\n' << (rank_ == 0 ? "" : "Rank " + std::to_string(rank_) + ": ") << part.title;
    if (!part.failure.empty()) out_ << ".\nA failure means: " << part.failure;
    out_ << ".\n";
  }

  std::string chosen_;
  int rank_;
  std::ostream& out_;
  bool passed_ = true;
};

void check_kernel_set(KernelSet set, at::Device device, Report& report) {
  const std::string kernels = "kernels: " + std::string(name_of(set));
  const bool are_there = report.check(
      {"kernels", "Kernels against the CPU in fp64, " + kernels,
       "wrong numbers in training: do not train here with " + kernels, [&](const ShowRow& show) {
         check_kernels(make_backend(device, set)->kernels(), device, show);
       }});
  // The other parts would fail for the same reason.
  if (!are_there) return;
  report.check({"steps", "Steps, and their memory against the plan, " + kernels,
                "such steps train differently here, or take other memory than planned",
                [&](const ShowRow& show) { check_steps(device, set, show); }});
  if (!device.is_cuda()) return;
  report.check({"large", "Tensors of more than 2^31 elements, " + kernels,
                "large batches compute wrong numbers: accumulate smaller ones",
                [&](const ShowRow& show) { check_large_sizes(device, set, show); }});
}

}  // namespace

std::vector<std::string> self_test_parts() {
  return {"all", "kernels", "steps", "large", "run", "rates", "ranks"};
}

bool run_self_test(const std::string& part, const WorldEnvironment& world, at::Device device,
                   FailureNotice& notice, std::ostream& out) {
  Report report(part, world.rank, out);
  check_kernel_set(KernelSet::kAten, device, report);
  report.check({"kernels", "AdamW in bf16 against the CPU's bits",
                "a run rounds differently here: do not set rounding: stochastic",
                [&](const ShowRow& show) { check_optimizer(device, show); }});
  report.check({"run", "A run, and one that goes on from its checkpoint",
                "an interrupted run does not end as it would have: begin it again",
                [&](const ShowRow& show) { check_runs(device, show); }});
  report.check({"rates", "Rates, to compare with the device's data sheet", "",
                [&](const ShowRow& show) { measure_rates(device, show); }});
  if (device.is_cuda()) check_kernel_set(KernelSet::kTransformerEngine, device, report);
  if (world.world_size > 1) {
    report.check_together({"ranks", "All ranks together",
                           "ranks do not train as one process does: set NCCL_DEBUG=INFO and look",
                           [&](const ShowRow& show) { check_ranks(world, device, notice, show); }});
  }
  return report.passed();
}

}  // namespace fsdp
