#pragma once

#include <string>
#include <vector>

#include "contract/files/hub_listing.h"
#include "contract/text/hub_name.h"
#include "runner/fetch/http.h"

// What a Hugging Face hub says of its repositories. Errors are ConfigErrors (place and key empty)
// where the name or the token is at fault, std::runtime_error where the hub or the way to it is.
namespace fsdp {

// HF_ENDPOINT, else https://huggingface.co, and the token of HF_TOKEN or the file that
// `hf auth login` writes. Throws ConfigError when one of them cannot be used.
Endpoint endpoint_from_environment(double patience_s);

class Hub {
 public:
  Hub(const Endpoint& endpoint, HttpClient& http, double first_wait_s)
      : endpoint_(endpoint), http_(http), first_wait_s_(first_wait_s) {}

  // The commit that the revision is.
  std::string commit_of(const HubName& name);

  // The files in `folder` of a commit, empty: the repository's own; those in folders below it only
  // with `is_recursive`. Every path is harmless, every hash hexadecimal. Where `folder` is not
  // there the list is empty.
  std::vector<ListedFile> files(const HubName& name, const std::string& commit,
                                const std::string& folder, bool is_recursive);

  std::string url(const HubName& name, const std::string& commit, const std::string& path) const;

 private:
  // Asks again when that may help.
  std::string get_text(const HubName& name, const std::string& url, HttpResponse& response);

  const Endpoint& endpoint_;
  HttpClient& http_;
  double first_wait_s_;
};

}  // namespace fsdp
