#include "trainer/train/shared_digests.h"

#include <catch2/catch.hpp>
#include <set>
#include <string>

#include "base/files/file_digest.h"
#include "tests/temporary_folder.h"
#include "trainer/comm/mirror_group.h"

namespace fsdp {
namespace {

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

}  // namespace
}  // namespace fsdp
