#include "trainer/checkpoint/writer_thread.h"

#include <catch2/catch.hpp>
#include <fstream>

#include "tests/temporary_folder.h"
#include "tests/trainer/checkpoint/written_checkpoint.h"

namespace fsdp::writer_thread_test {

std::vector<char> bytes_of_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST_CASE("a tensor may change as soon as the ring has it, and the file holds what it was") {
  constexpr int64_t kBufferBytes = 64;
  const TemporaryFolder folder;
  const auto backend = make_backend(at::kCPU);
  const auto file = std::make_shared<OutputFile>(folder.path() / "file");
  WriterThread thread(*backend, kBufferBytes);
  std::promise<void> is_released;
  thread.post([&] { is_released.get_future().wait(); });
  at::Tensor tensor = at::arange(61, at::kInt);  // 244 bytes: the ring holds 256
  const at::Tensor before = tensor.clone();
  thread.write_through_ring(file, 0, tensor);
  tensor.fill_(-1);
  is_released.set_value();

  at::Tensor larger = at::arange(1000, at::kInt);
  const at::Tensor larger_before = larger.clone();
  thread.write_through_ring(file, 244, larger);
  larger.fill_(-1);
  const at::Tensor on_the_host = at::arange(3, at::kShort);
  thread.write(file, 4244, on_the_host);
  thread.post([&] { file->finish(); }).get();

  const std::vector<char> bytes = bytes_of_file(folder.path() / "file");
  REQUIRE(bytes.size() == 4250);
  const auto equals = [&](size_t place, const at::Tensor& expected) {
    return std::equal(bytes.begin() + static_cast<std::ptrdiff_t>(place),
                      bytes.begin() + static_cast<std::ptrdiff_t>(place + expected.nbytes()),
                      static_cast<const char*>(expected.const_data_ptr()));
  };
  CHECK(equals(0, before));
  CHECK(equals(244, larger_before));
  CHECK(equals(4244, on_the_host));
}

TEST_CASE("threads of one checkpoint after another share the host's buffers") {
  const TemporaryFolder folder;
  const auto backend = make_backend(at::kCPU);
  const auto buffers = std::make_shared<WriterThread::HostBuffers>();
  const void* first = nullptr;
  for (const int checkpoint : {1, 2}) {
    const auto file = std::make_shared<OutputFile>(folder.path() / std::to_string(checkpoint));
    WriterThread thread(*backend, /*buffer_bytes=*/64, buffers);
    thread.write_through_ring(file, 0, at::full({16}, checkpoint, at::kInt));
    thread.post([&] { file->finish(); }).get();
    if (checkpoint == 1) first = buffers->front().const_data_ptr();
    CHECK(buffers->front().const_data_ptr() == first);
    CHECK(bytes_of_file(folder.path() / std::to_string(checkpoint)).front() == checkpoint);
  }
}

TEST_CASE("rank 0 waits for no other rank before it is told to, and completes nothing without it") {
  const TemporaryFolder folder;
  const RunPaths paths(folder.path());
  const auto parameters = test_parameters();
  const auto world = simulated_world(2);
  const auto backend = make_backend(at::kCPU);
  std::deque<CheckpointWriter> writers;
  for (const auto& rank : world) writers.emplace_back(paths, 1, *rank, 2, *backend);
  for (CheckpointWriter& writer : writers) writer.write_pieces(kOptimizer, {});
  for (CheckpointWriter& writer : writers) writer.finish_later({}, std::nullopt);
  CHECK_FALSE(writers[0].advance(/*waits=*/false));
  CHECK(checkpoints_newest_first(paths).empty());

  CHECK(writers[1].advance(/*waits=*/true));
  CHECK(writers[0].advance(/*waits=*/true));
  CHECK(read_trainer_state(paths.checkpoint(1)).files.size() == 2);
}

TEST_CASE("the error of a write in the background names the file, in what follows") {
  const TemporaryFolder folder;
  const RunPaths paths(folder.path());
  const auto world = simulated_world(1);
  const auto backend = make_backend(at::kCPU);
  CheckpointWriter writer(paths, 1, *world[0], 1, *backend);
  const auto file = std::make_shared<OutputFile>(writer.folder() / "a");
  writer.add_files([&]() -> Checksums { fail_to_write(file->path(), ENOSPC); });
  writer.finish_later({}, std::nullopt);
  CHECK_THROWS_WITH(writer.advance(/*waits=*/true),
                    Catch::Contains("step-1.partial/a: ") && Catch::Contains("free space there"));
  CHECK_THROWS_WITH(writer.thread().write(file, 0, at::ones({1})),
                    Catch::Contains("free space there"));
  CHECK(checkpoints_newest_first(paths).empty());
}

}  // namespace fsdp::writer_thread_test
