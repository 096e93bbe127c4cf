#include "tests/fakes/emulated_kernels.h"

#include <ucontext.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

namespace emulated {

Index thread_index{};
Index block_index{};
Index grid_size{};

namespace {

constexpr int kWarpThreads = 32;
constexpr size_t kStackBytes = 64 << 10;

enum class State { kRuns, kWaitsForBlock, kWaitsForWarp, kEnded };

// Returns the stack of a thread, which all blocks use in turn.
char* stack_of(size_t thread) {
  static std::vector<std::unique_ptr<char[]>> stacks;
  while (stacks.size() <= thread) {
    stacks.push_back(std::make_unique_for_overwrite<char[]>(kStackBytes));
  }
  return stacks[thread].get();
}

struct Thread {
  ucontext_t context{};
  State state = State::kRuns;
  int shuffles = 0;
  uint64_t slots[2]{};  // two, as a lane may be one shuffle ahead of another
};

// One block's threads.
class Block {
 public:
  Block(int threads, const std::function<void()>& kernel) : kernel_(kernel), threads_(threads) {
    for (size_t i = 0; i < threads_.size(); ++i) prepare(threads_[i], stack_of(i));
  }

  void run() {
    running = this;
    std::vector<size_t> order(threads_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    while (!all_in(State::kEnded, 0, threads_.size())) {
      std::shuffle(order.begin(), order.end(), random_);
      for (const size_t i : order) take_turn(i);
      release();
    }
  }

  void wait(State state) {
    current().state = state;
    swapcontext(&current().context, &turns_);
  }
  Thread& current() { return threads_.at(thread_index.x); }
  Thread& at(size_t i) { return threads_.at(i); }

  static inline Block* running = nullptr;

 private:
  void prepare(Thread& thread, char* stack) {
    getcontext(&thread.context);
    thread.context.uc_stack.ss_sp = stack;
    thread.context.uc_stack.ss_size = kStackBytes;
    thread.context.uc_link = &turns_;
    makecontext(&thread.context, &Block::begin_thread, 0);
  }
  static void begin_thread() {
    running->kernel_();
    running->current().state = State::kEnded;
  }

  void take_turn(size_t i) {
    if (threads_[i].state != State::kRuns) return;
    thread_index.x = static_cast<unsigned>(i);
    swapcontext(&turns_, &threads_[i].context);
  }

  bool all_in(State state, size_t first, size_t count) const {
    return std::all_of(threads_.begin() + static_cast<ptrdiff_t>(first),
                       threads_.begin() + static_cast<ptrdiff_t>(first + count),
                       [&](const Thread& thread) { return thread.state == state; });
  }

  // Resumes threads whose peers have all reached the barrier.
  void release() {
    bool is_any_released = all_in(State::kEnded, 0, threads_.size());
    const auto let_go = [&](size_t first, size_t count) {
      for (size_t i = first; i < first + count; ++i) threads_[i].state = State::kRuns;
      is_any_released = true;
    };
    if (all_in(State::kWaitsForBlock, 0, threads_.size())) let_go(0, threads_.size());
    for (size_t first = 0; first + kWarpThreads <= threads_.size(); first += kWarpThreads) {
      if (all_in(State::kWaitsForWarp, first, kWarpThreads)) let_go(first, kWarpThreads);
    }
    if (!is_any_released) throw std::logic_error("the threads of a block wait for each other");
  }

  const std::function<void()>& kernel_;
  std::vector<Thread> threads_;
  ucontext_t turns_{};
  std::mt19937 random_{1};
};

int64_t first_block = 0;
int64_t last_grid = 0;

}  // namespace

void run_blocks_from(int64_t first) { first_block = first; }
int64_t blocks_of_last_grid() { return last_grid; }

void run_grid(int64_t blocks, int threads, const std::function<void()>& kernel) {
  constexpr int64_t kMostBlocks = (int64_t{1} << 31) - 1;
  if (blocks < 1 || blocks > kMostBlocks) throw std::logic_error("a grid of so many blocks");
  last_grid = blocks;
  grid_size.x = static_cast<unsigned>(blocks);
  for (int64_t i = std::exchange(first_block, 0); i < blocks; ++i) {
    block_index.x = static_cast<unsigned>(i);
    Block(threads, kernel).run();
  }
}

void sync_threads() { Block::running->wait(State::kWaitsForBlock); }

uint64_t shuffle_xor(uint64_t bits, int distance) {
  Block& block = *Block::running;
  Thread& own = block.current();
  const int slot = own.shuffles++ % 2;
  own.slots[slot] = bits;
  block.wait(State::kWaitsForWarp);
  return block.at(thread_index.x ^ static_cast<unsigned>(distance)).slots[slot];
}

}  // namespace emulated
