#pragma once

#include <string>
#include <vector>

#include "contract/files/hub_listing.h"
#include "contract/text/hub_name.h"
#include "runner/fetch/http.h"

// Reads repositories of a Hugging Face hub. Errors are ConfigErrors (place and key empty) if the
// name or token is wrong, and std::runtime_error if the hub or the connection fails.
namespace fsdp {

// Returns HF_ENDPOINT, or else https://huggingface.co, and the token of HF_TOKEN or of the file
// that `hf auth login` writes. Throws ConfigError if one of them cannot be used.
Endpoint endpoint_from_environment(double patience_s);

class Hub {
 public:
  Hub(const Endpoint& endpoint, HttpClient& http, double first_wait_s)
      : endpoint_(endpoint), http_(http), first_wait_s_(first_wait_s) {}

  // Returns the commit of the revision.
  std::string commit_of(const HubName& name);

  // Returns the files in `folder` of a commit, or in the root if `folder` is empty. Includes files
  // in folders below it only if `is_recursive`. Every path is harmless, every hash hexadecimal. The
  // list is empty if `folder` does not exist.
  std::vector<ListedFile> files(const HubName& name, const std::string& commit,
                                const std::string& folder, bool is_recursive);

  std::string url(const HubName& name, const std::string& commit, const std::string& path) const;

 private:
  // Repeats the request if that may help.
  std::string get_text(const HubName& name, const std::string& url, HttpResponse& response);

  const Endpoint& endpoint_;
  HttpClient& http_;
  double first_wait_s_;
};

}  // namespace fsdp
