// Lets rank 0 judge what all ranks say. Rank 0 leaves last, because it serves the store.
#include "trainer/comm/verdict.h"

namespace fsdp {

std::string verdict_on(const std::string& subject, const std::string& said, ProcessGroup& group,
                       const Judge& judge) {
  const auto key_of = [&](int rank) { return subject + "/" + std::to_string(rank); };
  std::string answer;
  if (group.rank() != 0) {
    group.leave(key_of(group.rank()), said);
  } else {
    std::vector<std::string> all{said};
    for (int rank = 1; rank < group.size(); ++rank) all.push_back(group.take(key_of(rank)));
    answer = judge(all);
  }
  answer = group.agree(subject, answer);
  if (answer.empty()) return answer;
  // Rank 0 hosts the store, so it leaves after the others have the answer.
  const auto heard_key_of = [&](int rank) { return "heard of " + key_of(rank); };
  if (group.rank() != 0) {
    group.leave(heard_key_of(group.rank()), "");
  } else {
    for (int rank = 1; rank < group.size(); ++rank) group.take(heard_key_of(rank));
  }
  return answer;
}

}  // namespace fsdp
