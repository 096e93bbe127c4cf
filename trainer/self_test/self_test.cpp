#include "trainer/self_test/self_test.h"

#include <iomanip>

#include "contract/text/config_error.h"

namespace fsdp {
namespace {

// Checks that mean the same when they fail.
struct Part {
  std::string title;
  std::string failure;
  std::function<void(const ShowRow&)> check;
};

bool are_there(KernelSet set, at::Device device) {
  try {
    make_backend(device, set);
    return true;
  } catch (const ConfigError&) {
    return false;
  }
}

// If kernels are not there, the first part says why.
void add_parts_of(KernelSet set, at::Device device, std::vector<Part>& parts) {
  const std::string kernels = "kernels: " + std::string(name_of(set));
  parts.push_back({"Kernels against the CPU in fp64, " + kernels,
                   "wrong numbers in training: do not train here with " + kernels,
                   [=](const ShowRow& show) {
                     check_kernels(make_backend(device, set)->kernels(), device, show);
                   }});
  if (!are_there(set, device)) return;
  parts.push_back({"Steps, and their memory against the plan, " + kernels,
                   "such steps train otherwise here, or take other memory than planned",
                   [=](const ShowRow& show) { check_steps(device, set, show); }});
  if (!device.is_cuda()) return;
  parts.push_back({"Tensors of more than 2^31 elements, " + kernels,
                   "large batches compute wrong numbers: accumulate smaller ones",
                   [=](const ShowRow& show) { check_large_sizes(device, set, show); }});
}

std::vector<Part> parts_of(const WorldEnvironment& world, at::Device device) {
  std::vector<Part> parts;
  add_parts_of(KernelSet::kAten, device, parts);
  parts.push_back({"AdamW in bf16 against the CPU's bits",
                   "a run rounds otherwise here: do not set rounding: stochastic",
                   [=](const ShowRow& show) { check_optimizer(device, show); }});
  parts.push_back({"A run, and one that goes on from its checkpoint",
                   "an interrupted run does not end as it would have: begin it again",
                   [=](const ShowRow& show) { check_runs(device, show); }});
  if (world.world_size > 1) {
    parts.push_back({"All ranks together",
                     "ranks do not train as one process does: set NCCL_DEBUG=INFO and look",
                     [=](const ShowRow& show) { check_ranks(world, device, show); }});
  }
  parts.push_back({"Rates, to compare with the device's data sheet", "",
                   [=](const ShowRow& show) { measure_rates(device, show); }});
  if (device.is_cuda()) add_parts_of(KernelSet::kTransformerEngine, device, parts);
  return parts;
}

class Report {
 public:
  Report(int rank, std::ostream& out) : rank_(rank), out_(out) {}

  void check(const Part& part) {
    bool is_titled = false;
    const ShowRow show = [&](const SelfTestRow& row) {
      passed_ = passed_ && row.passed;
      if (rank_ != 0 && row.passed) return;
      if (!is_titled) begin(part);
      is_titled = true;
      const char* const judged = row.passed ? "pass  " : "FAIL  ";
      out_ << (row.expected.empty() ? "      " : judged) << std::left << std::setw(kNameWidth)
           << row.name << ' ' << row.found
           << (row.expected.empty() ? "" : "; expected " + row.expected) << std::endl;
    };
    try {
      part.check(show);
    } catch (const ConfigError& error) {
      show({"left out", error.what()});
    } catch (const c10::Error& error) {
      show({"error", error.what_without_backtrace(), "none", false});
    } catch (const std::exception& error) {
      show({"error", error.what(), "none", false});
    }
  }
  bool passed() const { return passed_; }

 private:
  static constexpr int kNameWidth = 32;

  void begin(const Part& part) {
    out_ << '\n' << (rank_ == 0 ? "" : "Rank " + std::to_string(rank_) + ": ") << part.title;
    if (!part.failure.empty()) out_ << ".\nA failure means: " << part.failure;
    out_ << ".\n";
  }

  int rank_;
  std::ostream& out_;
  bool passed_ = true;
};

}  // namespace

bool run_self_test(const WorldEnvironment& world, at::Device device, std::ostream& out) {
  Report report(world.rank, out);
  for (const Part& part : parts_of(world, device)) report.check(part);
  return report.passed();
}

}  // namespace fsdp
