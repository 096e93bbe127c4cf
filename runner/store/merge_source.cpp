#include "runner/store/merge_source.h"

#include <array>
#include <stdexcept>

#include "contract/record/digest.h"
#include "runner/store/migrations.h"

namespace fsdp {
namespace {

using std::filesystem::path;

struct RowsThatMustNotBe {
  const char* rows;
  const char* problem;
};

constexpr std::array kRowsThatMustNotBe = {
    RowsThatMustNotBe{"runs where ranks not between 1 and 1000000",
                      "has runs of no or endless ranks"},
    RowsThatMustNotBe{
        "ranks k join runs r on r.id = k.run where k.rank not between 0 and r.ranks - 1",
        "has ranks that their runs do not have"},
    RowsThatMustNotBe{"attempts where attempt not between 1 and 1000000",
                      "has attempts that are not numbered from 1"},
};

void require_whole(Database& database) {
  const auto found = Statement(database, "pragma quick_check(1)").value<std::string>();
  if (found != "ok") throw std::runtime_error("is damaged: " + found.value_or(""));
}

void require_rows_referred_to(Database& database) {
  Statement(database, "select \"table\", parent from pragma_foreign_key_check limit 1")
      .query([&](Statement& row) {
        const std::string table = row.next<std::string>();
        throw std::runtime_error("is damaged: rows of its table " + table + " refer to rows of " +
                                 row.next<std::string>() + " that are not there");
      });
}

void require_true_digests(Database& database) {
  Statement(database, "select digest, text from experiment_texts").query([&](Statement& row) {
    const std::string digest = row.next<std::string>();
    if (text_digest(row.next<std::string>()) != digest) {
      throw std::runtime_error("was changed: its text of the digest " + digest +
                               " has another digest");
    }
  });
}

// Of the source's own runs; what it has merged lies elsewhere, and is only ever read.
void require_folders_within(Database& database) {
  Statement(database,
            "select r.folder from runs r join experiments e on e.name = r.experiment "
            "where e.source = ''")
      .query([&](Statement& row) {
        const path folder = row.next<path>();
        const path normal = folder.lexically_normal();
        if (normal.empty() || normal.is_absolute() || *normal.begin() == "..") {
          throw std::runtime_error("has a run whose folder lies outside of its results: '" +
                                   folder.string() + "'");
        }
      });
}

}  // namespace

Database sound_copy(const MergeSource& source) {
  Database copy = Database::copy_of(source.results / "results.sqlite");
  require_ours(copy);
  require_whole(copy);
  migrate(copy);
  require_rows_referred_to(copy);
  require_true_digests(copy);
  require_folders_within(copy);
  for (const RowsThatMustNotBe& forbidden : kRowsThatMustNotBe) {
    if (Statement(copy, std::string("select exists (select 1 from ") + forbidden.rows + ")")
            .value<int64_t>() != 0) {
      throw std::runtime_error(forbidden.problem);
    }
  }
  return copy;
}

}  // namespace fsdp
