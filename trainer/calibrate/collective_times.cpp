// Times collectives of a run's groups of ranks, with buffers up to its largest module's size.
#include <ATen/ATen.h>

#include <algorithm>

#include "trainer/calibrate/pieces.h"
#include "trainer/plan/planned_time.h"
#include "trainer/strategy/make_strategy.h"

namespace fsdp {
namespace {

// Times collectives. On a GPU a collective is timed alone, because a plan lets it overlap with
// computing. On a CPU, collectives and computing share the cores. There a collective's time is the
// time that it adds to a matrix product beside it.
class BesideCompute {
 public:
  BesideCompute(at::Device device, ProcessGroup& world)
      : device_(device),
        world_(world),
        input_(at::rand({512, 1024}, device)),
        weight_(at::rand({1024, 1024}, device)),
        output_(at::empty({512, 1024}, device)) {}

  template <typename Collective>
  WorkTime time_of(const Work& work, Collective&& collective) {
    TimedWork timed(device_, world_);
    const bool is_beside = device_.is_cpu();
    timed.repeat([&] {
      if (is_beside) {
        const WorkScope alone([] { return Work{.name = "alone"}; });
        compute();
      }
      const WorkScope beside([&] { return work; });
      Pending pending = collective();
      if (is_beside) compute();
      pending.wait();
    });
    double time_ms = 0;
    for (const WorkTime& time : timed.times()) {
      time_ms += time.work == work.name ? time.time_ms : -time.time_ms;
    }
    return {.work = work.name, .width = work.width, .time_ms = std::max(0.0, time_ms)};
  }

 private:
  void compute() { at::mm_out(output_, input_, weight_); }

  at::Device device_;
  ProcessGroup& world_;
  at::Tensor input_;
  at::Tensor weight_;
  at::Tensor output_;
};

void add_group(ProcessGroup& group, int64_t numel, at::Device device, BesideCompute& compute,
               std::vector<WorkTime>& times) {
  const int64_t of_each = (numel + group.size() - 1) / group.size();
  const auto options = at::TensorOptions(at::kFloat).device(device);
  const at::Tensor whole = at::zeros({of_each * group.size()}, options);
  const at::Tensor part = at::zeros({of_each}, options);
  const auto add = [&](const char* name, auto&& collective) {
    const auto bytes = static_cast<int64_t>(whole.nbytes());
    times.push_back(compute.time_of(collective_work(name, group.size(), bytes), collective));
  };
  // Each call allocates its output, as a step does. On a CPU, the allocation takes time.
  add("all_gather", [&] { return group.all_gather(at::empty_like(whole), part); });
  add("reduce_scatter", [&] { return group.reduce_scatter(at::empty_like(part), whole); });
  add("all_reduce", [&] { return group.all_reduce(whole); });
}

}  // namespace

std::vector<WorkTime> collective_times(const RunSpec& spec, const ModelConfig& config,
                                       Backend& backend, ProcessGroup& world) {
  std::vector<WorkTime> times;
  if (world.size() == 1) return times;
  StrategySpec strategy = spec.strategy;  // all shardings share a calibration
  if (strategy.shard_group_size) strategy.sharding = Sharding::kHybridShard;
  const Mesh mesh(strategy, world);
  BesideCompute compute(backend.device(), world);
  for (const int64_t numel : sizes_up_to(largest_module_numel(config))) {
    add_group(world, numel, backend.device(), compute, times);
    for (ProcessGroup* group : {mesh.shard_group(), mesh.replica_group()}) {
      if (group != nullptr && group != &world && group->size() > 1) {
        add_group(*group, numel, backend.device(), compute, times);
      }
    }
  }
  return times;
}

}  // namespace fsdp
