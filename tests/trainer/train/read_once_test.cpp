#include "trainer/train/read_once.h"

#include <catch2/catch.hpp>
#include <set>

#include "base/files/file_digest.h"
#include "tests/temporary_folder.h"
#include "trainer/comm/mirror_group.h"
#include "trainer/train/shared_digests.h"

namespace fsdp::read_once_test {

// Element i of the parameter is i, so this rank's part determines all other parts.
class CountingReplicas : public MirrorGroup {
 public:
  CountingReplicas(int rank, int size) : MirrorGroup(size, rank) {}

  Pending all_gather(at::Tensor output, at::Tensor shard, int) override {
    CHECK(output.numel() == size() * shard.numel());
    CHECK(shard.data_ptr() == output.narrow(0, rank() * shard.numel(), shard.numel()).data_ptr());
    const double first = shard[0].item<double>() - static_cast<double>(rank() * shard.numel());
    output.copy_(at::arange(output.numel(), at::kDouble).add_(first));
    return {};
  }
};

TEST_CASE("each replica reads its part of what is not small, and gets the rest") {
  constexpr int64_t kOffset = 11;
  for (const int64_t numel :
       {int64_t{0}, int64_t{1000}, int64_t{100'001}, (int64_t{1} << 24) + 7}) {
    const Parameter parameter({.tensors = {{"w", {kOffset + numel + 3}}}});
    for (int rank = 0; rank < 3; ++rank) {
      CountingReplicas replicas(rank, 3);
      int64_t read = 0;
      const FillParameter fill = read_once(
          [&](const Parameter&, int64_t offset, const at::Tensor& out) {
            out.copy_(at::arange(out.numel(), at::kDouble).add_(static_cast<double>(offset)));
            read += out.numel();
          },
          replicas, at::kCPU);
      const at::Tensor out = at::empty({numel}, at::kDouble);
      fill(parameter, kOffset, out);
      CHECK(out.equal(at::arange(numel, at::kDouble).add_(kOffset)));
      CHECK(read >= numel / 3);
      CHECK(read <= (numel < 10'000 ? numel : numel / 3 + 10));
    }
  }
}

TEST_CASE("a single replica reads everything, and talks to nobody") {
  class Alone : public MirrorGroup {
   public:
    Alone() : MirrorGroup(1) {}
    Pending all_gather(at::Tensor, at::Tensor, int) override {
      FAIL("a collective");
      return {};
    }
  } alone;
  const FillParameter fill = read_once(
      [](const Parameter&, int64_t, const at::Tensor& out) { out.fill_(7); }, alone, at::kCPU);
  const at::Tensor out = at::empty({100'000}, at::kFloat);
  fill(Parameter({.tensors = {{"w", {100'000}}}}), 0, out);
  CHECK(out.eq(7).all().item<bool>());
}

// A group of two ranks. Rank 1 gets "told" from rank 0.
class DigestGroup : public MirrorGroup {
 public:
  explicit DigestGroup(int rank) : MirrorGroup(2, rank) {}

  std::string agree(const std::string& key, const std::string& value) override {
    CHECK(keys.insert(key).second);
    return rank() == 0 ? value : "told";
  }

  std::set<std::string> keys;
};

TEST_CASE("a file that all ranks ask for is read by rank 0, once") {
  const TemporaryFolder folder;
  const auto file = folder.write("a.txt", "text");
  const std::string digest = file_digest(file);

  DigestGroup first(0);
  SharedDigests of_first(first);
  CHECK(of_first.digest_of(file) == digest);
  folder.write("a.txt", "changed");
  CHECK(of_first.digest_of(file) == digest);
  CHECK(first.keys.size() == 1);
  CHECK(of_first.digest_of(folder.write("b.txt", "other")) != digest);

  DigestGroup second(1);
  SharedDigests of_second(second);
  CHECK(of_second.digest_of("/nowhere") == "told");
  CHECK(of_second.digest_of("/nowhere") == "told");
  CHECK(second.keys.size() == 1);
}

}  // namespace fsdp::read_once_test
