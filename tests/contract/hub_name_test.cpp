#include "contract/spec/hub_name.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "base/text/config_error.h"
#include "formats/hub/hub_cache.h"
#include "formats/inputs/hub_inputs.h"
#include "formats/inputs/inputs.h"
#include "tests/contract/applied_overrides.h"
#include "tests/temporary_folder.h"

namespace fsdp {
namespace {

const std::string kCommit(40, 'a');

RunSpec spec_with(const std::string& yaml, const std::filesystem::path& folder) {
  RunSpec spec;
  const YamlOrigin origin{.name = "test.yaml", .folder = folder};
  apply_overrides(spec, parse_yaml(yaml, origin), origin);
  return spec;
}

TEST_CASE("names on a hub are read and written as Hugging Face does") {
  for (const std::string text :
       {"hf://org/name", "hf://org/name@v1.0/config.json", "hf://datasets/org/name/data/a.parquet",
        "hf://org/name@refs%2Fpr%2F1", "hf://datasets/org/name@refs%2Fconvert%2Fparquet/a/b.csv"}) {
    CHECK(parse_hub_name(text).text() == text);
  }
  CHECK(parse_hub_name("hf://org/name@main/a").text() == "hf://org/name/a");
  CHECK(parse_hub_name("hf://org/name@refs/pr/12/a/b") ==
        HubName{.repository = "org/name", .revision = "refs/pr/12", .path = "a/b"});
  CHECK(parse_hub_name("hf://datasets/org/name@" + kCommit).is_commit());
}

TEST_CASE("what could lead out of a repository or a cache is no name on a hub") {
  for (const std::string text :
       {"hf://", "hf://org", "hf://org/", "hf:///name", "hf://../name", "hf://org/..",
        "hf://org/name@", "hf://org/name@../../x", "hf://org/name/../x", "hf://org/name//x",
        "hf://org/name/", "hf://org/name/a\nb", "hf://org/name/a\\b", "hf://org/na me",
        "hf://-org/name", "hf://org/name--x", "hf://datasets/name", "org/name"}) {
    CHECK_THROWS_AS(parse_hub_name(text), std::invalid_argument);
  }
  CHECK_FALSE(is_harmless_path("/etc/passwd"));
  CHECK_FALSE(is_harmless_path("a/./b"));
  CHECK_FALSE(is_harmless_path("a\xff"));
  CHECK(is_harmless_path("a/..b/c..d"));
}

TEST_CASE("organization/name is a path where there is one, else a model on a hub") {
  const TemporaryFolder folder;
  const std::string yaml = "{model.source: org/name}";
  CHECK(spec_with(yaml, folder.path()).model.source == "hf://org/name");
  std::filesystem::create_directories(folder.path() / "org/name");
  CHECK(spec_with(yaml, folder.path()).model.source == folder.path() / "org/name");
  // Data has no such short form, and neither have deeper paths.
  CHECK(spec_with("{data.train: org/x}", folder.path()).data.train == folder.path() / "org/x");
  CHECK(spec_with("{model.source: a/b/c}", folder.path()).model.source == folder.path() / "a/b/c");
}

TEST_CASE("a name that the key cannot have is refused with what it can") {
  const TemporaryFolder folder;
  for (const std::string yaml :
       {"{model.source: hf://org/name/file}", "{model.source: hf://datasets/org/name}",
        "{data.train: hf://datasets/org/name}", "{resume: hf://org/name}",
        "{data.tokenizer: hf://x}"}) {
    CHECK_THROWS_WITH(spec_with(yaml, folder.path()), Catch::Contains("allowed: "));
  }
}

TEST_CASE("a model that is not fetched is answered with fetch and, for a plan, with its preset") {
  const TemporaryFolder folder;
  setenv("HF_HUB_CACHE", folder.path().c_str(), 1);
  for (const auto& [name, preset] :
       {std::pair("openlm-research/open_llama_7b", "llama-7b"),
        std::pair("meta-llama/Llama-2-7b-hf", "llama2-7b"),
        std::pair("meta-llama/Meta-Llama-3-8B-Instruct", "llama3-8b"),
        std::pair("meta-llama/Llama-3.1-8B", "llama3.1-8b"),
        std::pair("TinyLlama/TinyLlama-1.1B-Chat-v1.0", "tinyllama-1.1b"),
        std::pair("google-t5/t5-small", "t5-small"), std::pair("google/flan-t5-small", ""),
        std::pair("meta-llama/Llama-3.1-70B", ""), std::pair("org/name", "")}) {
    RunSpec spec;
    spec.model.source = std::string("hf://") + name;
    std::string told;
    try {
      model_config(spec);
    } catch (const ConfigError& error) {
      told = error.what();
    }
    INFO(told);
    CHECK(told.starts_with("'model.source': " + std::string(name) + " is not in "));
    const bool is_offered =
        told.ends_with("--set model.source=null --set model.config=" + std::string(preset));
    CHECK(is_offered == (std::string(preset) != ""));
    CHECK((told.find("--set") != told.npos) == is_offered);
  }
}

TEST_CASE("a name becomes the files of the cache when all that the hub lists are there") {
  const TemporaryFolder folder;
  setenv("HF_HUB_CACHE", folder.path().c_str(), 1);
  RunSpec spec;
  spec.model.source = "hf://org/name";
  const auto taken = [&] {
    RunSpec copy = spec;
    take_from_cache(copy);
    return copy.model.source;
  };
  const CachedRepository repository(folder.path(), parse_hub_name("hf://org/name"));
  const auto snapshot = repository.snapshot(kCommit);
  std::filesystem::create_directories(snapshot);
  std::ofstream(snapshot / "model.safetensors") << "weights";
  std::ofstream(snapshot / "config.json") << "{}";
  CHECK_THROWS_WITH(require_fetched(spec), Catch::Contains("'model.source': org/name is not in " +
                                                           folder.path().string()) &&
                                               Catch::Contains("fsdp-run fetch EXPERIMENT"));
  std::filesystem::create_directories(repository.ref("main").parent_path());
  std::ofstream(repository.ref("main")) << kCommit;
  CHECK(taken() == "hf://org/name");
  CHECK_THROWS_WITH(require_fetched(spec), Catch::Contains("the hub's list of its files is not"));
  HubListing listing;
  for (const auto& [name, size_bytes] :
       {std::pair("config.json", 2), std::pair("model.safetensors", 7),
        std::pair("README.md", 9)}) {
    listing.files.push_back({name, size_bytes, {true, std::string(64, 'a')}});
  }
  const auto record = repository.listing(kCommit, "", false);
  std::filesystem::create_directories(record.parent_path());
  std::ofstream(record) << listing_text(listing);
  CHECK(repository.read_listing(kCommit, "", false) == listing);
  CHECK(taken() == snapshot);
  listing.files.push_back({"tokenizer_config.json", 2, {false, std::string(40, 'b')}});
  std::ofstream(record) << listing_text(listing);
  CHECK(taken() == "hf://org/name");
  CHECK_THROWS_WITH(require_fetched(spec), Catch::Contains("tokenizer_config.json is missing"));
  std::ofstream(repository.ref("main")) << "../../../etc";
  CHECK(taken() == "hf://org/name");
  std::filesystem::remove(repository.ref("main"));
  REQUIRE(mkfifo(repository.ref("main").c_str(), 0600) == 0);
  CHECK(taken() == "hf://org/name");  // does not wait for the pipe
  CHECK_THROWS_WITH(require_fetched(spec), Catch::Contains("refs/main: 'model.source': cannot be"));
  unsetenv("HF_HUB_CACHE");
}

}  // namespace
}  // namespace fsdp
