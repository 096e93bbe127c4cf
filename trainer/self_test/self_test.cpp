#include "trainer/self_test/self_test.h"

#include "contract/text/config_error.h"

namespace fsdp {
namespace {

std::string name_of_set(KernelSet set) { return std::string(name_of(set)); }

}  // namespace

bool run_self_test(at::Device device, const ShowRow& show) {
  bool passed = true;
  const auto show_and_count = [&](const SelfTestRow& row) {
    show(row);
    passed = passed && row.passed;
  };
  const auto part = [&](const std::string& name, const std::function<void()>& check) {
    try {
      check();
    } catch (const ConfigError& error) {
      show({name, std::string("left out: ") + error.what(), true});
    } catch (const c10::Error& error) {
      show_and_count({name, error.what_without_backtrace(), false});
    } catch (const std::exception& error) {
      show_and_count({name, error.what(), false});
    }
  };
  for (const KernelSet set : {KernelSet::kAten, KernelSet::kTransformerEngine}) {
    if (set == KernelSet::kTransformerEngine && !device.is_cuda()) continue;
    part(name_of_set(set), [&] {
      const auto backend = make_backend(device, set);
      check_kernels(backend->kernels(), name_of_set(set), device, show_and_count);
      check_steps(device, set, show_and_count);
    });
  }
  part("optimizer", [&] { check_optimizer(device, show_and_count); });
  part("rates", [&] { measure_rates(device, show_and_count); });
  return passed;
}

}  // namespace fsdp
